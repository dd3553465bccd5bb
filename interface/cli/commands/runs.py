"""``awk runs`` and ``diff``: workflows that were started, and what agents did in working trees of their own."""

import argparse
import json
from typing import Final

from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.paging import RUNS, count_flag, show_list
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN, target, workflow_target
from interface.client import quoted
from interface.failure import Failure
from protocol.api.runs import DiffReport, RunList

STATUSES: Final = ("running", "stopped", "done", "failed", "incomplete", "rejected", "cancelled", "timeout")
DEFAULT_COUNT: Final = 100
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}


def configure_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="@WORKFLOW[:TAG]", nargs="?", help="only its runs; without a tag those of all its tags"
    )
    parser.add_argument("--status", choices=STATUSES, help="only those that run, or that ended so")
    parser.add_argument("--since", type=duration, metavar="D", help="only those started in the last 10m, 2h, 7d, ...")
    count_flag(parser, DEFAULT_COUNT, "the newest N")
    json_flag(parser)


def run_runs(context: Context) -> int:
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


def runs_lines(found: RunList, screen: Screen) -> list[str]:
    rows: list[list[str]] = []
    for row in found.runs:
        cost = "-" if row.cost_usd is None else f"${row.cost_usd:.4f}"
        took = f"{row.duration_seconds:.1f}s"
        rows.append([row.id, row.run, row.status or row.state, row.started_at, took, row.verdict or "-", cost])
    header = ["ID", "WORKFLOW", "STATUS", "STARTED", "DURATION", "VERDICT", "COST"]
    return table(header, rows, screen, right=frozenset({"DURATION", "COST"})) if rows else ["there are no such runs"]


def configure_diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET|RUN",
        help="alice@review[:tag], @review[:tag] for all of its agents, or an earlier run (r12)",
    )
    parser.add_argument("--stat", action="store_true", help="files and numbers of lines only")
    json_flag(parser)


def run_diff(context: Context) -> int:
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


def diff_lines(found: DiffReport, screen: Screen) -> list[str]:
    lines: list[str] = []
    for tree in found.worktrees:
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
