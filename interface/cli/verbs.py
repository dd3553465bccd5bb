"""Commands with commands under them: ``awk agent list``. Each of these is a module of its own, loaded when it is asked
for.
"""

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import NamedTuple

from interface.cli.agent_verbs.words import common_flags
from interface.cli.context import Context
from interface.cli.parsing import json_flag

_Configure = Callable[[argparse.ArgumentParser], None]


class Verb(NamedTuple):
    """One of the commands under a command."""

    word: str
    help: str


class Verbs(NamedTuple):
    """All under one command. ``package`` has a module for each."""

    package: str
    verbs: Sequence[Verb]

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """VERB and what it takes."""
        words = ", ".join(verb.word for verb in self.verbs)
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, help=words)
        for verb in self.verbs:
            about = f"{verb.help[0].upper()}{verb.help[1:]}."
            one = verbs.add_parser(verb.word, help=verb.help, description=about, allow_abbrev=False)
            configure_verb: _Configure = self._module(verb.word).configure
            configure_verb(one)
            common_flags(one)
        json_flag(parser)

    def run(self, context: Context) -> int:
        """Do it."""
        run_verb: Callable[[Context], int] = self._module(context.args.verb).run
        return run_verb(context)

    def _module(self, word: str) -> ModuleType:
        return import_module(f"{self.package}.{f'{word}_' if iskeyword(word) else word}")
