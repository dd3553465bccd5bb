"""``awk proposal list``: what is put to the vote now; of one workflow, what was as well."""

import argparse

from interface.cli.context import Context
from interface.cli.paging import PROPOSALS, PROPOSALS_OF_RUN, count_flag, show_list
from interface.cli.targets import workflow_target
from interface.client import quoted
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """[@WORKFLOW], [--all]."""
    text = "those of its latest run, ended or not; without it: those that are open, of all workflows"
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", nargs="?", help=text)
    parser.add_argument("--all", action="store_true", help="without a workflow: those that have ended too")
    count_flag(parser)


def run(context: Context) -> int:
    """Print them."""
    target: str | None = context.args.target
    if target is not None and context.args.all:
        raise Failure("usage", "--all is for all workflows: of one, all are shown anyway")
    if target is None:
        query = {} if context.args.all else {"state": "open"}
        return show_list(context, "/proposals", PROPOSALS, "proposals", query)
    path = f"/spaces/{quoted(workflow_target(target).space)}/proposals"
    return show_list(context, path, PROPOSALS_OF_RUN, "proposals")
