"""Collect the errors of one file, each with its location and source line, and raise them together.

For an unknown word, the nearest known one is suggested.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.text import shown_name

MAX_ERRORS: Final = 50
"""Limit per file. More errors are usually repetitions of one mistake."""

SOURCE_LIMIT: Final = 200
"""Limit of a source line in an error."""

_MESSAGE_LIMIT: Final = 500
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""Line breaks of libyaml, whose line numbers are reported."""


class Location(msgspec.Struct, frozen=True):
    """Location in a file: both numbers start at 1, columns count characters."""

    line: int = 1
    column: int = 1


def place_text(errors: tuple[FileError, ...]) -> str:
    """Return the first of ``errors`` with its location in one line, and the number of further errors."""
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    place = f"{first.path}:{first.line}:{first.column} {first.where}".rstrip()
    return f"{place}: {first.message}{more}"


class BadDefinition(Refused):
    """Invalid file of a user. ``errors`` has all errors in the order of the file.

    A missing file is reported as ``unknown_agent`` or ``unknown_workflow`` instead.
    """

    def __init__(self, errors: tuple[FileError, ...]) -> None:
        super().__init__("bad_definition", place_text(errors), errors[0].hint)
        self.errors: tuple[FileError, ...] = errors

    def remote(self, *, quotes: bool) -> "BadDefinition":
        """Return the error for a caller of the API (see ``remote_error``)."""
        return BadDefinition(tuple(remote_error(error, quotes=quotes) for error in self.errors))


_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|\*\S+""")
"""Matches values in a message, as ``repr`` shows them (possibly truncated), and the names of aliases."""


def remote_error(error: FileError, *, quotes: bool) -> FileError:
    """Return ``error`` as callers of the API receive it: with location and message, but without the source line.

    Without ``quotes`` the message repeats no value, and for a file outside the project neither key nor hint.
    """
    plain = _QUOTED.sub("'...'", error.message)
    if error.path.startswith(("/", "../")):
        return msgspec.structs.replace(error, where="", message=plain, hint=None, source="")
    return msgspec.structs.replace(error, message=error.message if quotes else plain, source="")


class Diagnostics:
    """Errors found in one file. ``path`` is the user's name of the file, on one line."""

    def __init__(self, path: str, text: str = "") -> None:
        self.path = shown_name(path)
        self.text = text
        self._lines: list[str] | None = None
        self._found: list[FileError] = []

    @property
    def full(self) -> bool:
        """Return whether MAX_ERRORS errors were collected; further errors are dropped."""
        return len(self._found) >= MAX_ERRORS

    @property
    def errors(self) -> tuple[FileError, ...]:
        """Return the errors in the order of the file."""
        return tuple(sorted(self._found, key=lambda error: (error.line, error.column)))

    def add(self, place: Location, where: str, message: str, hint: str | None = None) -> None:
        """Add an error. ``where`` is the path of keys; empty for the whole file."""
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
        """Return the source line ``number``, or ""."""
        lines = self._split()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def find(self, text: str, after: Location) -> Location:
        """Return the first location of ``text`` on or below the line of ``after``, else ``after``."""
        lines = self._split()
        for number in range(after.line, len(lines) + 1):
            column = lines[number - 1].find(text)
            if column >= 0:
                return Location(number, column + 1)
        return after

    def check(self) -> None:
        """Raise BadDefinition if there are errors."""
        if self._found:
            raise BadDefinition(self.errors)

    def _split(self) -> list[str]:
        if self._lines is None:
            self._lines = _LINE_BREAK.split(self.text)
        return self._lines


def fail(path: str, message: str, hint: str | None = None, *, where: str = "") -> BadDefinition:
    """Return a BadDefinition with one error in ``path``, for the caller to raise."""
    problems = Diagnostics(path)
    problems.add(Location(), where, message, hint)
    return BadDefinition(problems.errors)


_LONGEST = 40


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` probably means, or None."""
    if len(word) > _LONGEST:
        return None
    from difflib import get_close_matches  # noqa: PLC0415  (takes milliseconds, which only errors should cost)

    matches = get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def suggest(word: str, known: Iterable[str], *, what: str = "known", limit: int = 20) -> str:
    """Return a hint with the nearest word, or else with the first ``limit`` known words."""
    words = sorted(known)
    close = nearest(word, words)
    if close is not None:
        return f"did you mean {close}?"
    if not words:
        return f"{what}: none"
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return f"{what}: {', '.join(words[:limit])}{more}"
