"""Inspect a database without changing it: its integrity, its outstanding work, and its use of disk space.

Also test whether this program could take over a database that another program has open.
"""

import os
from collections.abc import Callable
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any, Concatenate, Final, NamedTuple, cast
from urllib.parse import quote

import apsw
import msgspec

from kernel.store.database import BUSY_MILLISECONDS, Connection, P, Reader, T, check_integrity
from kernel.store.schema import CannotOpen, cannot_open, migrate, migrations, missing_migrations
from kernel.store.snapshot import SnapshotRefused, open_beside
from kernel.store.transitions.retention import ended
from protocol.errors import Refused
from protocol.names import run_id


class Outstanding(msgspec.Struct, frozen=True, kw_only=True):
    """Work in the log that needs a kernel, by kind, and the newest event."""

    event: int = 0
    work: bool = False
    """Instructions that have not ended, including waits for a person, which only a kernel can report."""
    runs: bool = False
    """Runs of workflows that end; started workflows without an end resume with the next kernel."""
    votes: bool = False
    merges: bool = False
    schedules: bool = False
    deliveries: bool = False
    """Webhooks that will be retried."""
    passing: bool = False
    """Messages of workflows that retain none, due for deletion."""


def kept_by(outstanding: Outstanding, *, requests: int, hooks: bool) -> str | None:
    """Return why the kernel must keep running, or None if it may exit.

    ``requests`` counts active requests, including streams. ``hooks``: programs without a token may call at any time.
    Permanently failed work and agents in error do not count: they wait only for a person.
    """
    reasons = (
        (outstanding.work, "work that has not ended"),
        (outstanding.runs, "a run that has not ended"),
        (outstanding.votes, "an open vote"),
        (outstanding.merges, "a merge in progress"),
        (outstanding.schedules, "a schedule"),
        (outstanding.deliveries, "a webhook to retry"),
        (outstanding.passing, "messages to delete"),
        (requests > 0, "an active client"),
        (hooks, "hooks in the project file"),
    )
    return next((text for holds, text in reasons if holds), None)


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """State of a database: schema, newest schema of this program, newest event, and fault."""

    schema: int = 0
    newest: int = 0
    latest_ms: int = 0
    """0 if there are no events."""
    fault: str | None = None


_VERSION: Final = "PRAGMA user_version"
_LATEST: Final = "SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1"


def _opened(path: str, how: str = "") -> apsw.Connection:
    """Open a database read-only. Raises apsw.Error.

    Without a WAL, open the database as immutable, so that SQLite creates no empty WAL.
    """
    how = how if os.path.exists(f"{path}-wal") else "&immutable=1"
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro{how}"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.set_busy_timeout(1000)
    return connection


