"""``awk run``: run a workflow from kickoff to quiescence, and print its conversation and its report.

Standard output contains the conversation, or the report with ``--json``; everything else goes to standard error. With
``--dry-run``, the output is the plan of the run. This needs no kernel, runs no command and requires no trust.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from interface.cli.command_parser import duration, pairs, share, tokens, usd
from interface.cli.commands.send import as_line, as_result, retry_notes
from interface.cli.context import Context
from interface.cli.exits import Exit, Interrupted, interruptible
from interface.cli.output import OutputLost, Screen, decode, escape, one_line
from interface.cli.parsing import Arguments, argument, json_flag, jsonl_flag, switch, workflow_flags
from interface.cli.prompts import answer_in_place, can_ask, decide_in_place, is_question
from interface.cli.run_stream import Run
from interface.cli.targets import RUN, target
from interface.cli.transcript_view import StepReader, entry_lines, who_of
from interface.client import ServerEvent, quoted
from interface.event_follow import Expired
from interface.failure import Failure, Unreachable

if TYPE_CHECKING:
    from interface.cli.run_progress import RunProgress
    from protocol.inspection import Plan


APPROVALS: Final = ("auto", "ask", "all", "deny")
"""Same as protocol.agent.Approval, without the import of msgspec."""
_APPROVE: Final = "override approval of all agents: auto (run all tools), ask (before changes), all (ask always), deny"
_COMPARING: Final = ("repeat", "check", "margin", "seed", "total_cost", "total_tokens", "resume", "keep")
_LIVE: Final = ("delta", "progress", "lagged")
CANCEL_SECONDS: Final = 30.0
"""Time for a cancelled run to end: all steps that stop its workers, and a margin."""
_WHOLE: Final = "with --compare: "
_REPORT: Final = "additional reports, separated by commas: github, junit:FILE, md:FILE, sarif:FILE"
_COMPARE: Final = "compare the workflow with one agent that has the prompts and tools of all members"
_MARGIN: Final = f"{_WHOLE}accepted loss of success rate of the cheaper side (default: 0.2)"
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "run": (
        argument("workflow", metavar="FILE|NAME", help="name in .workflows, file, or github:owner/repo@ref/path.yaml"),
        workflow_flags,
        argument(
            "--timeout", type=duration, metavar="D", help="maximum duration, such as 10m (exit code 124 when exceeded)"
        ),
        argument(
            "--max-cost", type=usd, metavar="USD", help="maximum cost of the run in USD (exit code 6 when exceeded)"
        ),
        argument("--max-tokens", type=tokens, metavar="N", help="maximum tokens (exit code 6 when exceeded)"),
        argument("--exit-code-from", metavar="AGENT", help="only the work of this agent decides the exit code"),
        argument("--fail-on", choices=("error", "never"), default="error", help="never: always exit with code 0"),
        argument("--approve", choices=APPROVALS, help=_APPROVE),
        switch("--detach", about="return after the start; approvals wait in awk needs"),
        argument("--report", action="append", metavar="REPORTS", help=_REPORT),
        switch("--rm", about="stop the kernel after the run if this command started it"),
        switch("--dry-run", about="print the execution plan without running it"),
        argument("--compare", choices=("solo",), help=_COMPARE),
        argument("--repeat", type=pairs, metavar="N", help=f"{_WHOLE}maximum number of pairs (default: 10)"),
        argument("--check", metavar="CMD", help=f"{_WHOLE}shell command that decides success by exit code 0"),
        argument("--margin", type=share, metavar="P", help=_MARGIN),
        argument("--seed", type=int, metavar="N", help=f"{_WHOLE}random seed of the order of the runs in each pair"),
        argument("--total-cost", type=usd, metavar="USD", help=f"{_WHOLE}maximum total cost of all runs in USD"),
        argument("--total-tokens", type=tokens, metavar="N", help=f"{_WHOLE}maximum total tokens of all runs"),
        argument("--resume", metavar="COMPARISON", help=f"{_WHOLE}continue this comparison (c3)"),
        switch("--keep", about=f"{_WHOLE}keep the project copy in which each run works"),
        json_flag,
        jsonl_flag,
    ),
    "watch": (
        argument("target", metavar="RUN|@WORKFLOW[:TAG]", help="run (r12), or workflow (@review[:tag]: latest run)"),
        switch("--exit-status", about="exit with the exit code of the run"),
        json_flag,
        jsonl_flag,
        lambda parser: parser.set_defaults(fail_on="error", detach=True),  # as for run: approvals are decided later
    ),
}


def run_run(context: Context) -> int:
    if context.args.compare is not None:
        from interface.cli.commands.compare import run_compare  # noqa: PLC0415  (seldom, and it takes much)

        if context.args.report or context.args.rm:
            raise Failure("usage", "--compare cannot be combined with --report or --rm", "leave out --report and --rm")
        return run_compare(context)
    alone = [f"--{name.replace('_', '-')}" for name in _COMPARING if getattr(context.args, name) not in (None, False)]
    if alone:
        raise Failure("usage", f"{alone[0]} requires --compare", "add --compare solo, or leave it out")
    ending = None
    if context.args.report or context.args.rm:
        from interface.cli.commands.run_end import Ending  # noqa: PLC0415  (few runs have more to do than to end)

        ending = Ending(context)
    if context.args.dry_run:
        return dry_run(context)
    running = Run(context)
    if context.args.detach:
        for event in running.begin(_request(context)):
            if event.type == "accepted":
                break
        assert running.name is not None
        if context.args.json or context.args.jsonl:
            context.out.document(running.report(context.kernel()))
        else:
            context.out.lines([running.name])
        return Exit.OK
    with interruptible():
        if ending is None:
            return _to_its_end(context, running)
        return ending.after(running, lambda: _to_its_end(context, running))


def _request(context: Context) -> dict[str, object]:
    return {
        "workflow": context.workflow(context.args.workflow),
        "tag": context.args.tag,
        "params": context.params,
        "timeout_seconds": context.args.timeout,
        "max_cost_usd": context.args.max_cost,
        "max_tokens": context.args.max_tokens,
        "exit_code_from": context.args.exit_code_from,
        "approve": context.args.approve,
        "attended": _can_be_approved(context),
        "trust": context.trusts,
        **({"update": True} if context.args.update else {}),
        **({"continue": True} if context.args.go_on else {}),
    }


def _to_its_end(context: Context, running: Run) -> int:
    try:
        return follow(context, running.begin(_request(context)))
    except Interrupted as interrupted:
        return _cancel(context, running, interrupted.exit_code)
    except (BrokenPipeError, OutputLost):
        context.out.silence()
        _cancel(context, running, Exit.BROKEN_PIPE)
        raise


def _can_be_approved(context: Context) -> bool:
    return bool(context.args.detach) or can_ask(context)


def follow(context: Context, events: Iterator[ServerEvent]) -> int:
    """Print the events of a run up to its report. Returns the exit code of the report."""
    from interface.cli.run_progress import RunProgress  # noqa: PLC0415  (threads, which nothing else here needs)

    with RunProgress(context.out, context.clock) as progress:
        return _show(context, events, progress)


def _show(context: Context, events: Iterator[ServerEvent], progress: "RunProgress") -> int:
    steps = StepReader(context)
    for event in events:
        if event.type == "result":
            progress.end()
            report = event.data.encode()
            if context.args.jsonl:
                context.out.document(as_result(report, context.clock.wall()))
            elif context.args.json:
                context.out.document(report)
            else:
                from interface.cli.commands.show import report_lines  # noqa: PLC0415  (JSON needs no msgspec)
                from protocol.api.runs import RunReport  # noqa: PLC0415  (as above)

                left = has_changed_trees(context, report)
                context.out.notes(report_lines(decode(report, RunReport), context.out.error_screen, left=left))
            return Exit.OK if context.args.fail_on == "never" else int(json.loads(report)["exit_code"])
        if not event.data:
            continue
        told = json.loads(event.data)
        if event.type == "accepted":
            progress.name = str(told["run"])
        else:
            progress.take(told)
        if context.args.jsonl:
            context.out.document(as_line(event, context.clock.wall()))
        elif event.type not in ("accepted", *_LIVE):
            _show_event(context, event, told, steps)
    raise Unreachable("the report of the run is missing")


def _show_event(context: Context, event: ServerEvent, told: dict[str, Any], steps: StepReader) -> None:
    from interface.cli.commands.channel import message_lines  # noqa: PLC0415  (JSON lines need no msgspec)
    from interface.cli.event_view import asked_line, event_line, event_of, failure_lines, message_of  # noqa: PLC0415  (as above)

    decoded = event_of(event.data)
    wanted = asked_line(decoded, context.program, can_approve=_can_be_approved(context))
    if decoded.type == "approval.requested" and can_ask(context):
        decide_in_place(context, str(decoded.data["id"]))
    elif is_question(told) and can_ask(context):
        answer_in_place(context, str(decoded.instruction))
    elif wanted is not None:
        context.out.note(wanted)
    context.out.notes(retry_notes(event))
    context.out.notes(failure_lines(decoded))
    message, screen = message_of(decoded), context.out.error_screen
    if message is not None and context.args.json:
        context.out.notes(message_lines(message, screen))
    elif message is not None:
        context.out.lines(message_lines(message, context.out.screen))
    elif context.args.verbose:
        entry = steps.entry(told)
        if entry is None:
            context.out.note(event_line(decoded, screen))
        else:
            context.out.notes(entry_lines(entry, screen, who=who_of(told)))


def has_changed_trees(context: Context, document: bytes) -> bool:
    """Return whether the working trees of the run, which are about to be deleted, have changes."""
    report = json.loads(document)
    branches = set(report["branches"].values())
    if not branches:
        return False
    try:
        found = json.loads(
            context.find_kernel().get(f"/spaces/{quoted(report['run'])}/diff", {"run": str(report["id"])})
        )["worktrees"]
    except (Failure, Unreachable):
        return True  # unknown: the suggested command shows the reason
    return any(tree["branch"] in branches and any(tree["stat"].values()) for tree in found)


def _cancel(context: Context, running: Run, exit_code: Exit) -> int:
    context.out.speak_if_heard()
    context.out.note("note: stopping the run; press Ctrl-C again to leave this to the kernel")
    name = os.path.splitext(os.path.basename(context.args.workflow))[0]
    if not running.cancel(f"{name}:{context.args.tag}", exit_code):
        return exit_code
    try:
        follow(context, running.resume(context.clock.now() + CANCEL_SECONDS))
    except Expired:
        context.out.note(f"note: {running.name} is still running after {CANCEL_SECONDS:.0f} s")
    except (Failure, Unreachable) as error:
        context.out.note(f"note: no report of {running.name}: {error}")
    except (BrokenPipeError, OutputLost):
        context.out.silence()  # the terminal was closed
    return exit_code


def dry_run(context: Context) -> int:
    """Print the execution plan. Raises Failure if the run could not start."""
    from interface.offline import plan  # noqa: PLC0415  (a run needs no files)

    args, workflow = context.args, context.workflow(context.args.workflow)
    made = plan(
        context.project, workflow, args.tag, context.params, context.environ,
        max_usd=args.max_cost, exit_from=args.exit_code_from,
    )  # fmt: skip
    args.json = args.json or args.jsonl
    return context.answer(made, plan_lines)


def plan_lines(plan: "Plan", screen: Screen) -> list[str]:
    members: list[str] = []
    for member in plan.members:
        of = f" (agent {member.ref})" if member.ref not in (None, member.name) else ""
        runs = " ".join(part for part in (member.backend, one_line(member.model)) if part)
        where = f" at {one_line(member.base_url)}" if member.base_url else ""
        key = f", key from {' or '.join(f'${name}' for name in member.keys)}" if member.keys else ""
        state = "" if member.ready else screen.style(" (not set)", "red")
        members.append(f"{member.name}{of}: {runs}{where}{key}{state}")
    params = [
        f"{name}: {(str(value).lower() if isinstance(value, bool) else one_line(str(value)))}"
        for name, value in plan.params.items()
    ]
    setup = [one_line(step.shell) + (f"  # becomes ${{{{ {step.bind} }}}}" if step.bind else "") for step in plan.setup]
    kickoff = ["none: the agents would wait"] if plan.kickoff is None else escape(plan.kickoff).rstrip().split("\n")
    verdict = [f"the approval {one_line(plan.verdict)}; a no is exit code 8"] if plan.verdict else []
    lines = [f"{one_line(plan.run)} would start from {one_line(plan.path)}; nothing was run"]
    for title, part, style in (
        ("agents", members, "bold"),
        ("params", params, "bold"),
        ("setup would run", setup, "bold"),
        (f"kickoff, to {', '.join(plan.wakes) or 'no agent'}", kickoff, "bold"),
        ("decided by", verdict, "bold"),
        ("needs trust", [one_line(demand) for demand in plan.trust], "bold"),
        ("missing here", [one_line(fault) for fault in plan.missing], "red"),
    ):
        if part:
            lines += [screen.style(f"{title}:", style), *(f"  {line}".rstrip() for line in part)]
    return lines


def run_watch(context: Context) -> int:
    named: str = context.args.target
    if not RUN.fullmatch(named):
        asked = target(named)
        if asked.workflow is None or asked.agent is not None:
            hint = f"{context.program} attach {named} follows an agent"
            raise Failure("bad_target", f"{one_line(named)} is neither a run nor a workflow", hint)
        named = str(asked.space)
    report = json.loads(context.kernel().get(f"/runs/{quoted(named)}"))
    running = Run(context, connect=context.find_kernel)
    running.name, running.id = str(report["run"]), str(report["id"])
    with interruptible():
        try:
            code = follow(context, running.resume(None))
        except Interrupted as interrupted:
            context.out.note(f"note: {running.id} continues; follow it: {context.program} watch {running.id}")
            return interrupted.exit_code
    return code if context.args.exit_status else Exit.OK
