"""``awk proposal vote``: the user's own vote, which counts beside those of the members."""

import argparse

from interface.cli.context import Context
from interface.cli.proposal_verbs.named import change, proposal_argument


def configure(parser: argparse.ArgumentParser) -> None:
    """PROPOSAL CHOICE."""
    proposal_argument(parser)
    parser.add_argument("choice", metavar="CHOICE", help="the id of one of its options: yes or no of an approval")
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept with your vote; the members read it")


def run(context: Context) -> int:
    """Vote, and print how it stands now."""
    body = {"choice": context.args.choice, "reason": context.args.reason}
    return context.answer(change(context, "vote", body), "proposal_changed", f"you voted {context.args.choice}")
