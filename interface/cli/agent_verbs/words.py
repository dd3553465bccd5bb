"""The words that commands under ``agent`` take in common: NAME, what may follow it, and flags anywhere."""

import argparse

from interface.cli.context import Context


def name_argument(parser: argparse.ArgumentParser) -> None:
    """NAME."""
    parser.add_argument("name", metavar="NAME", help="the agent")


def common_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every command, at the end of its words too."""
    hidden = argparse.SUPPRESS
    parser.add_argument("--json", action="store_true", default=hidden, help="print one JSON document")
    parser.add_argument("--project", metavar="DIR", default=hidden, help=hidden)
    parser.add_argument("-v", "--verbose", action="count", default=hidden, help=hidden)


class Doings:
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
