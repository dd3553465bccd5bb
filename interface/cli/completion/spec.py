"""Specification of each command, derived from its parser: options, their values, and arguments in order.

The scripts of all shells are made from it, so that no flag is described twice.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast, get_args

from interface.cli.command_parser import parser_for
from interface.cli.command_table import COMMANDS, Command
from protocol.api.kernel import PruneGroup
from protocol.api.tokens import TokenScope
from protocol.tools import CONTEXT_SCOPES


class Values(NamedTuple):
    """Source of the candidates for a value: fixed ``words``, ``live`` targets of a kind, or ``files``."""

    words: tuple[str, ...] = ()
    live: str = ""
    files: bool = False


class Option(NamedTuple):
    """Option with all spellings; ``values`` is None if it takes no value."""

    flags: tuple[str, ...]
    help: str
    values: Values | None


class CommandSpec(NamedTuple):
    """Command or subcommand with its ``path`` of words."""

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Values, ...]
    many: bool
    """Whether the last argument may be repeated."""
    verbs: bool
    """Whether the argument is a subcommand."""


ANYTHING: Final = Values()
FILES: Final = Values(files=True)
OF_METAVAR: Final[Mapping[str, Values]] = {
    "TARGET": Values(live="target"),
    "@WORKFLOW[:TAG]": Values(live="channel"),
    "ID": Values(live="instruction"),
    "ID|@WORKFLOW[:TAG]": Values(live="steered"),
    "APPROVAL": Values(live="approval"),
    "GRANT": Values(live="grant"),
    "SPACE": Values(live="space"),
    "PROPOSAL": Values(live="proposal"),
    "TASK": Values(live="task"),
    "RULE": Values(live="rule"),
    "RULE|FILE": Values(live="rule", files=True),
    "DOCUMENT": Values(live="document"),
    "SUGGESTION": Values(live="suggestion"),
    "CHOICE": Values(live="choice"),
    "RESOURCE": Values(live="resource"),
    "RUN|INSTRUCTION": Values(live="shown"),
    "RUN": Values(live="run"),
    "COMPARISON": Values(live="comparison"),
    "TARGET|RUN": Values(live="diffed"),
    "RUN|TARGET": Values(live="exported"),
    "RUN|@WORKFLOW[:TAG]": Values(live="merged"),
    "AGENT": Values(live="agent"),
    "AGENT|FILE.md": Values(live="agent", files=True),
    "FILE|NAME": Values(live="workflow", files=True),
    "TOKEN": Values(live="token"),
    "SCOPE": Values(words=get_args(TokenScope)),
    "FILE": FILES,
    "DIR": FILES,
}
OF_ARGUMENT: Final[Mapping[tuple[str, str], Values]] = {
    ("prune", "what"): Values(words=get_args(PruneGroup)),
    ("config", "asked"): Values(live="named", files=True),
    ("trust", "words"): Values(live="named", files=True),
    ("agent", "name"): Values(live="agent"),
    ("call", "tool"): Values(words=tuple(sorted(CONTEXT_SCOPES))),
    ("agent", "id"): Values(live="soul"),
    ("agent", "item"): Values(live="tray"),
    ("deny", "ids"): Values(live="deniable"),
    ("proposal", "shown"): Values(live="any_proposal"),
}
"""Candidates by command and argument, if the metavar of the argument does not identify them."""
_NEW: Final = frozenset({("agent", "create")})
"""Commands whose argument is a new name, for which there are no candidates."""


def all_specs(program: str) -> Iterator[CommandSpec]:
    """Return all public commands with their subcommands."""
    for command in COMMANDS:
        configure, _ = command.load()
        yield from _specs((command.word,), command.help, parser_for(command, program, configure), command)


def _specs(
    path: tuple[str, ...], about: str, parser: argparse.ArgumentParser, command: Command
) -> Iterator[CommandSpec]:
    options: list[Option] = []
    arguments: list[argparse.Action] = []
    verbs: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way to list arguments)
        if not action.option_strings:
            arguments.append(action)
            if isinstance(action.choices, Mapping):  # the commands under this one
                verbs |= cast("Mapping[str, argparse.ArgumentParser]", action.choices)
        elif action.help != argparse.SUPPRESS:
            told = (action.help or "").replace("%(default)s", "").replace("%%", "%")
            values = _values(action, command, ()) if action.nargs != 0 else None
            options.append(Option(tuple(action.option_strings), told, values))
    yield CommandSpec(
        path=path,
        help=about,
        options=tuple(options),
        arguments=tuple(_values(action, command, path) for action in arguments),
        many=bool(arguments) and arguments[-1].nargs in ("*", "+", argparse.REMAINDER),
        verbs=bool(verbs),
    )
    for word, one in verbs.items():
        yield from _specs((*path, word), str(one.description or ""), one, command)


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
