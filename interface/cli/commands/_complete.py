"""``awk _complete KIND``: for our shell scripts. One candidate a line; silent, whatever goes wrong."""

import argparse

from interface.cli.completion.live import candidates
from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.cli.exits import Exit
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """KIND."""
    parser.add_argument("kind", metavar="KIND", help="what is wanted: target, agent, workflow, instruction ...")


def run(context: Context) -> int:
    """Print what there is."""
    try:
        found = candidates(context, context.args.kind)
    except Failure:
        found = []
    context.out.lines(one_line(word) for word in found)
    return Exit.OK
