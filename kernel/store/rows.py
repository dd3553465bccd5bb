"""Named queries, rows by the names of their columns, and pages of lists.

A function that would only run one statement is a query: ``names = Sql("SELECT name FROM members").column(str)`` is
called as ``names(conn)``, with values for ``?`` and keywords for ``:name``. The string below it documents it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar, cast

import apsw
import msgspec

from kernel.policy import instruction_states
from kernel.policy.instruction_states import DeliveryStep, Step
from kernel.store.transaction import Transaction
from protocol.instruction import LARGEST, Usage

T = TypeVar("T")
_MAKERS: Final[dict[tuple[str, Callable[..., Any]], Callable[[Any], Any]]] = {}
"""Makes an instance of the type from a row of the statement; columns and fields are compared once for each pair."""


def one(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> T | None:
    """Read the row of ``statement``, which ``cursor`` has just executed; None where there is none.

    Its columns are called like the fields of ``type_``, in whatever order, or like the parameters of a function of a
    module that makes the value. ``made`` says of columns what makes the field's value out of theirs, always the same
    for a statement; with it a field without a column has its default. The columns of what was spent are the field
    ``usage``. Raises TypeError where they do not meet.
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
    if fields is not None and "usage" in fields and "cost_usd" in columns:
        maker = partial(_call_by_name, partial(_call_with_usage, type_), columns, made)
    elif made or fields is None:
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


def _call_with_usage(type_: Callable[..., Any], **columns: Any) -> Any:
    return type_(**with_usage(**columns))