class StoredLog(Reader):
    """Reader of the log of a project without a kernel. It writes no byte, and its queries never suspend.

    Raises Refused. The index of the WAL of a killed kernel is rebuilt in memory, not in its file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._here = _opened(path, "&readonly_shm=1")
            if missing_migrations(self._here, path):
                raise CannotOpen(f"the database {path} is of an older version, which awk start converts")
            self._here.create_scalar_function("shown", cast("Any", copy), 1)
        except (apsw.Error, CannotOpen) as error:
            raise self._refused(error) from error

    def _refused(self, error: apsw.Error | CannotOpen) -> Refused:
        known = error if isinstance(error, CannotOpen) else cannot_open(self._path, error)
        return Refused("storage_failed", str(known), "awk doctor shows the problem")

    def now(self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query."""
        try:
            return question(self._here, *args, **kwargs)
        except apsw.Error as error:  # damaged, or of another program
            raise self._refused(error) from error

    async def read(self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query."""
        return self.now(question, *args, **kwargs)


def check_database(path: str) -> Checkup:
    """Check the database at ``path``. Reports faults instead of raising. Blocks: it reads the file."""
    newest = max(migrations())
    try:
        with closing(_opened(path)) as connection:
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
    """Outstanding work of a project whose kernel has ended, and who stopped the kernel, if known."""

    outstanding: Outstanding
    stopped_by: str | None


def left_over(path: str) -> LeftOver | None:
    """Return the outstanding work; None if unreadable or of another schema. Blocks."""
    try:
        with closing(_opened(path)) as connection:
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
    """Return which kinds of outstanding work the log contains. Call in a thread."""
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


def try_to_open(path: str, copy: str) -> None:
    """Test whether this program could take over the open database at ``path``, without changing it.

    Missing migrations are tried on a copy at ``copy``, which is deleted. Raises CannotOpen.
    """
    try:
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as found:
            found.set_busy_timeout(BUSY_MILLISECONDS)
            if not missing_migrations(found, path):
                return
            trial = apsw.Connection(copy)
            try:
                with trial.backup("main", found, "main") as backup:
                    backup.step(-1)
                migrate(trial, copy)
            except CannotOpen as error:
                raise CannotOpen(f"migration failed on a copy of the database: {error}") from error
            finally:
                trial.close()
    except apsw.Error as error:
        raise cannot_open(path, error) from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(copy + suffix).unlink(missing_ok=True)


GROUPS: Final = {
    "messages": ("messages", "deliveries"),
    "what agents did": ("entries", "effects", "blobs", "attempts", "instructions", "handovers", "exchanges"),
    "events": ("events",),
    "documents": (
        "documents", "document_versions", "decisions", "document_owners", "document_mirrors",
    ),
    "runs, tasks and votes": ("workflows", "tasks", "task_needs", "ballots", "votes", "electors", "landings"),
    "approvals and audit": ("approvals", "approval_rules", "audit", "grants", "feedback"),
}  # fmt: skip
"""Long texts, frozen prompts and resources are blobs."""
OTHER: Final = "other tables"
FREE: Final = "free pages"


class RunSize(NamedTuple):
    """Disk usage of one run: the bytes of its messages and entries, and the paths of its working trees."""

    id: str
    run: str
    state: str
    bytes: int
    trees: tuple[str, ...]


class Sizes(NamedTuple):
    """Sizes in a database: bytes of each group of tables, the largest runs, and the number of all runs."""

    groups: dict[str, int]
    runs: tuple[RunSize, ...]
    run_count: int


TABLES: Final = """
SELECT coalesce(s.tbl_name, ''), sum(d.pgsize) FROM dbstat AS d LEFT JOIN sqlite_schema AS s ON s.name = d.name
WHERE d.aggregate = TRUE GROUP BY 1
"""
FREE_AND_WHOLE: Final = """
SELECT freelist_count * page_size, page_count * page_size
FROM pragma_freelist_count, pragma_page_count, pragma_page_size
"""


def free_and_whole(conn: apsw.Connection) -> tuple[int, int]:
    """Return the database's size in bytes: of its free pages, and of all its pages."""
    [(free, whole)] = cast("list[tuple[int, int]]", conn.execute(FREE_AND_WHOLE).fetchall())
    return free, whole


RUNS: Final = """
SELECT w.id, w.name, w.tag, w.state,
  (SELECT coalesce(sum(length(CAST(m.text AS BLOB))), 0) FROM messages AS m WHERE m.run = w.id)
  + (SELECT coalesce(sum(length(e.body) + coalesce(length(b.body), 0)), 0)
     FROM instructions AS i CROSS JOIN entries AS e ON e.instruction = i.id LEFT JOIN blobs AS b ON b.hash = e.blob
     WHERE i.run = w.id) AS bytes
FROM workflows AS w ORDER BY bytes DESC, w.id LIMIT ?
"""
COUNT: Final = "SELECT count(*) FROM workflows"
TREES: Final = "SELECT path FROM worktrees WHERE run = ? AND state IN ('made', 'removing', 'kept') ORDER BY path"


def sizes_of(path: str, runs: int) -> Sizes:
    """Measure the database at ``path``, also while a kernel writes, and its ``runs`` largest runs.

    Raises SnapshotRefused.
    """
    try:
        with closing(open_beside(path)) as connection:
            connection.execute("BEGIN")
            group_of = {table: group for group, tables in GROUPS.items() for table in tables}
            groups = dict.fromkeys((*GROUPS, OTHER), 0)
            for table, size in cast("list[tuple[str, int]]", connection.execute(TABLES).fetchall()):
                groups[group_of.get(table, OTHER)] += size
            groups[FREE] = free_and_whole(connection)[0]
            rows = cast("list[tuple[int, str, str, str, int]]", connection.execute(RUNS, (runs,)).fetchall())
            found = [
                RunSize(
                    run_id(number), f"{name}:{tag}", state, size,
                    tuple(str(tree) for (tree,) in connection.execute(TREES, (number,)).fetchall()),
                )
                for number, name, tag, state, size in rows
            ]  # fmt: skip
            return Sizes(groups, tuple(found), int(connection.execute(COUNT).get or 0))
    except apsw.Error as error:
        raise SnapshotRefused(f"{path} cannot be measured: {error}") from error
