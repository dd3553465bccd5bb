"""Pages of lists: how many rows a request wants, after which, and what it is told of the rest.

``?limit=`` is from 1 to 1000. Lists of what was are newest first and take ``?before=``; queues take ``?after=``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kernel.api.http.route import Call
from protocol.errors import Refused
from protocol.names import number_of

T = TypeVar("T")

LONGEST: Final = 1000
"""Rows in one answer at most."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was asked for: ``limit`` rows behind the one with the number ``after``, None: from the start.

    Ask the store for one more than ``limit``: it tells whether there are more.
    """

    limit: int
    after: int | None = None

    def cut(self, rows: Sequence[T], name: Callable[[T], str]) -> tuple[tuple[T, ...], str | None]:
        """The rows of this page, and what ``next`` is: the name of the last one, if more follow."""
        shown = tuple(rows[: self.limit])
        return shown, name(shown[-1]) if len(rows) > self.limit else None


def page_of(call: Call[Any], parameter: str, letter: str, *, default: int = LONGEST) -> Page:
    """The page that a request wants. Ids in its ``parameter`` begin with ``letter``. Raises Refused (bad_request)."""
    limit = call.number("limit", default, low=1, high=LONGEST)
    text = call.query.get(parameter)
    if text is None:
        return Page(limit)
    number = number_of(text, letter)
    if number is None:
        raise Refused("bad_request", f"{parameter} must be what the page before has as next, such as {letter}12")
    return Page(limit, number)
