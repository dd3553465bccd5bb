"""What each command takes, read off its parser: options, their values, and arguments in order."""

import argparse
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from interface.cli.command_table import COMMANDS, Command
from interface.cli.parsing import parser_for


class Values(NamedTuple):
    """Where the candidates for one value come from: ``words``, what is ``live`` of a kind, or ``files``."""

    words: tuple[str, ...] = ()
    live: str = ""
    files: bool = False


class Option(NamedTuple):
    """An option by all its spellings; ``values`` is None where it takes none."""

    flags: tuple[str, ...]
    help: str
    values: Values | None


class CommandSpec(NamedTuple):
    """One command, or a command under a command: its ``path`` of words."""

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Values, ...]
    many: bool
    """Whether the last argument may be given again."""
    verbs: bool
    """Whether its argument is a command under it."""


ANYTHING: Final = Values()
FILES: Final = Values(files=True)
OF_METAVAR: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "TARGET": Values(live="target"),
        "@WORKFLOW[:TAG]": Values(live="channel"),
        "ID": Values(live="instruction"),
        "APPROVAL": Values(live="approval"),
        "PROPOSAL": Values(live="proposal"),
        "CHOICE": Values(live="choice"),
        "RUN|INSTRUCTION": Values(live="shown"),
        "RUN": Values(live="run"),
        "TARGET|RUN": Values(live="diffed"),
        "AGENT": Values(live="agent"),
        "AGENT|FILE.md": Values(live="agent", files=True),
        "FILE|NAME": Values(live="workflow", files=True),
        "FILE": FILES,
        "DIR": FILES,
    }
)
OF_ARGUMENT: Final[Mapping[tuple[str, str], Values]] = MappingProxyType(
    {
        ("config", "asked"): Values(live="named", files=True),
        ("trust", "words"): Values(live="named", files=True),
        ("agent", "name"): Values(live="agent"),
        ("new", "name"): ANYTHING,
        ("deny", "ids"): Values(live="deniable"),
        ("proposal", "shown"): Values(live="any_proposal"),
    }
)
"""Command and destination of an argument whose metavar does not say enough."""
_NEW: Final = frozenset({("agent", "create")})
"""Commands whose name is a new one."""


def all_specs(program: str) -> Iterator[CommandSpec]:
    """Every command that people call, and those under it."""
    for command in COMMANDS:
        configure, _ = command.load()
        for word in (command.word, *command.aliases):
            yield from _takes((word,), command.help, parser_for(command, program, configure), command)


def _takes(
    path: tuple[str, ...], about: str, parser: argparse.ArgumentParser, command: Command
) -> Iterator[CommandSpec]:
    actions = parser._actions  # noqa: SLF001  (argparse has no public way to list arguments)
    given = [action for action in actions if not action.option_strings]
    verbs = {word: one for action in given for word, one in _verbs(action).items()}
    yield CommandSpec(
        path=path,
        help=about,
        options=tuple(
            _option(action, command)
            for action in actions
            if action.option_strings and (action.help != argparse.SUPPRESS)
        ),
        arguments=tuple(_values(action, command, path) for action in given),
        many=bool(given) and given[-1].nargs in ("*", "+", argparse.REMAINDER),
        verbs=bool(verbs),
    )
    for word, one in verbs.items():
        yield from _takes((*path, word), str(one.description or ""), one, command)


def _verbs(action: argparse.Action) -> Mapping[str, argparse.ArgumentParser]:
    """The commands under a command, if that is what ``action`` takes."""
    if not isinstance(action.choices, Mapping):
        return {}
    return cast("Mapping[str, argparse.ArgumentParser]", action.choices)


def _option(action: argparse.Action, command: Command) -> Option:
    takes_value = action.nargs != 0
    return Option(
        tuple(action.option_strings),
        (action.help or "").replace("%(default)s", "").replace("%%", "%"),
        _values(action, command, ()) if takes_value else None,
    )


def _values(action: argparse.Action, command: Command, path: tuple[str, ...]) -> Values:
    if action.choices is not None:
        return Values(words=tuple(map(str, action.choices)))
    if not action.option_strings and path in _NEW:
        return ANYTHING
    special = OF_ARGUMENT.get((command.word, action.dest))
    if special is not None and not action.option_strings:
        return special
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return OF_METAVAR.get(metavar, ANYTHING)
