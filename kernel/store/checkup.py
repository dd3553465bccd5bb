"""Looks at a database that no kernel has open, and changes nothing: whether it is whole, and what is left to do."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, cast
from urllib.parse import quote

import apsw
import msgspec

from kernel.store.database import check_integrity, migrations
from kernel.store.transitions.retention import ended


class Outstanding(msgspec.Struct, frozen=True, kw_only=True):
    """The things that a kernel is needed for, as far as the log knows, and the newest event of it."""

    event: int = 0
    work: bool = False
    """Instructions that have not ended, also those that wait for a person, who is told of them by a kernel alone."""
    runs: bool = False
    """Runs of workflows that come to an end; what was started and stays is there again with the next kernel."""
    votes: bool = False
    merges: bool = False
    schedules: bool = False
    deliveries: bool = False
    """Webhooks that will be tried again."""
    passing: bool = False
    """Words of workflows that keep none, which are to be removed soon."""


def kept_by(outstanding: Outstanding, *, requests: int, hooks: bool) -> str | None:
    """Return what keeps the kernel, in words; None: nothing. ``requests``: those that are being answered, streams
    among them; ``hooks``: programs without a token may have something to say at any time.

    What failed for good, and an agent in error, keep none: nothing waits for them, and they are in the log.
    """
    reasons = (
        (outstanding.work, "work that has not ended"),
        (outstanding.runs, "a run that has not ended"),
        (outstanding.votes, "a vote that is open"),
        (outstanding.merges, "a merge that is under way"),
        (outstanding.schedules, "a schedule"),
        (outstanding.deliveries, "a webhook that is tried again"),
        (outstanding.passing, "words that are to be removed"),
        (requests > 0, "a client that is served"),
        (hooks, "hooks in the project file"),
    )
    return next((text for holds, text in reasons if holds), None)


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """One database: its schema and the newest that we know, the time of its newest event, and what is wrong with it."""

    schema: int = 0
    newest: int = 0
    latest_ms: int = 0
    """0: nothing has happened yet."""
    fault: str | None = None


_VERSION: Final = "PRAGMA user_version"
_LATEST: Final = "SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1"


@contextmanager
def _opened(path: str) -> Generator[apsw.Connection]:
    """Open it to read. Where no log stands beside it, as one that nobody writes, so that not even an empty log is made.

    Raises apsw.Error.
    """
    alone = "" if os.path.exists(f"{path}-wal") else "&immutable=1"
    connection = apsw.Connection(
        f"file:{quote(os.path.abspath(path))}?mode=ro{alone}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        connection.set_busy_timeout(1000)
        yield connection
    finally:
        connection.close()


def check_database(path: str) -> Checkup:
    """Check the database at ``path``. Never raises for what is wrong with it. Blocks: it reads the file."""
    newest = max(migrations())
    try:
        with _opened(path) as connection:
            schema = int(connection.execute(_VERSION).get or 0)
            broken = check_integrity(connection)
            if broken is not None:
                return Checkup(schema=schema, newest=newest, fault=broken[:200])
            latest = connection.execute(_LATEST).get if 0 < schema <= newest else None
            return Checkup(schema=schema, newest=newest, latest_ms=int(latest or 0))
    except apsw.Error as error:
        return Checkup(newest=newest, fault=str(error))


LAST_STOP: Final = """
SELECT json_extract(data, '$.by') FROM (SELECT type, data FROM events ORDER BY seq DESC LIMIT 1000)
WHERE type = 'kernel.stopping' LIMIT 1
"""


class LeftOver(msgspec.Struct, frozen=True):
    """Things left to do in a project whose kernel has ended, and who had asked it to end, where that is known."""

    outstanding: Outstanding
    stopped_by: str | None


def left_over(path: str) -> LeftOver | None:
    """Return it; None for a database that cannot be read, or has another schema than a kernel of ours would leave.

    Blocks.
    """
    try:
        with _opened(path) as connection:
            if connection.execute(_VERSION).get != max(migrations()):
                return None
            by = cast("str | None", connection.execute(LAST_STOP).get)
            return LeftOver(outstanding(connection), by)
    except apsw.Error:
        return None


OUTSTANDING: Final = """
SELECT (SELECT coalesce(max(seq), 0) FROM events),
  EXISTS (SELECT 1 FROM instructions WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting')),
  EXISTS (SELECT 1 FROM workflows WHERE state = 'running' AND mode = 'run'),
  EXISTS (SELECT 1 FROM ballots WHERE state = 'open'),
  EXISTS (SELECT 1 FROM landings WHERE state IN ('requested', 'merging', 'checked')),
  EXISTS (SELECT 1 FROM timers),
  EXISTS (SELECT 1 FROM webhook_retries AS r JOIN webhooks AS w ON w.digest = r.digest AND w.disabled = 0)
"""


def outstanding(conn: apsw.Connection) -> Outstanding:
    """Return it. Ask in a thread."""
    event, *found = cast("tuple[int, ...]", conn.execute(OUTSTANDING).fetchone())
    work, runs, votes, merges, schedules, deliveries = map(bool, found)
    return Outstanding(
        event=event,
        work=work,
        runs=runs,
        votes=votes,
        merges=merges,
        schedules=schedules,
        deliveries=deliveries,
        passing=bool(ended(conn)),
    )
