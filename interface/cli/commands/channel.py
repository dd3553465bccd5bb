"""``awk channel``: what was said in a workflow."""

import argparse

from interface.cli import conversation
from interface.cli.context import Context
from interface.cli.targets import workflow_target


def configure(parser: argparse.ArgumentParser) -> None:
    """@WORKFLOW and how much of it."""
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", help="the workflow")
    conversation.configure(parser)


def run(context: Context) -> int:
    """Print its messages."""
    return conversation.show(context, workflow_target(context.args.target).space)
