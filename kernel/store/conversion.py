"""Conversion of databases from before ``schema.sql``: each table is created as it is there, and its rows are copied."""

import hashlib
from collections.abc import Iterable
from typing import Final, cast

import apsw

from kernel.store.errors import CannotOpen

CONVERTED: Final = {
    30: "9559a2a8b751855d807a25d0b9bc909bde0845293c72a128fb4151daa606f16e",
    31: "6a05bf8190f4adbd1b3882e6d3be2dc4d59808d1632a0f1c43e2d08d25101b0c",
}
"""Schemas that can be converted, with the digest of the shape of each."""

_CHECK = "PRAGMA integrity_check(1)"
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
_SEQUENCES = "SELECT name, seq FROM sqlite_sequence"
_FORGET_SEQUENCES = "DELETE FROM sqlite_sequence"
_KEEP_SEQUENCE = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"
# SQLite writes the statements, with the names of its schema.
_SET_ASIDE = """
SELECT format('DROP INDEX "%w"', name) FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL
UNION ALL SELECT format('ALTER TABLE "%w" RENAME TO "%w before"', ?1, ?1)
"""
_COPY = """
SELECT format('DELETE FROM "%w"; INSERT INTO "%w" (%s) SELECT %s FROM "%w before"', ?1, ?1, columns, columns, ?1)
FROM (SELECT group_concat(format('"%w"', name), ', ') AS columns FROM pragma_table_info(?1 || ' before'))
"""
_COUNT = """SELECT format('SELECT (SELECT count(*) FROM "%w before"), (SELECT count(*) FROM "%w")', ?1, ?1)"""
_DROP = """SELECT format('DROP TABLE "%w before"', ?1)"""
# Before schema 31 no trust was recorded: what has run may have seen the output of tools.
_DISTRUST = "UPDATE instructions SET trust = 2 WHERE epoch > 0"


def shape_digest(shape: Iterable[tuple[str, str, str]]) -> str:
    """Return the digest of the kind, name and text of everything in a schema."""
    return hashlib.sha256(repr(list(shape)).encode()).hexdigest()


def why_not_convertible(found: int) -> str:
    """Return the problem with the older schema ``found``, and what to do about it."""
    known = " and ".join(str(number) for number in CONVERTED)
    return f"its schema is {found}, and this version converts {known} only: start it once with a version of schema 30"


def convert(connection: apsw.Connection, found: int, script: str, path: str) -> None:
    """Rebuild every table of schema ``found`` as ``script`` has it, in the transaction of the caller.

    Raises CannotOpen and apsw.Error; the caller then rolls back.
    """
    made = apsw.Connection(":memory:")
    made.execute(script).fetchall()
    tables = [str(name) for (name,) in made.execute(_TABLES)]
    made.close()
    sequences = connection.execute(_SEQUENCES).fetchall()
    for table in tables:
        _run(connection, _SET_ASIDE, table)
    connection.execute(script).fetchall()
    for table in tables:
        _run(connection, _COPY, table)
        before, after = _run(connection, _COUNT, table)[0]
        if before != after:
            raise CannotOpen(f"the database {path} was not converted: {table} has {after} of {before} rows")
        _run(connection, _DROP, table)
    connection.execute(_FORGET_SEQUENCES)
    connection.executemany(_KEEP_SEQUENCE, sequences)
    if found < 31:
        connection.execute(_DISTRUST)
    broken = str(connection.execute(_CHECK).get)
    if broken != "ok":
        raise CannotOpen(f"the database {path} was not converted, because it is damaged: {broken[:200]}")


def _run(connection: apsw.Connection, statements: str, table: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for (statement,) in connection.execute(statements, (table,)).fetchall():
        rows = cast("list[tuple[object, ...]]", connection.execute(str(statement)).fetchall())
    return rows
