"""Rows of a query by the names of their columns; pages of lists, and the count of what is left out."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

import apsw
import msgspec

T = TypeVar("T")
_MAKERS: Final[dict[tuple[str, type[Any]], Callable[[Any], Any]]] = {}
"""Makes an instance of the type from a row of the statement; columns and fields are compared once for each pair."""


def one(cursor: apsw.Cursor, statement: str, type_: type[T]) -> T | None:
    """Read the row of ``statement``, which ``cursor`` has just executed; None where there is none.

    Its columns are called like the fields of ``type_``, in whatever order. Raises TypeError where they are not.
    """
    row = cursor.fetchone()
    return None if row is None else cast("T", _maker(cursor, statement, type_)(row))


def all_(cursor: apsw.Cursor, statement: str, type_: type[T]) -> list[T]:
    """Read all rows of ``statement``, as ``one`` does."""
    row = cursor.fetchone()
    if row is None:
        return []
    make = _maker(cursor, statement, type_)
    return [make(row), *map(make, cursor)]


def _maker(cursor: apsw.Cursor, statement: str, type_: type[Any]) -> Callable[[Any], Any]:
    found = _MAKERS.get((statement, type_))
    if found is not None:
        return found
    columns = tuple(column[0] for column in cursor.get_description())
    plain: Any = type_
    is_tuple = issubclass(type_, tuple)
    fields = plain._fields if is_tuple else plain.__struct_fields__
    if sorted(columns) != sorted(fields):
        raise TypeError(f"{type_.__qualname__} does not have the columns {', '.join(columns)}")
    make: Callable[[Any], Any] = plain._make if is_tuple else partial(_call, plain)
    pick = itemgetter(*(columns.index(field) for field in fields))
    maker = make if columns == fields else partial(_call_picked, make, pick)
    _MAKERS[statement, type_] = maker
    return maker


def _call_picked(make: Callable[[Any], Any], pick: Callable[[Any], Any], row: tuple[Any, ...]) -> Any:
    return make(pick(row))


def _call(type_: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    return type_(*row)


LONGEST: Final = 1000
"""Rows in one answer at most."""


class Page(msgspec.Struct, frozen=True):
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
