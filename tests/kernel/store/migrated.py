"""Stores whose schema is there from the beginning: copies of one, since migrating takes longer than most tests.

What migrating itself does is for test_database and test_power, which open stores as the product does.
"""

from functools import cache
from pathlib import Path

from kernel.store.database import MEMORY, C, Database, open_database


def open_migrated(path: str) -> Database:
    """What ``open_database`` gives for ``path``; a file that is there already is opened as it is."""
    if path == MEMORY:
        return _Copy(path)
    if not Path(path).exists():
        Path(path).write_bytes(_empty().writer().serialize("main"))
    return open_database(path)


@cache
def _empty() -> Database:
    return open_database(MEMORY)


class _Copy(Database):
    """In memory, copied before anybody asks which version its schema has."""

    def _connect(self, flags: int, pragmas: str, kind: type[C]) -> C:
        first = not hasattr(self, "_writer")
        connection = super()._connect(flags, pragmas, kind)
        if first:
            with connection.backup("main", _empty().writer(), "main") as copy:
                copy.step(-1)
        return connection