def _call(type_: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    return type_(*row)


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """A statement, and what reads its answer."""

    sql: str
    read: Callable[[apsw.Cursor], T]

    def __call__(self, conn: apsw.Connection, *values: Any, **named: Any) -> T:
        """Execute the statement with ``values`` for its ``?``, or with ``named`` for its ``:name``."""
        return self.read(conn.execute(self.sql, named or values))


@dataclass(frozen=True, slots=True)
class WriteStatement:
    """A statement that changes rows and answers with none."""

    sql: str

    def __call__(self, tx: Transaction, *values: Any, **named: Any) -> None:
        """Execute the statement with ``values`` for its ``?``, or with ``named`` for its ``:name``."""
        tx.write(self.sql, named or values)


class Sql(str):
    """A statement that makes queries."""

    __slots__ = ()

    def scalar(self, make: Callable[[Any], T], default: T | None = None) -> Query[T]:
        """The one value; ``default`` is that of no row and of NULL."""

        def read(cursor: apsw.Cursor) -> T:
            row = cursor.fetchone()
            return cast("T", default) if row is None or row[0] is None else make(row[0])

        return Query(self, read)

    def optional(self, make: Callable[[Any], T]) -> Query[T | None]:
        """The one value; None where there is no row, or NULL."""
        return self.scalar(cast("Callable[[Any], T | None]", make))

    def exists(self) -> Query[bool]:
        """Return whether the query finds a row."""
        return Query(self, lambda cursor: cursor.fetchone() is not None)

    def column(self, make: Callable[[Any], T]) -> Query[tuple[T, ...]]:
        """The first column of all rows."""
        return Query(self, lambda cursor: tuple(make(row[0]) for row in cursor))

    def set_of(self, make: Callable[[Any], T]) -> Query[frozenset[T]]:
        """The different values of the first column."""
        return Query(self, lambda cursor: frozenset(make(row[0]) for row in cursor))

    def row(self, type_: Callable[..., T], **made: Callable[[Any], Any]) -> Query[T | None]:
        """The first row, as the function ``one`` makes it."""
        return Query(self, lambda cursor: one(cursor, self, type_, **made))

    def rows(self, type_: Callable[..., T], **made: Callable[[Any], Any]) -> Query[tuple[T, ...]]:
        """All rows, as the function ``one`` makes them."""
        return Query(self, lambda cursor: tuple(each(cursor, self, type_, **made)))

    def change(self) -> WriteStatement:
        """No answer."""
        return WriteStatement(self)


FRAGMENTS: Final = {
    "{wait}": "waits_for = :waits_for, wait_key = :wait_key, not_before_ms = :not_before, parked_ms = :now",
    "{no_wait}": "waits_for = NULL, wait_key = NULL, not_before_ms = 0",
    "{add}": "input_tokens = min(input_tokens + :input, :largest), "
    "output_tokens = min(output_tokens + :output, :largest), "
    "cache_read_tokens = min(cache_read_tokens + :cache, :largest), "
    "cache_write_tokens = min(cache_write_tokens + :cached, :largest), "
    "cost_usd = CASE WHEN :cost IS NULL THEN cost_usd ELSE min(coalesce(cost_usd, 0.0) + :cost, :largest) END",
    "{spent}": "CAST(min(total(input_tokens), :largest) AS INTEGER) AS input_tokens, "
    "CAST(min(total(output_tokens), :largest) AS INTEGER) AS output_tokens, "
    "CAST(min(total(cache_read_tokens), :largest) AS INTEGER) AS cache_read_tokens, "
    "CAST(min(total(cache_write_tokens), :largest) AS INTEGER) AS cache_write_tokens, "
    "min(sum(cost_usd), :largest) AS cost_usd",
}
"""Assignments of a wait, for statements that change the state in the same breath (all others are in
kernel.store.waits); those that add amounts_of a usage; and the columns of a usage over several instructions."""

STEP: Final = re.compile(r"\{(before )?(\w+)\}")


def instruction_sql(template: str) -> Sql:
    """Render a statement on instructions: ``{lease}`` is the state that the step leads to, ``state {before lease}``
    the condition that it may be made, ``{wait}`` and ``{no_wait}`` are among FRAGMENTS."""
    for name, text in FRAGMENTS.items():
        template = template.replace(name, text)

    def rendered(found: re.Match[str]) -> str:
        step = cast(Step, found[2])
        return _among(instruction_states.sources(step)) if found[1] else f"'{instruction_states.target(step)}'"

    return Sql(STEP.sub(rendered, template))


def delivery_sql(template: str) -> Sql:
    """Render a statement on deliveries, as instruction_sql does."""

    def rendered(found: re.Match[str]) -> str:
        step = cast(DeliveryStep, found[2])
        if found[1]:
            return _among(instruction_states.delivery_sources(step))
        return f"'{instruction_states.delivery_target(step)}'"

    return Sql(STEP.sub(rendered, template))


def _among(states: Sequence[str]) -> str:
    literals = ", ".join(f"'{state}'" for state in states)
    return f"= {literals}" if len(states) == 1 else f"IN ({literals})"


def select(type_: type[msgspec.Struct], source: str, **made: str) -> str:
    """Write the SELECT of the fields of ``type_``; ``made`` has the expressions of those that are no column."""
    fields = (f"{made[name]} AS {name}" if name in made else name for name in type_.__struct_fields__)
    return " ".join(("SELECT", ", ".join(fields), "FROM", source))


LONGEST: Final = 1000
"""Rows in one answer at most."""


class RowPage(msgspec.Struct, frozen=True):
    """``limit`` rows behind the one with the number ``after``, None: from the start.

    Ask for one more than ``limit``: it tells whether there are more.
    """

    limit: int = LONGEST
    after: int | None = None

    def cut(self, rows: Sequence[T], name: Callable[[T], str]) -> tuple[tuple[T, ...], str | None]:
        """The rows of this page, and what ``next`` is: the name of the last one, if more follow."""
        shown = tuple(rows[: self.limit])
        return shown, name(shown[-1]) if len(rows) > self.limit else None


WHOLE: Final = RowPage()
"""The first page, as long as one may be."""


def with_usage(
    *,
    input_tokens: int | None,
    output_tokens: int | None,
    cache_read_tokens: int | None,
    cache_write_tokens: int | None,
    cost_usd: float | None,
    **others: Any,
) -> dict[str, Any]:
    """Return the columns of a row by name, those of what was spent as one ``usage``."""
    others["usage"] = Usage(
        input_tokens=input_tokens or 0,
        output_tokens=output_tokens or 0,
        cache_read_tokens=cache_read_tokens or 0,
        cache_write_tokens=cache_write_tokens or 0,
        cost_usd=cost_usd,
    )
    return others


def amounts_of(usage: Usage) -> dict[str, int | float | None]:
    """The parameters by which a statement adds ``usage``."""
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache": usage.cache_read_tokens,
        "cached": usage.cache_write_tokens,
        "cost": usage.cost_usd,
        "largest": LARGEST,
    }
