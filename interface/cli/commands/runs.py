"""``awk runs``: the starts of workflows, and how they ended.

``awk diff``: what agents did in working trees of their own.

``awk show``: a run, or an instruction.

Working trees of agents: for each its branch, commits, files and, where it was asked for, every line.

One instruction: what became of it, attempt by attempt.

The prompt of an instruction, as text: the system prompt, then the messages.

What came of a run: one line of numbers, for people.

A run that is over, or goes on: its conversation, then the summary.

Runs of workflows: what was started when, and what came of it.
"""

import argparse
import json
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from interface.cli.channel_view import message_lines
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.paging import RUNS, count_flag, show_list
from interface.cli.parsing import duration, json_flag
from interface.cli.targets import RUN, target, workflow_target
from interface.client import quoted
from interface.failure import Failure
from protocol.api.instructions import AttemptInfo, InstructionInfo, PromptReport
from protocol.api.runs import RunList, RunReport, RunRow
from protocol.api.worktrees import DiffReport, WorktreeDiff
from protocol.instruction import Usage

STATUSES: Final = ("running", "stopped", "done", "failed", "incomplete", "rejected", "cancelled", "timeout")
DEFAULT_COUNT: Final = 100


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


_INSTRUCTION: Final = re.compile(r"i\d+", re.ASCII)


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


_STYLES = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}


def diff_lines(body: bytes, screen: Screen) -> list[str]:
    """The newest run's trees first."""
    found = msgspec.json.decode(body, type=DiffReport).worktrees
    return [line for tree in found for line in _tree(tree, screen)] or ["no working trees"]


def _tree(tree: WorktreeDiff, screen: Screen) -> Iterator[str]:
    stat = tree.stat
    done = f"files: {stat.files}, lines: +{stat.added} -{stat.deleted}, commits: {stat.commits}"
    done += f", since {one_line(tree.base[:12])}"
    yield f"{screen.style(one_line(tree.agent), 'bold')}  {one_line(tree.branch)}  {done}"
    yield f"  in {one_line(tree.path)}" if tree.state != "planned" else "  not made yet: it has not begun"
    if tree.kept_because:
        yield f"  kept: {one_line(tree.kept_because)}"
    yield from (f"  {one_line(commit.id[:12])} {one_line(commit.subject)}" for commit in tree.commits)
    yield from (f"  +{file.added} -{file.deleted}\t{one_line(file.path)}" for file in tree.files)
    yield from (_coloured(line, screen) for line in tree.patch.splitlines())
    if tree.truncated:
        yield "  [... the rest is left out: git diff shows all of it there ...]"


def _coloured(line: str, screen: Screen) -> str:
    style = _STYLES.get(line[:1])
    return escape(line) if style is None else screen.style(escape(line), style)


def prompt_lines(body: bytes, screen: Screen) -> list[str]:
    """All of it, each message under its role."""
    prompt = msgspec.json.decode(body, type=PromptReport)
    shown = [*_text(prompt.system)]
    for message in prompt.messages:
        shown += ["", screen.style(f"{message.role}:", "bold"), *_text(message.text)]
    return shown


def _text(text: str) -> list[str]:
    return escape(text).rstrip("\n").split("\n") if text else []


_STYLE = {"done": "green", "running": "cyan"}


def report_lines(body: bytes, screen: Screen, *, left: bool = False) -> list[str]:
    """The summary of a run. ``left``: agents did something in working trees of their own, which stay."""
    report = msgspec.json.decode(body, type=RunReport)
    status = screen.style(report.status, _STYLE.get(report.status, "red"))
    counts = ", ".join(f"{count} {name}" for name, count in report.instructions.items() if count)
    verdict = [f"verdict {one_line(report.verdict)}"] if report.verdict else []
    failed = ", ".join(f"{count} of {one_line(tool)}" for tool, count in report.failed_calls.items())
    calls = [f"calls that failed: {failed}"] if failed else []
    parts = [f"instructions: {counts or 'none'}", *verdict, *calls, usage(report.usage)]
    trees = [f"in working trees of their own: awk diff {one_line(report.id)}"] if left else []
    name = one_line(f"{report.id} {report.run}")
    return [f"{name} {status} in {report.duration_seconds:.1f} s; {'; '.join(parts)}", *trees]


def usage(used: Usage) -> str:
    """Tokens and cost; a cost that is not known is not shown as nothing."""
    cost = "" if used.cost_usd is None else f", ${used.cost_usd:.4f}"
    return f"{used.input_tokens + used.cache_write_tokens:,} tokens in, {used.output_tokens:,} out{cost}"


FAILED_CALLS: Final = 20
APPROVALS: Final = 20
"""How many are shown, the last; ``--json`` has all."""


