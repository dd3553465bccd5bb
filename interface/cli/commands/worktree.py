"""``awk worktree``: the git working trees of agents, and their removal once their runs have ended."""

import argparse
import json
from typing import Final

from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.client import new_key
from protocol.api.runs import RemovedWorktrees, WorktreeList

VERBS: Final = Subcommands(
    "worktree",
    (
        Subcommand("list", "list the working trees there are"),
        Subcommand("rm", "remove those of a run that has ended"),
        Subcommand("prune", "remove all of ended runs in which nothing would be lost"),
    ),
)
_RUN: Final = "only of this run (r12)"


def configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="RUN", help=_RUN)


def run_list(context: Context) -> int:
    query = {} if context.args.run is None else {"run": context.args.run}
    return context.answer(context.kernel().get("/worktrees", query), worktrees_lines)


def worktrees_lines(listed: WorktreeList, screen: Screen) -> list[str]:
    found = listed.worktrees
    rows = [[row.run, row.agent, row.state, str(row.ahead), row.branch, row.path] for row in found]
    lines = table(["RUN", "AGENT", "STATE", "COMMITS", "BRANCH", "PATH"], rows, screen, right=frozenset({"COMMITS"}))
    kept = [one_line(f"{row.branch} is kept: {row.kept_because}") for row in found if row.kept_because]
    return [*lines, *kept] if rows else ["no working trees"]


def configure_rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agents", metavar="AGENT", nargs="*", help="only theirs (default: all of the run)")
    parser.add_argument("--run", metavar="RUN", required=True, help="of this run (r12), which has ended")
    parser.add_argument("--force", action="store_true", help="also work that is nowhere else: it does not come back")


def run_rm(context: Context) -> int:
    return _remove(context, {"run": context.args.run, "agents": context.args.agents, "force": context.args.force})


def configure_prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="RUN", help=_RUN)


def run_prune(context: Context) -> int:
    _remove(context, {} if context.args.run is None else {"run": context.args.run})
    return 0


def _remove(context: Context, asked: dict[str, object]) -> int:
    answer = context.kernel().post("/worktrees/remove", asked, key=new_key())
    context.answer(answer, removed_lines)
    return 1 if json.loads(answer)["kept"] else 0


def removed_lines(done: RemovedWorktrees, _screen: Screen) -> list[str]:
    lines = [one_line(f"removed {row.branch} of {row.run}") for row in done.removed]
    for row in done.kept:
        way = f"awk worktree rm {row.agent} --run {row.run} --force"
        lines.append(one_line(f"kept {row.branch}: {row.kept_because or 'somebody works there'} (merge it, or {way})"))
    return lines or ["nothing to remove"]
