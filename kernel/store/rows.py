"""Named queries, rows converted by their column names, and pages of lists.

A function that only runs one statement is written as a query: ``names = Sql("SELECT name FROM members").column(str)``
is called as ``names(conn)``, with values for ``?`` and keywords for ``:name``. The string below it is its docstring.
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
"""Converters from a row of a statement to a type; columns and fields are compared once per pair."""


def one(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> T | None:
    """Read the next row of ``statement``, which ``cursor`` has executed, as ``type_``; None: no row.

    The columns have the names of the fields of ``type_``, in any order, or of the parameters of a
    module-level function that creates the value. ``made`` maps column names to converters, the same
    in every call for a statement; with it, fields without a column get their defaults. The columns
    of a usage become the field ``usage``. Raises TypeError if columns and fields do not match.
    """
    row = cursor.fetchone()
    return None if row is None else cast("T", _maker(cursor, statement, type_, made)(row))


def each(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> Iterator[T]:
    """Yield the rows of ``statement``, converted as by ``one``."""
    row = cursor.fetchone()
    if row is not None:
        make = _maker(cursor, statement, type_, made)
        yield make(row)
        yield from map(make, cursor)


def all_(cursor: apsw.Cursor, statement: str, type_: Callable[..., T], **made: Callable[[Any], Any]) -> list[T]:
    """Read all rows of ``statement``, converted as by ``one``."""
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
        make: Callable[[Any], Any] = getattr(type_, "_make", None) or (lambda row: type_(*row))
        pick = itemgetter(*(columns.index(field) for field in fields))
        maker = make if columns == fields else partial(_call_picked, make, pick)
    _MAKERS[statement, type_] = maker
    return maker


def _call_picked(make: Callable[[Any], Any], pick: Callable[[Any], Any], row: tuple[Any, ...]) -> Any:
    return make(pick(row))


def _call_by_name(
    type_: Callable[..., Any], columns: tuple[str, ...], made: Mapping[str, Callable[[Any], Any]], row: tuple[Any, ...]
) -> Any:
    values = dict(zip(columns, row, strict=True))
    for name, make in made.items():
        values[name] = make(values[name])
    return type_(**values)


def _call_with_usage(type_: Callable[..., Any], **columns: Any) -> Any:
    return type_(**with_usage(**columns))


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """Statement with the function that converts its result."""

    sql: str
    read: Callable[[apsw.Cursor], T]

    def __call__(self, conn: apsw.Connection, *values: Any, **named: Any) -> T:
        """Execute the statement with ``values`` for its ``?``, or with ``named`` for its ``:name``."""
        return self.read(conn.execute(self.sql, named or values))


@dataclass(frozen=True, slots=True)
class WriteStatement:
    """Statement that changes rows and returns none."""

    sql: str

    def __call__(self, tx: Transaction, *values: Any, **named: Any) -> None:
        """Execute the statement with ``values`` for its ``?``, or with ``named`` for its ``:name``."""
        tx.write(self.sql, named or values)


class Sql(str):
    """Text of a statement, with methods that create queries."""

    __slots__ = ()

    def scalar(self, make: Callable[[Any], T], default: T | None = None) -> Query[T]:
        """Return a query for a row's one column; ``default`` replaces a missing row and NULL."""

        def read(cursor: apsw.Cursor) -> T:
            row = cursor.fetchone()
            return cast("T", default) if row is None or row[0] is None else make(row[0])

        return Query(self, read)

    def optional(self, make: Callable[[Any], T]) -> Query[T | None]:
        """Return a query for a row's one column; None for a missing row and NULL."""
        return self.scalar(cast("Callable[[Any], T | None]", make))

    def exists(self) -> Query[bool]:
        """Return a query that returns whether the statement finds a row."""
        return Query(self, lambda cursor: cursor.fetchone() is not None)

    def column(self, make: Callable[[Any], T]) -> Query[tuple[T, ...]]:
        """Return a query for the values of the first column."""
        return Query(self, lambda cursor: tuple(make(row[0]) for row in cursor))

    def set_of(self, make: Callable[[Any], T]) -> Query[frozenset[T]]:
        """Return a query for the distinct values of the first column."""
        return Query(self, lambda cursor: frozenset(make(row[0]) for row in cursor))

    def row(self, type_: Callable[..., T], **made: Callable[[Any], Any]) -> Query[T | None]:
        """Return a query for the first row, converted as by the function ``one``."""
        return Query(self, lambda cursor: one(cursor, self, type_, **made))

    def rows(self, type_: Callable[..., T], **made: Callable[[Any], Any]) -> Query[tuple[T, ...]]:
        """Return a query for all rows, converted as by the function ``one``."""
        return Query(self, lambda cursor: tuple(each(cursor, self, type_, **made)))

    def change(self) -> WriteStatement:
        """Return a function that executes the statement in a transaction and returns nothing."""
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
"""Fragments of statements: assignments of a wait for statements that also change the state (kernel.store.waits has all
others), assignments that add ``amounts_of`` a usage, and the sums of a usage over several instructions.
"""

