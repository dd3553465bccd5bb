"""``awk runs``, ``show`` and ``diff``: workflows that were started, one run or instruction, working trees.

``show --prompt`` prints what the model of an instruction is told first.
"""

import argparse
import json
import re
from typing import TYPE_CHECKING, Final

from interface.cli.channel_view import message_lines
from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line, table
from interface.cli.paging import RUNS, count_flag, show_list
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN, target, workflow_target
from interface.client import quoted
from interface.failure import Failure

if TYPE_CHECKING:
    from protocol.api.instructions import InstructionInfo
    from protocol.instruction import Usage

STATUSES: Final = ("running", "stopped", "done", "failed", "incomplete", "rejected", "cancelled", "timeout")
DEFAULT_COUNT: Final = 100
FAILED_CALLS: Final = 20
APPROVALS: Final = 20
"""Approvals that are shown, the last; ``--json`` has all."""
_INSTRUCTION: Final = re.compile(r"i\d+", re.ASCII)
_STATUS_STYLES: Final = {"done": "green", "running": "cyan"}
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}


def configure_runs(parser: argparse.ArgumentParser) -> None:
    """[@WORKFLOW[:TAG]], and which of its runs."""
    parser.add_argument(
        "target", metavar="@WORKFLOW[:TAG]", nargs="?", help="only its runs; without a tag those of all its tags"
    )
    parser.add_argument("--status", choices=STATUSES, help="only those that run, or that ended so")
    parser.add_argument("--since", type=duration, metavar="D", help="only those started in the last 10m, 2h, 7d, ...")
    count_flag(parser, DEFAULT_COUNT, "the newest N")
    json_flag(parser)


def run_runs(context: Context) -> int:
    """Print one line for each, the last one first."""
    query: dict[str, str] = {}
    if context.args.target is not None:
        asked = workflow_target(context.args.target)
        query["workflow"] = str(asked.workflow)
        if ":" in context.args.target:
            query["tag"] = asked.tag
    if context.args.status is not None:
        query["status"] = context.args.status
    if context.args.since is not None:
        query["since"] = str(max(0, round((context.clock.wall() - context.args.since) * 1000)))
    return show_list(context, "/runs", RUNS, runs_lines, query)


