"""Common arguments of commands, and a parser for simple command lines without argparse.

argparse takes a tenth of the time of ``awk ps``, so it parses only command lines that this parser cannot interpret.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import argparse

_SUPPRESS: Final = "==SUPPRESS=="
"""Value of argparse.SUPPRESS, without the import."""
TARGET: Final = "alice, @review[:tag] or alice@review[:tag]"
AGENT: Final = "agent: alice or alice@review[:tag]"


class _Declared:
    """Arguments of a command that need no argparse: flags, and positional words."""

    def __init__(self) -> None:
        self.defaults: dict[str, Any] = {"project": None, "verbose": 0}
        self.flags: dict[str, str] = {}
        self.places: list[tuple[str, str | None]] = []
        """Name of each positional word with its ``nargs``; only the last word may be repeated."""
        self.plain = True

    def add_argument(self, *names: str, **how: Any) -> None:
        """Record the declaration of an argument."""
        first, action, default = names[0], how.get("action"), how.get("default")
        if not first.startswith("-"):
            repeated = any(nargs in ("*", "+") for _, nargs in self.places)
            self.places.append((first, how.get("nargs")))
            known = how.get("nargs") in (None, "?", "*", "+") and not repeated
            self.plain &= not how.keys() - {"metavar", "nargs", "help"} and known
            return
        long = next((one for one in names if one.startswith("--")), first)
        name: str = how.get("dest") or long.lstrip("-").replace("-", "_")
        if action == "store_true":
            self.defaults[name] = False
            self.flags |= dict.fromkeys(names, name)
        elif default != _SUPPRESS:
            self.defaults[name] = default
            valued = action in (None, "append", "count") or not isinstance(action, str)
            self.plain &= valued and not how.get("required") and (default is None or "type" not in how)

    def __getattr__(self, name: str) -> Any:
        """Record that the command uses other parser features and needs argparse."""
        self.plain = False
        return self._more

    def _more(self, *_args: Any, **_how: Any) -> "_Declared":
        return self


def plain_arguments(
    configure: "Callable[[argparse.ArgumentParser], object]", words: Sequence[str]
) -> "argparse.Namespace | None":
    """Parse ``words`` if they consist of flags without values and of words; return None to use argparse."""
    declared = _Declared()
    configure(cast("argparse.ArgumentParser", declared))
    given: list[str] = []
    values = declared.defaults
    for word in words:
        if word in declared.flags:
            values[declared.flags[word]] = True
        elif word.startswith("-"):
            return None
        else:
            given.append(word)
    needed = sum(nargs in (None, "+") for _, nargs in declared.places)
    rest = [name for name, nargs in declared.places if nargs in ("*", "+")]
    at = [place for place, word in enumerate(words) if word not in declared.flags]
    if rest and at and at[-1] - at[0] >= len(at):
        return None  # argparse refuses a flag between repeated words
    if not declared.plain or len(given) < needed or (len(given) > len(declared.places) and not rest):
        return None
    values |= {name: None for name, _ in declared.places}
    values |= {name: word for (name, _), word in zip(declared.places, given, strict=False)}
    values |= {name: given[len(declared.places) - 1 :] for name in rest}
    return cast("argparse.Namespace", SimpleNamespace(**values))


def split_params(words: Sequence[str], *, takes_params: bool) -> tuple[list[str], tuple[str, ...]]:
    """Return the words before the first ``--``, and the words after it, which some commands pass through."""
    if not takes_params or "--" not in words:
        return list(words), ()
    place = list(words).index("--")
    return list(words[:place]), tuple(words[place + 1 :])


Arguments = Sequence["Callable[[argparse.ArgumentParser], object]"]
"""Declarations of a command's arguments. A module of commands lists them by command in ARGUMENTS."""


def argument(*names: str, **how: Any) -> "Callable[[argparse.ArgumentParser], object]":
    """Return a declaration of an argument, from what ``add_argument`` takes."""
    return lambda parser: parser.add_argument(*names, **how)


def switch(*names: str, about: str) -> "Callable[[argparse.ArgumentParser], object]":
    """Return a declaration of a flag without a value."""
    return argument(*names, action="store_true", help=about)


def declare(arguments: Arguments, parser: "argparse.ArgumentParser") -> None:
    """Add ``arguments`` to a parser, in their order."""
    for add in arguments:
        add(parser)


WORKFLOW: Final = argument("target", metavar="@WORKFLOW[:TAG]", help="workflow; its latest run is used")
trust_flag: Final = switch("--trust", about="trust the commands in the project's files (setup, shell)")
"""Flag of commands that run commands of the project's files."""
archive_flag: Final = argument("--archive", metavar="FILE", help="read from this file of awk export, without a kernel")
"""Flag of commands that can read an archive."""
jsonl_flag: Final = switch("--jsonl", about="print one JSON object per line as items arrive")
"""Flag of every command that streams."""
json_flag: Final = switch("--json", about="print one JSON document")
"""Flag of every command that prints data."""


def flag(parser: "argparse.ArgumentParser", *names: str, about: str) -> None:
    """Add a flag without a value."""
    parser.add_argument(*names, action="store_true", help=about)


def all_projects_flag(parser: "argparse.ArgumentParser", what: str) -> None:
    """Add ``-A``, for commands that can query all projects of the user."""
    flag(parser, "-A", "--all-projects", about=what)


def workflow_flags(parser: "argparse.ArgumentParser") -> None:
    """Add ``--tag`` with its older name, ``--trust``, ``--update`` and ``--continue``, for starts of workflows."""
    from argparse import SUPPRESS  # noqa: PLC0415  (it has to be that very text)

    parser.add_argument("--tag", default="main", metavar="T", help="tag of the workflow instance (default: main)")
    parser.add_argument("--instance", dest="tag", default=SUPPRESS, help=SUPPRESS)
    trust_flag(parser)
    flag(parser, "--update", about="resolve remote refs again and pin the new commits")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="start with the previous conversation")


def target_argument(parser: "argparse.ArgumentParser", about: str = TARGET) -> "argparse.Action":
    """Add the argument TARGET."""
    return parser.add_argument("target", metavar="TARGET", help=about)


def message_argument(parser: "argparse.ArgumentParser") -> "argparse.Action":
    """Add the argument MESSAGE; ``-`` means standard input."""
    return parser.add_argument("message", metavar="MESSAGE", help="text, or - to read standard input")
