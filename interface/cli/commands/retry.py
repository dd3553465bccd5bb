"""``awk retry``: what failed or is dead is tried again, after its last finished entry."""

import argparse

from interface.cli.changing import change_instructions, ids_argument
from interface.cli.context import Context


def configure(parser: argparse.ArgumentParser) -> None:
    """ID... and how much of it again."""
    ids_argument(parser)
    parser.add_argument("--fresh", action="store_true", help="from the beginning; what its calls did may happen twice")


def run(context: Context) -> int:
    """Put each of them back into its lane."""
    return change_instructions(context, "retry", {"fresh": context.args.fresh})
