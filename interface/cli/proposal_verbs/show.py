"""``awk proposal show``: what is voted on, who voted how, and what came of it."""

import argparse

from interface.cli.context import Context
from interface.cli.proposal_verbs.named import parsed, path_of, proposal_argument


def configure(parser: argparse.ArgumentParser) -> None:
    """PROPOSAL."""
    proposal_argument(parser, "shown")


def run(context: Context) -> int:
    """Print all of it."""
    named = parsed(context.args.shown)
    client = context.kernel()
    return context.answer(client.get(path_of(client, named)), "proposal")
