"""``awk proposal cancel``: nobody votes on it any more, and nobody wins."""

import argparse

from interface.cli.context import Context
from interface.cli.proposal_verbs.named import change, proposal_argument


def configure(parser: argparse.ArgumentParser) -> None:
    """PROPOSAL."""
    proposal_argument(parser)
    parser.add_argument("--reason", metavar="TEXT", default="", help="the members read it")


def run(context: Context) -> int:
    """Call it off."""
    return context.answer(change(context, "cancel", {"reason": context.args.reason}), "proposal_changed")