def runs_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each. What was stopped by hand has no status but that."""
    from protocol.api.runs import RunList  # noqa: PLC0415  (JSON needs no types)

    rows: list[list[str]] = []
    for row in decode(body, RunList).runs:
        cost = "-" if row.cost_usd is None else f"${row.cost_usd:.4f}"
        took = f"{row.duration_seconds:.1f}s"
        rows.append([row.id, row.run, row.status or row.state, row.started_at, took, row.verdict or "-", cost])
    header = ["ID", "WORKFLOW", "STATUS", "STARTED", "DURATION", "VERDICT", "COST"]
    return table(header, rows, screen, right=frozenset({"DURATION", "COST"})) if rows else ["there are no such runs"]


def configure_show(parser: argparse.ArgumentParser) -> None:
    """RUN or INSTRUCTION."""
    parser.add_argument(
        "id", metavar="RUN|INSTRUCTION", help="a run (r12; review:main: its last) or an instruction (i7)"
    )
    parser.add_argument("--prompt", action="store_true", help="of an instruction: what the model is told first")
    json_flag(parser)


def run_show(context: Context) -> int:
    """Print all that is kept of it."""
    name: str = context.args.id
    if context.args.prompt:
        if not _INSTRUCTION.fullmatch(name):
            raise Failure("usage", f"--prompt is of an instruction (i7), not of {name!r}")
        return context.answer(context.kernel().get(f"/instructions/{name}/prompt"), prompt_lines)
    if _INSTRUCTION.fullmatch(name):
        return context.answer(context.kernel().get(f"/instructions/{name}"), instruction_lines)
    run_name = name.removeprefix("@")
    run_name = run_name if ":" in run_name or RUN.fullmatch(name) else f"{run_name}:main"
    return context.answer(context.kernel().get(f"/runs/{quoted(run_name)}"), run_lines)


def run_lines(body: bytes, screen: Screen) -> list[str]:
    """All that was said in the run, and what came of it."""
    from protocol.api.runs import RunReport  # noqa: PLC0415  (JSON needs no types)

    said = decode(body, RunReport).messages
    return [*(line for message in said for line in message_lines(message, screen)), *report_lines(body, screen)]


def report_lines(body: bytes, screen: Screen, *, left: bool = False) -> list[str]:
    """The result of a run, in one line of numbers. ``left``: working trees of agents stay, for they hold something."""
    from protocol.api.runs import RunReport  # noqa: PLC0415  (JSON needs no types)

    report = decode(body, RunReport)
    status = screen.style(report.status, _STATUS_STYLES.get(report.status, "red"))
    counts = ", ".join(f"{count} {name}" for name, count in report.instructions.items() if count)
    verdict = [f"verdict {one_line(report.verdict)}"] if report.verdict else []
    failed = ", ".join(f"{count} of {one_line(tool)}" for tool, count in report.failed_calls.items())
    calls = [f"calls that failed: {failed}"] if failed else []
    parts = [f"instructions: {counts or 'none'}", *verdict, *calls, usage_text(report.usage)]
    trees = [f"in working trees of their own: awk diff {one_line(report.id)}"] if left else []
    name = one_line(f"{report.id} {report.run}")
    return [f"{name} {status} in {report.duration_seconds:.1f} s; {'; '.join(parts)}", *trees]


def usage_text(used: "Usage") -> str:
    """Tokens and cost; a cost that is not known is not shown as nothing."""
    cost = "" if used.cost_usd is None else f", ${used.cost_usd:.4f}"
    return f"{used.input_tokens + used.cache_write_tokens:,} tokens in, {used.output_tokens:,} out{cost}"


def instruction_lines(body: bytes, screen: Screen) -> list[str]:
    """Its state, attempts, calls that failed, approvals, and its text."""
    from protocol.api.instructions import InstructionInfo  # noqa: PLC0415  (JSON needs no types)

    info = decode(body, InstructionInfo)
    why = f" ({info.error_class}: {info.cause})" if info.cause else ""
    facts = {
        "agent": info.agent,
        "space": info.space,
        "lane": info.lane,
        "status": info.status + why,
        "waits": wait_text(info),
        "messages": ", ".join(info.message_ids),
        "continues": info.continues or "",
        "usage": usage_text(info.usage),
        "prompt": " + ".join(info.prompt_manifest),
    }
    lines = [screen.style(one_line(info.id), "bold")]
    lines += [f"  {name:<9} {one_line(value)}" for name, value in facts.items() if value]
    if info.attempts:
        rows: list[list[str]] = []
        for attempt in info.attempts:
            steps = sum(step.attempt == attempt.n for step in info.steps)
            ended = (attempt.ended_at or "-", attempt.outcome or "-", attempt.exit or "-")
            rows.append([str(attempt.n), str(attempt.epoch), attempt.started_at, *ended, str(steps)])
        header = ["ATTEMPT", "EPOCH", "STARTED", "ENDED", "OUTCOME", "EXIT", "STEPS"]
        lines += ["", *table(header, rows, screen)]
    # Calls that gave an error or were not run, the last of them, with what the model read.
    failed = [(step.n, call) for step in info.steps for call in step.failed]
    calls = [f"  step {n}  {one_line(call.tool)}  {call.why}: {one_line(call.text)}" for n, call in failed]
    lines += ["", "calls that failed:", *calls[-FAILED_CALLS:]] if calls else []
    lines += requested_lines(info)
    # The words of the last worker that failed.
    told = next((attempt for attempt in reversed(info.attempts) if attempt.stderr_tail), None)
    if told is not None:
        tail = escape(str(told.stderr_tail)).rstrip("\n").split("\n")
        lines += ["", f"attempt {told.n} wrote to its standard error:", *(f"  {line}" for line in tail)]
    return [*lines, "", *_text(info.text)] if info.text else lines


def wait_text(info: "InstructionInfo") -> str:
    """The reason why it waits, for how long, and what to do about it; "" where nothing keeps it."""
    if info.approval and info.waits_for == "approval":
        name = info.approval
        return f"approval {name} until {info.approval_expires}: awk pending {name}, awk approve {name}"
    if info.standing not in ("time", "person"):
        return info.waits_for or ""
    if info.unasked:
        return f"{info.waits_for}: {info.unasked}, then restart --kernel from that shell"
    return f"{info.waits_for} until {info.until or 'somebody ends that'}"


def requested_lines(info: "InstructionInfo") -> list[str]:
    """The approvals that it asked for, the last of them, and which calls were granted and have not run."""
    if not info.approvals:
        return []
    unheard = "never run" if info.standing == "ended" else "not run yet: no attempt has heard of it"
    shown = [
        f"  {one.id}  {one_line(one.tool)}  {one.state}"
        + (f", {unheard}" if one.state == "granted" and not one.heard else "")
        for one in info.approvals
    ]
    left_out = len(shown) - APPROVALS
    earlier = [f"  {left_out} earlier ones: --json lists them"] if left_out > 0 else []
    return ["", "approvals:", *earlier, *shown[-APPROVALS:]]


def prompt_lines(body: bytes, screen: Screen) -> list[str]:
    """All of it, each message under its role."""
    from protocol.api.instructions import PromptReport  # noqa: PLC0415  (JSON needs no types)

    prompt = decode(body, PromptReport)
    shown = [*_text(prompt.system)]
    for message in prompt.messages:
        shown += ["", screen.style(f"{message.role}:", "bold"), *_text(message.text)]
    return shown


def _text(text: str) -> list[str]:
    return escape(text).rstrip("\n").split("\n") if text else []


def configure_diff(parser: argparse.ArgumentParser) -> None:
    """TARGET or RUN, and how much of it."""
    parser.add_argument(
        "target",
        metavar="TARGET|RUN",
        help="alice@review[:tag], @review[:tag] for all of its agents, or an earlier run (r12)",
    )
    parser.add_argument("--stat", action="store_true", help="files and numbers of lines only")
    json_flag(parser)


def run_diff(context: Context) -> int:
    """Print commits, files and, of one agent, every line."""
    if RUN.fullmatch(context.args.target):
        client = context.kernel()
        place = json.loads(client.get(f"/runs/{context.args.target}"))["run"]
        answer = client.get(f"/spaces/{quoted(place)}/diff", {"run": context.args.target})
        return context.answer(answer, diff_lines)
    asked = target(context.args.target)
    if asked.workflow is None:
        hint = f"name a run (r1: awk runs lists them), or it in its workflow: {asked.agent}@WORKFLOW"
        raise Failure("bad_target", f"{asked.agent} works in the project itself when it is asked directly", hint)
    query: dict[str, str] = {} if asked.agent is None else {"agent": asked.agent}
    if asked.agent is not None and not context.args.stat:
        query["patch"] = "1"
    return context.answer(context.kernel().get(f"/spaces/{quoted(asked.space)}/diff", query), diff_lines)


def diff_lines(body: bytes, screen: Screen) -> list[str]:
    """Each working tree, of the newest run first: its branch, commits, files and, where asked for, every line."""
    from protocol.api.runs import DiffReport  # noqa: PLC0415  (JSON needs no types)

    lines: list[str] = []
    for tree in decode(body, DiffReport).worktrees:
        stat = tree.stat
        done = f"files: {stat.files}, lines: +{stat.added} -{stat.deleted}, commits: {stat.commits}"
        done += f", since {one_line(tree.base[:12])}"
        lines.append(f"{screen.style(one_line(tree.agent), 'bold')}  {one_line(tree.branch)}  {done}")
        lines.append(f"  in {one_line(tree.path)}" if tree.state != "planned" else "  not made yet: it has not begun")
        lines += [f"  kept: {one_line(tree.kept_because)}"] if tree.kept_because else []
        lines += [f"  {one_line(commit.id[:12])} {one_line(commit.subject)}" for commit in tree.commits]
        lines += [f"  +{file.added} -{file.deleted}\t{one_line(file.path)}" for file in tree.files]
        for line in tree.patch.splitlines():
            style = _DIFF_STYLES.get(line[:1])
            lines.append(escape(line) if style is None else screen.style(escape(line), style))
        lines += ["  [... the rest is left out: git diff shows all of it there ...]"] if tree.truncated else []
    return lines or ["no working trees"]
