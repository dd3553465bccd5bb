"""``awk run``: a workflow from kickoff to quiescence; its conversation as it happens, its report at the end.

The result on stdout is the conversation, or the report with ``--json``; whatever is not it goes to stderr.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from interface.cli.amount import tokens, usd
from interface.cli.asking import can_ask
from interface.cli.context import Context
from interface.cli.delivery import as_line, as_result, retry_notes
from interface.cli.duration import duration
from interface.cli.exits import Exit, Interrupted
from interface.cli.output import OutputLost
from interface.cli.parsing import continue_flag, json_flag, jsonl_flag, tag_flag, trust_flag, update_flag
from interface.cli.rehearsal import rehearse
from interface.cli.running import Run
from interface.cli.signals import interruptible
from interface.client import quoted
from interface.failure import Failure, Unreachable
from interface.follow import Expired
from interface.sse import ServerEvent

CANCEL_SECONDS: Final = 30.0
"""How long a cancelled run may take to end: the workers' stop ladder, and some."""


APPROVALS: Final = ("auto", "ask", "all", "deny")
"""As protocol.agent.Approval, which costs msgspec."""


def configure(parser: argparse.ArgumentParser) -> None:
    """FILE or NAME, and how."""
    parser.add_argument(
        "workflow",
        metavar="FILE|NAME",
        help="a workflow file, a name from .workflows, or github:owner/repo@ref/path.yaml",
    )
    tag_flag(parser)
    trust_flag(parser)
    update_flag(parser)
    continue_flag(parser)
    parser.add_argument("--timeout", type=duration, metavar="D", help="end it after so long (30s, 10m): exit 124")
    parser.add_argument("--max-cost", type=usd, metavar="USD", help="end it once it has cost so much: exit 6")
    parser.add_argument("--max-tokens", type=tokens, metavar="N", help="end it once it has used so many tokens: exit 6")
    parser.add_argument(
        "--exit-code-from", metavar="AGENT", help="exit as the work of this agent ends, whatever that of others does"
    )
    parser.add_argument(
        "--fail-on", choices=("error", "never"), default="error", help="never: exit 0 once it has ended, however it did"
    )
    parser.add_argument(
        "--approve",
        choices=APPROVALS,
        help="whether you are asked before a tool runs, whatever the agents' files say",
    )
    parser.add_argument(
        "--detach", action="store_true", help="return once it runs; what needs your approval waits for it (pending)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would start; runs and asks nothing")
    json_flag(parser)
    jsonl_flag(parser)


def run(context: Context) -> int:
    """Returns the report's exit code; 129, 130 or 143 where it was interrupted."""
    if context.args.dry_run:
        return rehearse(context)
    request = {
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
    running = Run(context)
    if context.args.detach:
        return _detach(context, running, request)
    with interruptible():
        try:
            return _follow(context, running.begin(request))
        except Interrupted as interrupted:
            return _cancel(context, running, interrupted.exit_code)
        except (BrokenPipeError, OutputLost):
            context.out.silence()
            _cancel(context, running, Exit.BROKEN_PIPE)
            raise


def _can_be_approved(context: Context) -> bool:
    """Whether what needs an approval waits for one: somebody is here to give it, or comes back to a run left alone."""
    return bool(context.args.detach) or can_ask(context)


def _follow(context: Context, events: Iterator[ServerEvent]) -> int:
    for event in events:
        if event.type == "result":
            return _conclude(context, event.data.encode())
        if event.data:
            _show(context, event)
    raise Unreachable("the run has no report")


def _show(context: Context, event: ServerEvent) -> None:
    if context.args.jsonl:
        context.out.document(as_line(event, context.clock.wall()))
        return
    if event.type == "accepted":
        return
    from interface.cli.views.events import asked_line, decode, event_line, failure_lines, message_of  # noqa: PLC0415  (JSON lines need no msgspec)
    from interface.cli.views.messages import message_lines  # noqa: PLC0415  (as above)

    decoded = decode(event.data)
    wanted = asked_line(decoded, context.program, attended=_can_be_approved(context))
    if wanted is not None:
        context.out.note(wanted)
    context.out.notes(retry_notes(event))
    context.out.notes(failure_lines(decoded))
    message = message_of(decoded)
    if message is None:
        if context.args.verbose and decoded.seq is not None:
            context.out.note(event_line(decoded, context.out.error_screen))
    elif context.args.json:
        context.out.notes(message_lines(message, context.out.error_screen))
    else:
        context.out.lines(message_lines(message, context.out.screen))


def _conclude(context: Context, report: bytes) -> int:
    if context.args.jsonl:
        context.out.document(as_result(report, context.clock.wall()))
    elif context.args.json:
        context.out.document(report)
    else:
        from interface.cli.views.report import lines  # noqa: PLC0415  (JSON needs no msgspec)

        left = _left_something(context, json.loads(report))
        context.out.notes(lines(report, context.out.error_screen, left=left))
    return Exit.OK if context.args.fail_on == "never" else int(json.loads(report)["exit_code"])


def _left_something(context: Context, report: Mapping[str, Any]) -> bool:
    """Whether anything was done in working trees of the run: the others are about to be removed."""
    branches = set(report["branches"].values())
    if not branches:
        return False
    try:
        found = json.loads(
            context.find_kernel().get(f"/spaces/{quoted(report['run'])}/diff", {"run": str(report["id"])})
        )["worktrees"]
    except (Failure, Unreachable):
        return True  # nobody can say; the command that is named will
    return any(tree["branch"] in branches and any(tree["stat"].values()) for tree in found)


def _cancel(context: Context, running: Run, exit_code: Exit) -> int:
    """Stop the run, wait for it to end, and report it all the same. A second signal ends only us."""
    context.out.speak_if_heard()
    context.out.note("note: stopping the run; once more to leave it to the kernel")
    name = os.path.splitext(os.path.basename(context.args.workflow))[0]
    if not running.cancel(f"{name}:{context.args.tag}", exit_code):
        return exit_code
    try:
        _follow(context, running.resume(context.clock.now() + CANCEL_SECONDS))
    except Expired:
        context.out.note(f"note: {running.name} has not ended after {CANCEL_SECONDS:.0f} s")
    except (Failure, Unreachable) as error:
        context.out.note(f"note: no report of {running.name}: {error}")
    except (BrokenPipeError, OutputLost):
        context.out.silence()  # a terminal that was closed
    return exit_code


def _detach(context: Context, running: Run, request: Mapping[str, object]) -> int:
    for event in running.begin(request):
        if event.type == "accepted":
            break
    assert running.name is not None
    if context.args.json or context.args.jsonl:
        context.out.document(running.report(context.kernel()))
    else:
        context.out.lines([running.name])
    return Exit.OK
