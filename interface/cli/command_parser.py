"""Argument parsing with argparse: parsers of commands and subcommands, and argument types (money, tokens, durations).

All parsers have the common flags, and errors in the form of other errors. An invalid limit is an error and never
ignored.
"""

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NamedTuple, NoReturn

from interface.cli.command_table import BY_WORD, Command, Configure, Run, load
from interface.cli.context import Context
from interface.cli.generated_commands import GENERATED, load_verb, verbs
from interface.cli.parsing import json_flag
from interface.failure import Failure

_OURS: Final = tuple(
    (re.compile(theirs, re.DOTALL), ours)
    for theirs, ours in (
        (r"argument (.+?): invalid choice: (.+) \(choose from (.+)\)", r"\1 cannot be \2. Choose: \3"),
        (r"argument (.+?): invalid (?:int|float) value: (.+)", r"\1 needs a number, not \2"),
        (r"argument (.+?): expected (?:at least )?\w+ arguments?", r"\1 needs a value"),
        (r"argument (.+?): not allowed with argument (.+)", r"\1 and \2 cannot be combined"),
        (r"argument (.+?): ignored explicit argument (.+)", r"\1 takes no value, not \2"),
        (r"one of the arguments (.+) is required", r"one of these is missing: \1"),
        (r"the following arguments are required: ([^,]+)", r"\1 is missing"),
        (r"the following arguments are required: (.+)", r"these arguments are missing: \1"),
        (r"argument (.+?): (.+)", r"\1: \2"),
    )
)
"""Messages of argparse (Python 3.11 to 3.14) with their replacements."""


def in_our_words(message: str) -> str:
    """Return a message of argparse in the style of other errors. Unknown messages are returned unchanged."""
    head, choose, choices = message.partition(" (choose from ")
    message = f"{head}{choose}{choices.replace(chr(39), '')}"  # Python 3.11 quotes the choices
    found = ((theirs.fullmatch(message), ours) for theirs, ours in _OURS)
    return next((match.expand(ours) for match, ours in found if match is not None), message)


class CommandParser(argparse.ArgumentParser):
    """Argument parser whose errors have the form of all other errors (``error:`` and ``hint:``)."""

    def flags(self) -> list[str]:
        """Return the long flags of the command and of its subcommands."""
        choices = [one.choices.values() for one in self._actions if isinstance(one.choices, Mapping)]
        below = [flag for parsers in choices for parser in parsers for flag in parser.flags()]
        return [*(flag for flag in self._option_string_actions if flag.startswith("--")), *below]

    def error(self, message: str) -> NoReturn:
        """Raise Failure (usage)."""
        # Suggest the most likely fix: a flag of a similar name, or for commands that send a message another order.
        unknown = re.findall(r" (--[\w-]+)", message) if message.startswith("unrecognized arguments") else ()
        meant = [close[0] for flag in unknown if (close := get_close_matches(flag, self.flags(), n=1))]
        if meant:
            advice = f"did you mean {', '.join(meant)}? "
        elif not any(action.dest == "message" for action in self._actions):
            advice = ""
        elif message.startswith("unrecognized arguments"):
            advice = "quote messages of several words, and put -- before text that starts with -; "
        else:
            advice = "put TARGET first, and -- before text that starts with -; " if message.endswith("MESSAGE") else ""
        raise Failure("usage", in_our_words(message), f"{advice}see {self.prog} --help")


def parser_for(command: Command, program: str, configure: Configure) -> CommandParser:
    """Return the parser of a command."""
    prog = f"{program} {command.word}"
    epilog = f"Words after -- are {command.after}." if command.takes_params else None
    parser = CommandParser(prog=prog, description=f"{command.help}.", epilog=epilog, allow_abbrev=False)
    configure(parser)
    parser.add_argument("--project", metavar="DIR", help="project directory (default: found from the current one)")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print more detail; -vv prints tracebacks")
    return parser


def name_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument NAME."""
    parser.add_argument("name", metavar="NAME", help="name of the agent")


def common_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every command accepts, before or after its arguments."""
    hidden = argparse.SUPPRESS
    parser.add_argument("--json", action="store_true", default=hidden, help="print one JSON document")
    parser.add_argument("--project", metavar="DIR", default=hidden, help=hidden)
    parser.add_argument("-v", "--verbose", action="count", default=hidden, help=hidden)


