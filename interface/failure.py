"""Failures of commands: said once, shown once. The ``code`` fixes the exit code (interface.cli.exits)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A mistake in a file: where (``where`` is the path of keys) and the line itself."""

    path: str
    line: int
    column: int
    where: str
    message: str
    hint: str | None
    source: str


class Failure(Exception):
    """The command cannot do what was asked. ``text`` says what, ``hint`` what to do about it.

    Raised for what a user or an operator can mend: ``code`` is the kernel's code of refusal, or one of those
    that interface.cli.exits adds. Not raised for bugs: those show as such.
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
        """Of ``untrusted``: what a person could agree to (protocol.trust.Demand, as JSON)."""


class Unreachable(Exception):
    """The kernel could not be reached, or went away in the middle: nothing is known about what it did."""
