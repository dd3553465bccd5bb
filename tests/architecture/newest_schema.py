"""kernel/store/schema/newest.sql, made of the migrations beside it: ``scripts/generate``."""

import sys
from collections.abc import Iterator
from typing import Final

import apsw

from kernel.store.database import migrations

_OPENING: Final = """\
-- What all migrations of this folder come to: an empty database is given this in their place.
-- Written by scripts/generate from the migrations themselves; a change to the schema is one more of them.
"""
_MADE: Final = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"


def migrated() -> apsw.Connection:
    """A database of its own, in memory, to which each migration was applied."""
    connection = apsw.Connection(":memory:")
    for script in migrations().values():
        connection.execute(script.read_text("utf-8")).fetchall()
    return connection


def newest_schema() -> str:
    """The whole file."""
    connection = migrated()
    made = "".join(f"\n{sql};\n" for (sql,) in connection.execute(_MADE))
    rows = "".join(f"\n{insert}\n" for insert in _inserts(connection))
    return f"{_OPENING}{made}{rows}\nPRAGMA user_version = {max(migrations())};\n"


def _inserts(connection: apsw.Connection) -> Iterator[str]:
    for (table,) in connection.execute(_TABLES).fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}"').fetchall():
            yield f'INSERT INTO "{table}" VALUES ({", ".join(map(apsw.format_sql_value, row))});'


if __name__ == "__main__":
    sys.stdout.write(newest_schema())
