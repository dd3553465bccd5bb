"""``awk skills``: what agents can read up on. Imported skills are files of the project. Starts no kernel."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.verbs import Verb, Verbs

VERBS: Final = Verbs(
    "interface.cli.skill_verbs",
    (
        Verb("list", "list the skills of the project, and who reads them"),
        Verb("import", "copy skills out of a repository, pinned to a commit"),
        Verb("update", "look up again what imported skills come from"),
        Verb("rm", "remove imported skills"),
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)
