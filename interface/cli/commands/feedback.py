"""``awk feedback``: what agents, and you, have to say about the work itself."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.verbs import Verb, Verbs

VERBS: Final = Verbs(
    "interface.cli.feedback_verbs",
    (Verb("list", "list what was said about the work"), Verb("add", "add something yourself")),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)
