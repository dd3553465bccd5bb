"""``awk stats``: what work took, by agent, workspace and model."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import json_flag
from interface.cli.targets import target_query


def configure(parser: argparse.ArgumentParser) -> None:
    """[TARGET]."""
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="alice, @review[:tag] or alice@review (default: all work)"
    )
    json_flag(parser)


def run(context: Context) -> int:
    """Print instructions by how they ended, steps, tokens, cost and time worked, over all that is kept."""
    query = target_query(context.args.target)
    return context.answer(context.kernel().get("/usage", query), "stats")
