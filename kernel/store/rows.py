"""Rows of a query by the names of their columns; pages of lists, and the count of what is left out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar, cast

import apsw
import msgspec

from protocol.instruction import Usage

T = TypeVar("T")
_MAKERS: Final[dict[tuple[str, Callable[..., Any]], Callable[[Any], Any]]] = {}
"""Makes an instance of the type from a row of the statement; columns and fields are compared once for each pair."""


def one(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> T | None:
    """Read the row of ``statement``, which ``cursor`` has just executed; None where there is none.

    Its columns are called like the fields of ``type_``, in whatever order, or like the parameters of a function of a
    module that makes the value. ``made`` says of columns what makes the field's value out of theirs, always the same
    for a statement; with it a field without a column has its default. Raises TypeError where they do not meet.
    """
    row = cursor.fetchone()
    return None if row is None else cast("T", _maker(cursor, statement, type_, made)(row))


def each(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> Iterator[T]:
    """Read the rows of ``statement`` as ``one`` does, one after the other as they are found."""
    row = cursor.fetchone()
    if row is not None:
        make = _maker(cursor, statement, type_, made)
        yield make(row)
        yield from map(make, cursor)


def all_(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> list[T]:
    """Read all rows of ``statement``, as ``one`` does."""
    return list(each(cursor, statement, type_, **made))


def _maker(
    cursor: apsw.Cursor, statement: str, type_: Callable[..., Any], made: Mapping[str, Callable[[Any], Any]]
) -> Callable[[Any], Any]:
    maker = _MAKERS.get((statement, type_))
    if maker is not None:
        return maker
    columns = tuple(column[0] for column in cursor.get_description())
    fields = getattr(type_, "__struct_fields__", None) or getattr(type_, "_fields", None)
    if made or fields is None:
        maker = partial(_call_by_name, type_, columns, made)
    elif sorted(columns) != sorted(fields):
        raise TypeError(f"{type_.__qualname__} does not have the columns {', '.join(columns)}")
    else:
        make: Callable[[Any], Any] = getattr(type_, "_make", None) or partial(_call, type_)
        pick = itemgetter(*(columns.index(field) for field in fields))
        maker = make if columns == fields else partial(_call_picked, make, pick)
    _MAKERS[statement, type_] = maker
    return maker


def _call_picked(make: Callable[[Any], Any], pick: Callable[[Any], Any], row: tuple[Any, ...]) -> Any:
    return make(pick(row))


def _call_by_name(
    type_: Callable[..., Any],
    columns: tuple[str, ...],
    made: Mapping[str, Callable[[Any], Any]],
    row: tuple[Any, ...],
) -> Any:
    values = dict(zip(columns, row, strict=True))
    for name, make in made.items():
        values[name] = make(values[name])
    return type_(**values)


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


class SpentColumns(msgspec.Struct, frozen=True):
    """Columns that say what an instruction, or several, spent; NULL where nothing is known."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost_usd: float | None

    @property
    def usage(self) -> Usage:
        """The same as a Usage."""
        return Usage(
            input_tokens=self.input_tokens or 0,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=self.cache_read_tokens or 0,
            cache_write_tokens=self.cache_write_tokens or 0,
            cost_usd=self.cost_usd,
        )
