"""``awk agent``: the agents of the project as files, and what they know, noted and have to do. Starts no kernel."""

import argparse
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple

from interface.cli.agent_verbs.words import common_flags
from interface.cli.context import Context
from interface.cli.parsing import json_flag

_Configure = Callable[[argparse.ArgumentParser], None]


class _Verb(NamedTuple):
    """One of the commands under ``agent``. Its module is in interface.cli.agent_verbs."""

    word: str
    help: str


VERBS: Final = (
    _Verb("list", "list the agents of the project"),
    _Verb("info", "show what an agent is"),
    _Verb("create", "write the file of a new agent"),
    _Verb("edit", "change the file of an agent, in an editor or by KEY=VALUE"),
    _Verb("delete", "move an agent and its context to the trash"),
    _Verb("memory", "show or change what an agent knows"),
    _Verb("notes", "show or add notes of an agent"),
    _Verb("todo", "show or change what an agent has to do"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, help=", ".join(v.word for v in VERBS))
    for verb in VERBS:
        about = f"{verb.help[0].upper()}{verb.help[1:]}."
        one = verbs.add_parser(verb.word, help=verb.help, description=about, allow_abbrev=False)
        configure_verb: _Configure = _module(verb.word).configure
        configure_verb(one)
        common_flags(one)
    json_flag(parser)


def run(context: Context) -> int:
    """Do it."""
    run_verb: Callable[[Context], int] = _module(context.args.verb).run
    return run_verb(context)


def _module(word: str) -> ModuleType:
    return import_module(f"interface.cli.agent_verbs.{word}")
