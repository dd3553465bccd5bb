"""``awk tool``: the tools that agents can have; the project's own are in its project file. Starts no kernel."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.verbs import Verb, Verbs

VERBS: Final = Verbs(
    "interface.cli.tool_verbs",
    (
        Verb("list", "list the tools that agents can have, and who has them"),
        Verb("add", "make a command a tool of the project"),
        Verb("import", "take tools over from a file of another project"),
        Verb("mock", "have a tool give a canned answer, and nothing run"),
        Verb("rm", "remove a tool of the project"),
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)