STEP: Final = re.compile(r"\{(before )?(\w+)\}")


def instruction_sql(template: str) -> Sql:
    """Fill in a statement on instructions. For a step such as *lease*, ``{lease}`` is the state after it, and ``state
    {before lease}`` the condition for it. ``{wait}`` and others are FRAGMENTS.
    """
    for name, text in FRAGMENTS.items():
        template = template.replace(name, text)

    def rendered(found: re.Match[str]) -> str:
        step = cast(Step, found[2])
        return _among(instruction_states.sources(step)) if found[1] else f"'{instruction_states.target(step)}'"

    return Sql(STEP.sub(rendered, template))


def delivery_sql(template: str) -> Sql:
    """Fill in a statement on deliveries: ``{ack}`` and ``{before ack}`` as in instruction_sql."""

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
    """Return a SELECT of the fields of ``type_``; ``made`` maps fields to expressions."""
    fields = (f"{made[name]} AS {name}" if name in made else name for name in type_.__struct_fields__)
    return " ".join(("SELECT", ", ".join(fields), "FROM", source))


LONGEST: Final = 1000
"""Limit of rows in one answer."""


class RowPage(msgspec.Struct, frozen=True):
    """Page of at most ``limit`` rows after the row ``after``, or from the start if None.

    Query ``limit + 1`` rows: the additional one shows whether another page exists.
    """

    limit: int = LONGEST
    after: int | None = None

    def cut(self, rows: Sequence[T], name: Callable[[T], str]) -> tuple[tuple[T, ...], str | None]:
        """Return the rows of this page, and the last one's name if another page exists."""
        shown = tuple(rows[: self.limit])
        return shown, name(shown[-1]) if len(rows) > self.limit else None


WHOLE: Final = RowPage()
"""First page with the maximum length."""


def with_usage(
    *,
    input_tokens: int | None,
    output_tokens: int | None,
    cache_read_tokens: int | None,
    cache_write_tokens: int | None,
    cost_usd: float | None,
    **others: Any,
) -> dict[str, Any]:
    """Return the columns by name, with the five columns of a usage as one ``usage``."""
    others["usage"] = Usage(
        input_tokens=input_tokens or 0,
        output_tokens=output_tokens or 0,
        cache_read_tokens=cache_read_tokens or 0,
        cache_write_tokens=cache_write_tokens or 0,
        cost_usd=cost_usd,
    )
    return others


def amounts_of(usage: Usage) -> dict[str, int | float | None]:
    """Return ``usage`` as the parameters of a statement that adds it."""
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache": usage.cache_read_tokens,
        "cached": usage.cache_write_tokens,
        "cost": usage.cost_usd,
        "largest": LARGEST,
    }
