"""Commands with commands under them (``awk agent list``), and the words that those of ``agent`` take in common."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from interface.cli.command_table import Configure, Run, load
from interface.cli.context import Context
from interface.cli.parsing import json_flag


def name_argument(parser: argparse.ArgumentParser) -> None:
    """NAME."""
    parser.add_argument("name", metavar="NAME", help="the agent")


def common_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every command, at the end of its words too."""
    hidden = argparse.SUPPRESS
    parser.add_argument("--json", action="store_true", default=hidden, help="print one JSON document")
    parser.add_argument("--project", metavar="DIR", default=hidden, help=hidden)
    parser.add_argument("-v", "--verbose", action="count", default=hidden, help=hidden)


class AgentArguments:
    """The words that may follow NAME, each with what it takes."""

    def __init__(self, parser: argparse.ArgumentParser, shown: str, more: str = "") -> None:
        self._words = parser.add_subparsers(dest="doing", metavar=shown, help=f"without it: show all{more}")

    def add(self, word: str) -> argparse.ArgumentParser:
        """The parser of one."""
        parser = self._words.add_parser(word, allow_abbrev=False)
        common_flags(parser)
        return parser


def text_of(context: Context, given: str) -> str:
    """``given``, or standard input for ``-``. Raises Failure (usage)."""
    context.args.message = given
    return context.message()


class Subcommand(NamedTuple):
    """One of the commands under a command."""

    word: str
    help: str
    file: str = ""
    """Its module in interface.cli.commands, where that is not the command's."""


class Subcommands(NamedTuple):
    """All under one command, whose module in interface.cli.commands is ``file``."""

    file: str
    verbs: Sequence[Subcommand]

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """VERB and what it takes."""
        words = ", ".join(verb.word for verb in self.verbs)
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, help=words)
        for verb in self.verbs:
            about = f"{verb.help[0].upper()}{verb.help[1:]}."
            one = verbs.add_parser(verb.word, help=verb.help, description=about, allow_abbrev=False)
            self._load(verb)[0](one)
            common_flags(one)
        json_flag(parser)

    def run(self, context: Context) -> int:
        """Do it."""
        verb = next(verb for verb in self.verbs if verb.word == context.args.verb)
        return self._load(verb)[1](context)

    def _load(self, verb: Subcommand) -> tuple[Configure, Run]:
        return load(f"interface.cli.commands.{verb.file or self.file}", verb.word)
