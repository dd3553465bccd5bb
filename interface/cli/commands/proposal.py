"""``awk proposal``: what agents put to the vote, and your say in it."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.verbs import Verb, Verbs

VERBS: Final = Verbs(
    "interface.cli.proposal_verbs",
    (
        Verb("list", "list what is put to the vote, or was in one workflow"),
        Verb("show", "show one proposal, its votes and what came of it"),
        Verb("vote", "vote yourself; a vote is final"),
        Verb("cancel", "call a vote off, so that nobody wins"),
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)
