"""Looks at a database that no kernel has open, and changes nothing of it: whether it is whole, and ours to open."""

import os
from typing import Final
from urllib.parse import quote

import apsw
import msgspec

from kernel.store.database import check_integrity, migrations


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """One database: its schema and the newest that we know, the time of its newest event, and what is wrong with it."""

    schema: int = 0
    newest: int = 0
    latest_ms: int = 0
    """0: nothing has happened yet."""
    fault: str | None = None


_VERSION: Final = "PRAGMA user_version"
_LATEST: Final = "SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1"


def check_database(path: str) -> Checkup:
    """Check the database at ``path``. Never raises for what is wrong with it. Blocks: it reads the file.

    Where no log stands beside it, it is opened as one that nobody writes, so that not even an empty log is made.
    """
    newest = max(migrations())
    alone = "" if os.path.exists(f"{path}-wal") else "&immutable=1"
    try:
        connection = apsw.Connection(
            f"file:{quote(os.path.abspath(path))}?mode=ro{alone}",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        )
    except apsw.Error as error:
        return Checkup(newest=newest, fault=str(error))
    try:
        connection.set_busy_timeout(1000)
        schema = int(connection.execute(_VERSION).get or 0)
        broken = check_integrity(connection)
        if broken is not None:
            return Checkup(schema=schema, newest=newest, fault=broken[:200])
        latest = connection.execute(_LATEST).get if 0 < schema <= newest else None
        return Checkup(schema=schema, newest=newest, latest_ms=int(latest or 0))
    except apsw.Error as error:
        return Checkup(newest=newest, fault=str(error))
    finally:
        connection.close()
