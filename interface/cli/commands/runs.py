"""``awk runs``: the starts of workflows, and how they ended."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.duration import duration
from interface.cli.paging import RUNS, count_flag, show_list
from interface.cli.parsing import json_flag
from interface.cli.targets import workflow_target

STATUSES: Final = ("running", "stopped", "done", "failed", "incomplete", "rejected", "cancelled", "timeout")
DEFAULT_COUNT: Final = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """[@WORKFLOW[:TAG]], and which of its runs."""
    parser.add_argument(
        "target", metavar="@WORKFLOW[:TAG]", nargs="?", help="only its runs; without a tag those of all its tags"
    )
    parser.add_argument("--status", choices=STATUSES, help="only those that run, or that ended so")
    parser.add_argument("--since", type=duration, metavar="D", help="only those started in the last 10m, 2h, 7d, ...")
    count_flag(parser, DEFAULT_COUNT, "the newest N")
    json_flag(parser)


def run(context: Context) -> int:
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
    return show_list(context, "/runs", RUNS, "runs", query)