def instruction_lines(body: bytes, screen: Screen) -> list[str]:
    """Its state, attempts, steps and text."""
    info = msgspec.json.decode(body, type=InstructionInfo)
    why = f" ({info.error_class}: {info.cause})" if info.cause else ""
    # What keeps it, if anything does, for how long, and what to do about it.
    if info.approval and info.waits_for == "approval":
        waits_name = info.approval
        waits = (
            f"approval {waits_name} until {info.approval_expires}: awk pending {waits_name}, awk approve {waits_name}"
        )
    elif info.standing not in ("time", "person"):
        waits = info.waits_for or ""
    elif info.unasked:
        waits = f"{info.waits_for}: {info.unasked}, then restart --kernel from that shell"
    else:
        waits = f"{info.waits_for} until {info.until or 'somebody ends that'}"
    facts = {
        "agent": info.agent,
        "space": info.space,
        "lane": info.lane,
        "status": info.status + why,
        "waits": waits,
        "messages": ", ".join(info.message_ids),
        "continues": info.continues or "",
        "usage": usage(info.usage),
        "prompt": " + ".join(info.prompt_manifest),
    }
    # Calls that gave an error or were not run, the last of them, with what the model read.
    calls = [(step.n, call) for step in info.steps for call in step.failed]
    told = [f"  step {n}  {one_line(call.tool)}  {call.why}: {one_line(call.text)}" for n, call in calls]
    # What it asked for, the last of that, and which calls were granted and have not run.
    approvals: list[str]
    if not info.approvals:
        approvals = []
    else:
        unheard = "never run" if info.standing == "ended" else "not run yet: no attempt has heard of it"
        asked = [
            f"  {one.id}  {one_line(one.tool)}  {one.state}"
            + (f", {unheard}" if one.state == "granted" and not one.heard else "")
            for one in info.approvals
        ]
        left_out = len(asked) - APPROVALS
        earlier = [f"  {left_out} earlier ones: --json lists them"] if left_out > 0 else []
        approvals = ["", "approvals:", *earlier, *asked[-APPROVALS:]]
    return [
        screen.style(one_line(info.id), "bold"),
        *(f"  {name:<9} {one_line(value)}" for name, value in facts.items() if value),
        *_attempts(info, screen),
        *(["", "calls that failed:", *told[-FAILED_CALLS:]] if told else []),
        *approvals,
        *_complaint(info),
        *(["", *escape(info.text).rstrip("\n").split("\n")] if info.text else []),
    ]


def _complaint(info: InstructionInfo) -> list[str]:
    """What the last worker that failed wrote to its standard error."""
    failed = [attempt for attempt in info.attempts if attempt.stderr_tail]
    if not failed or not failed[-1].stderr_tail:
        return []
    last = failed[-1]
    tail = escape(str(last.stderr_tail)).rstrip("\n").split("\n")
    return ["", f"attempt {last.n} wrote to its standard error:", *(f"  {line}" for line in tail)]


def _attempts(info: InstructionInfo, screen: Screen) -> list[str]:
    if not info.attempts:
        return []
    header = ["ATTEMPT", "EPOCH", "STARTED", "ENDED", "OUTCOME", "EXIT", "STEPS"]
    return ["", *table(header, [_row(attempt, info) for attempt in info.attempts], screen)]


def _row(attempt: AttemptInfo, info: InstructionInfo) -> list[str]:
    steps = sum(step.attempt == attempt.n for step in info.steps)
    ended = (attempt.ended_at or "-", attempt.outcome or "-", attempt.exit or "-")
    return [str(attempt.n), str(attempt.epoch), attempt.started_at, *ended, str(steps)]


def run_lines(body: bytes, screen: Screen) -> list[str]:
    """All that was said in the run, and what came of it."""
    said = msgspec.json.decode(body, type=RunReport).messages
    return [*(line for message in said for line in message_lines(message, screen)), *report_lines(body, screen)]


_HEADER = ["ID", "WORKFLOW", "STATUS", "STARTED", "DURATION", "VERDICT", "COST"]


def runs_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each. What was stopped by hand has no status but that."""
    rows = [_runs_row(row) for row in msgspec.json.decode(body, type=RunList).runs]
    return table(_HEADER, rows, screen, right=frozenset({"DURATION", "COST"})) if rows else ["there are no such runs"]


def _runs_row(row: RunRow) -> list[str]:
    cost = "-" if row.cost_usd is None else f"${row.cost_usd:.4f}"
    return [
        row.id,
        row.run,
        row.status or row.state,
        row.started_at,
        f"{row.duration_seconds:.1f}s",
        row.verdict or "-",
        cost,
    ]
