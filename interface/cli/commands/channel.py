"""``awk channel``: what was said in a workflow."""

import argparse

from interface.cli import conversation
from interface.cli.context import Context
from interface.cli.targets import workflow_target


def configure(parser: argparse.ArgumentParser) -> None:
    """@WORKFLOW and how much of it."""
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", help="the workflow")
    parser.add_argument("--run", metavar="RUN", help="only what was said in that run (r12), also an earlier one")
    conversation.configure(parser)


def run(context: Context) -> int:
    """Print its messages: of its newest run, or of the one that is asked for."""
    space = workflow_target(context.args.target).space
    return conversation.show(context, space, run=context.args.run)
