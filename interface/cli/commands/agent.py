"""``awk agent``: the agents of the project as files, and what they know, noted and have to do. Starts no kernel."""

import argparse
from typing import Final

from interface.cli.context import Context
from interface.cli.verbs import Verb, Verbs

VERBS: Final = Verbs(
    "interface.cli.agent_verbs",
    (
        Verb("list", "list the agents of the project"),
        Verb("info", "show what an agent is"),
        Verb("create", "write the file of a new agent"),
        Verb("edit", "change the file of an agent, in an editor or by KEY=VALUE"),
        Verb("delete", "move an agent and its context to the trash"),
        Verb("memory", "show or change what an agent knows"),
        Verb("notes", "show or add notes of an agent"),
        Verb("todo", "show or change what an agent has to do"),
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)
