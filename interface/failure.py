"""Failures of commands. The ``code`` determines the exit code (interface.cli.exits)."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

SCARCE: Final = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of the system if it lacks processes, descriptors or memory for this user."""
_FILE_BYTES: Final = 2**20
_LINE_CHARACTERS: Final = 200


class Place(NamedTuple):
    """Mistake in a file. ``where`` is the path of keys, ``source`` the text of the line."""

    path: str
    line: int
    column: int
    where: str
    message: str
    hint: str | None
    source: str


def with_lines(places: Sequence[Place], root: str) -> tuple[Place, ...]:
    """Return ``places`` with the text of their lines, read from the files: the kernel sends no file contents."""
    return tuple(
        place if place.source else place._replace(source=line_of(os.path.join(root, place.path), place.line))
        for place in places
    )


def line_of(path: str, number: int) -> str:
    """Return one line of a file; empty if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:
            data = file.read(_FILE_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except (OSError, ValueError):
        return ""
    lines = (data or b"").decode("utf-8", "replace").splitlines()
    return lines[number - 1][:_LINE_CHARACTERS] if 0 < number <= len(lines) else ""


class Failure(Exception):
    """Failure of a command that a user or an operator can fix: ``text`` is the problem, ``hint`` the suggested action.

    ``code`` is an error code of the kernel, or a code that interface.cli.exits adds. Bugs raise other exceptions.
    """

    def __init__(
        self,
        code: str,
        text: str,
        hint: str | None = None,
        *,
        places: Sequence[Place] = (),
        http_status: int = 0,
        wants: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint
        self.places = tuple(places)
        self.http_status = http_status
        self.wants = tuple(wants)
        """For ``untrusted``: the demands that a person can agree to (protocol.trust.Demand as JSON)."""


class Unreachable(Exception):
    """The kernel could not be reached, or the connection broke. The request may have had its effect."""
