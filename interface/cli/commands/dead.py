"""``awk dead``: what failed for good."""

import argparse

from interface.cli.context import Context
from interface.cli.paging import DEAD, count_flag, show_list
from interface.cli.parsing import json_flag
from interface.client import new_key


def configure(parser: argparse.ArgumentParser) -> None:
    """How many, or that they were looked at."""
    parser.add_argument(
        "--clear", action="store_true", help="list what failed until now no more; show and retry still know it"
    )
    count_flag(parser, what="the last N")
    json_flag(parser)


def run(context: Context) -> int:
    """Print the instructions that were given up, or take them off the list."""
    if context.args.clear:
        return context.answer(context.kernel().post("/dead/clear", {}, key=new_key()), "dead_cleared")
    return show_list(context, "/dead", DEAD, "dead")
