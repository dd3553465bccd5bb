"""Pages of lists: how many rows are wanted, after which, and what is told of the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

LONGEST: Final = 1000
"""Rows in one answer at most."""


@dataclass(frozen=True, slots=True)
class Page:
    """``limit`` rows behind the one with the number ``after``, None: from the start.

    Ask for one more than ``limit``: it tells whether there are more.
    """

    limit: int = LONGEST
    after: int | None = None

    def cut(self, rows: Sequence[T], name: Callable[[T], str]) -> tuple[tuple[T, ...], str | None]:
        """The rows of this page, and what ``next`` is: the name of the last one, if more follow."""
        shown = tuple(rows[: self.limit])
        return shown, name(shown[-1]) if len(rows) > self.limit else None


WHOLE: Final = Page()
"""The first page, as long as one may be."""
