"""Collects the mistakes in one file, each with its place and the line itself, and raises them all at once.

Where a word is not known, the nearest known one is suggested.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.text import shown_name

MAX_ERRORS: Final = 50
"""Of one file. Whoever made more has one mistake, fifty times."""

SOURCE_LIMIT: Final = 200
"""Characters of a source line that an error shows."""

_MESSAGE_LIMIT: Final = 500
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line for libyaml, whose line numbers we report."""


class Location(msgspec.Struct, frozen=True):
    """A place in a file: both count from 1, columns in characters."""

    line: int = 1
    column: int = 1


def place_text(errors: tuple[FileError, ...]) -> str:
    """The first of ``errors`` in one line, with its place, and how many more there are."""
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    place = f"{first.path}:{first.line}:{first.column} {first.where}".rstrip()
    return f"{place}: {first.message}{more}"


class BadDefinition(Refused):
    """A file that a user wrote is wrong. ``errors`` has every mistake, in the order of the file.

    Not raised for a file that is not there: that is ``unknown_agent`` or ``unknown_workflow``.
    """

    def __init__(self, errors: tuple[FileError, ...]) -> None:
        super().__init__("bad_definition", place_text(errors), errors[0].hint)
        self.errors: tuple[FileError, ...] = errors

    def remote(self, *, quotes: bool) -> "BadDefinition":
        """Return the same refusal for a caller of the API (see ``remote_error``)."""
        return BadDefinition(tuple(remote_error(error, quotes=quotes) for error in self.errors))


_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|\*\S+""")
"""Values in a message, as ``repr`` shows them, perhaps cut off, and the names of aliases."""


def remote_error(error: FileError, *, quotes: bool) -> FileError:
    """Return ``error`` as callers of the API get it: a place and a message, and no line of the file.

    Without ``quotes`` the message repeats no value, and for a file outside the project no key or hint either.
    """
    plain = _QUOTED.sub("'...'", error.message)
    if error.path.startswith(("/", "../")):
        return msgspec.structs.replace(error, where="", message=plain, hint=None, source="")
    return msgspec.structs.replace(error, message=error.message if quotes else plain, source="")


class Diagnostics:
    """The mistakes found in one file so far. ``path`` is how the user would name the file, on one line."""

    def __init__(self, path: str, text: str = "") -> None:
        self.path = shown_name(path)
        self.text = text
        self._lines: list[str] | None = None
        self._found: list[FileError] = []

    @property
    def full(self) -> bool:
        """True once looking for more is pointless."""
        return len(self._found) >= MAX_ERRORS

    @property
    def errors(self) -> tuple[FileError, ...]:
        """The mistakes that were found, in the order of the file."""
        return tuple(sorted(self._found, key=lambda error: (error.line, error.column)))

    def add(self, place: Location, where: str, message: str, hint: str | None = None) -> None:
        """Note one mistake. ``where`` is the path of keys; empty for the file as a whole."""
        if self.full:
            return
        error = FileError(
            path=self.path,
            line=place.line,
            column=place.column,
            where=where,
            message=shown_name(message[:_MESSAGE_LIMIT]),
            hint=hint,
            source=self.line(place.line)[:SOURCE_LIMIT],
        )
        if error not in self._found:
            self._found.append(error)

    def line(self, number: int) -> str:
        """The source line ``number``; empty where there is none."""
        lines = self._split()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def find(self, text: str, after: Location) -> Location:
        """The first place at or below the line of ``after`` where the source says ``text``; else ``after``."""
        lines = self._split()
        for number in range(after.line, len(lines) + 1):
            column = lines[number - 1].find(text)
            if column >= 0:
                return Location(number, column + 1)
        return after

    def check(self) -> None:
        """Raise BadDefinition if anything was found."""
        if self._found:
            raise BadDefinition(self.errors)

    def _split(self) -> list[str]:
        if self._lines is None:
            self._lines = _LINE_BREAK.split(self.text)
        return self._lines


def fail(path: str, message: str, hint: str | None = None, *, where: str = "") -> BadDefinition:
    """The error for a file that cannot be looked into at all."""
    problems = Diagnostics(path)
    problems.add(Location(), where, message, hint)
    return BadDefinition(problems.errors)


_LONGEST = 40


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` is most likely a slip of; None where none is near."""
    if len(word) > _LONGEST:
        return None
    from difflib import get_close_matches  # noqa: PLC0415  (some milliseconds, for mistakes only)

    matches = get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggest(word: str, known: Iterable[str], *, what: str = "known", limit: int = 20) -> str:
    """A hint: the nearest word, or else all there are (the first ``limit``)."""
    words = sorted(known)
    close = nearest(word, words)
    if close is not None:
        return f"did you mean {close}?"
    if not words:
        return f"{what}: none"
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return f"{what}: {', '.join(words[:limit])}{more}"