class AgentArguments:
    """Parsers of the actions after NAME (``awk agent memory NAME get``)."""

    def __init__(self, parser: argparse.ArgumentParser, shown: str, more: str = "") -> None:
        self._words = parser.add_subparsers(
            dest="doing", metavar=shown, help=f"action (default: show everything{more})"
        )

    def add(self, word: str, about: str) -> argparse.ArgumentParser:
        """Add the action ``word`` and return its parser."""
        parser = self._words.add_parser(word, help=about, description=f"{about}.", allow_abbrev=False)
        common_flags(parser)
        return parser


def text_of(context: Context, given: str) -> str:
    """Return ``given``, or standard input for ``-``. Raises Failure (usage)."""
    context.args.message = given
    return context.message()


class Subcommand(NamedTuple):
    """Subcommand of a command."""

    word: str
    help: str
    file: str = ""
    """Module in interface.cli.commands (default: the module of the command)."""


def generated(word: str) -> tuple[Subcommand, ...]:
    """Return the subcommands of ``word`` that are generated from operations, in the order of the operations."""
    found = ((words.removeprefix(f"{word} "), verb["help"]) for words, verb in verbs().items())
    return tuple(Subcommand(name, about[0].upper() + about[1:], GENERATED) for name, about in found if " " not in name)


class Subcommands(NamedTuple):
    """Subcommands of the command ``word``."""

    word: str
    verbs: Sequence[Subcommand]
    required: bool = True
    """Whether the command requires a subcommand."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare a parser for each subcommand."""
        words = ", ".join(verb.word for verb in self.verbs)
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=self.required, help=words)
        for verb in self.verbs:
            one = verbs.add_parser(verb.word, help=verb.help, description=f"{verb.help}.", allow_abbrev=False)
            self._load(verb)[0](one)
            common_flags(one)
        json_flag(parser)

    def run(self, context: Context) -> int:
        """Run the subcommand that the user named. Returns its exit code."""
        verb = next(verb for verb in self.verbs if verb.word == context.args.verb)
        return self._load(verb)[1](context)

    def _load(self, verb: Subcommand) -> tuple[Configure, Run]:
        words = f"{self.word} {verb.word}"
        if verb.file == GENERATED:
            return load_verb(words)
        module = import_module(f"interface.cli.commands.{verb.file}") if verb.file else BY_WORD[self.word].module
        return load(module, words, lambda _parser: None)


_USD: Final = re.compile(r"\$?(\d{1,7}(?:\.\d{1,6})?|\.\d{1,6})", re.ASCII)
_TOKENS: Final = re.compile(r"\d{1,12}", re.ASCII)


def usd(text: str) -> float:
    """Parse an amount in USD: ``0.50`` or ``$2``. Raises ArgumentTypeError, which argparse reports as a usage error."""
    match = _USD.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= 1_000_000:
        raise ArgumentTypeError(f"{text!r} is not a valid amount in USD; use a number above 0, such as 0.50")
    return float(match[1])


def tokens(text: str) -> int:
    """Parse a number of tokens above 0. Raises ArgumentTypeError."""
    if not _TOKENS.fullmatch(text) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a valid number of tokens; use a number above 0, such as 50000")
    return int(text)


def pairs(text: str) -> int:
    """Parse a number of pairs of runs, 1 to 1,000. Raises ArgumentTypeError."""
    if not _TOKENS.fullmatch(text) or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError(f"{text!r} is not a valid number of pairs; use 1 to 1000")
    return int(text)


def share(text: str) -> float:
    """Parse a share above 0 and below 1. Raises ArgumentTypeError."""
    if not _PLAIN.fullmatch(text) or not 0 < float(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a valid proportion; use a number between 0 and 1, such as 0.2")
    return float(text)


_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def duration(text: str) -> float:
    """Parse ``500ms``, ``10s``, ``1h30m`` or bare seconds; return seconds. Raises ArgumentTypeError."""
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is not a valid duration; use 500ms, 10s, 5m, 2h or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
