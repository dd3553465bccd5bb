"""Words to arguments: one argparse parser per command, with our manner of errors and the flags that all have.

Amounts as people type them: money in USD, and numbers of tokens. What is no limit is an error, not ignored.

Durations as people type them: ``500ms``, ``10s``, ``1h30m``, or bare seconds.
"""

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, NoReturn

from interface.cli.command_table import Command
from interface.failure import Failure

Configure = Callable[[argparse.ArgumentParser], None]


class CommandParser(argparse.ArgumentParser):
    """argparse, saying ``error:`` and ``hint:`` as the rest of us does."""

    def error(self, message: str) -> NoReturn:
        """Raises Failure (usage)."""
        # What whoever sends a message most likely meant.
        if not any(action.dest == "message" for action in self._actions):
            advice = ""
        elif message.startswith("unrecognized arguments"):
            advice = "quote a message of several words; "
        else:
            advice = "a message that begins with - goes last, after --; " if message.endswith("MESSAGE") else ""
        raise Failure("usage", message, f"{advice}see {self.prog} --help")


def parser_for(command: Command, program: str, configure: Configure) -> CommandParser:
    """The parser of one command."""
    about = f"{command.help[0].upper()}{command.help[1:]}."
    prog = f"{program} {command.word}"
    epilog = f"Words after -- are {command.after}." if command.takes_params else None
    parser = CommandParser(prog=prog, description=about, epilog=epilog, allow_abbrev=False)
    configure(parser)
    parser.add_argument("--project", metavar="DIR", help="the project (default: found from the working directory)")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; -vv shows where an error arose")
    return parser


def split_params(command: Command, words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Words before the first ``--``, and those after it, for commands that take such as they are."""
    if not command.takes_params or "--" not in words:
        return list(words), ()
    place = list(words).index("--")
    return list(words[:place]), tuple(words[place + 1 :])


def json_flag(parser: argparse.ArgumentParser) -> None:
    """``--json``, which every command that reads has."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def jsonl_flag(parser: argparse.ArgumentParser) -> None:
    """``--jsonl``, which every command that streams has."""
    parser.add_argument("--jsonl", action="store_true", help="print one JSON object a line, as they come")


def tag_flag(parser: argparse.ArgumentParser) -> None:
    """``--tag``, and the word older documents have for it."""
    parser.add_argument("--tag", default="main", metavar="T", help="which instance of the workflow (default: main)")
    parser.add_argument("--instance", dest="tag", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def trust_flag(parser: argparse.ArgumentParser) -> None:
    """``--trust``, for what runs commands of the project's files."""
    parser.add_argument("--trust", action="store_true", help="let it run the commands its files name (setup, shell)")


def update_flag(parser: argparse.ArgumentParser) -> None:
    """``--update``, for workflows of other repositories."""
    parser.add_argument(
        "--update", action="store_true", help="look up again what a remote ref stands for, and pin that"
    )


def continue_flag(parser: argparse.ArgumentParser) -> None:
    """``--continue``, for what starts a workflow."""
    parser.add_argument(
        "--continue", dest="go_on", action="store_true", help="go on with what was said in the run before"
    )


def target_argument(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    parser.add_argument("target", metavar="TARGET", help="alice, @review[:tag] or alice@review[:tag]")


def message_argument(parser: argparse.ArgumentParser) -> None:
    """MESSAGE, or ``-``."""
    parser.add_argument("message", metavar="MESSAGE", help="the text; - reads it from standard input")


_USD: Final = re.compile(r"\$?(\d{1,7}(?:\.\d{1,6})?|\.\d{1,6})", re.ASCII)
_TOKENS: Final = re.compile(r"\d{1,12}", re.ASCII)


def usd(text: str) -> float:
    """``0.50`` or ``$2``. Raises ArgumentTypeError, which argparse shows as a usage error."""
    match = _USD.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= 1_000_000:
        raise ArgumentTypeError(f"{text!r} is not an amount of USD: write it as 0.50, more than 0")
    return float(match[1])


def tokens(text: str) -> int:
    """A whole number, more than 0. Raises ArgumentTypeError."""
    if not _TOKENS.fullmatch(text) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a number of tokens: write it as 50000, more than 0")
    return int(text)


_SECONDS: Final = MappingProxyType({"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0})
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def duration(text: str) -> float:
    """``text`` in seconds. Raises ArgumentTypeError, which argparse shows as a usage error."""
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is not a duration: use 500ms, 10s, 5m, 2h or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
