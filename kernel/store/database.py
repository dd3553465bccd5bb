"""SQLite database in a file in WAL mode or in memory, with the same code.

All writes use ``writer()``, one connection for one thread; readers cannot write. No other code in
this process may open() the file: closing it would drop SQLite's locks.

At start, a small file is checked completely for damage, a large one within a time limit. Pages have
no checksums: the check finds structural damage, not changed text.

If the file of an open database is deleted, SQLite continues to write to the nameless file, and the
data is lost at exit. Therefore the device and inode of each name are compared (``stat``, 1 us).
"""

import itertools
import logging
import os
import time
from collections.abc import Callable
from glob import escape, glob
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import apsw

from kernel.store.memory_texts import WriterConnection
from kernel.store.schema import (
    CONVERTED,
    OPEN_SECONDS,
    VERSION,
    CannotOpen,
    CannotSave,
    DatabaseBusy,
    cannot_open,
    damaged,
    migrate,
    missing_migrations,
    no_locks,
)
from protocol.errors import Refused

Identity = tuple[int, int]
"""Device and inode."""
_SHARED: Final = "-shm"
"""Suffix of the shared-memory file, which is recreated at every start."""
_SUFFIXES: Final = ("", "-wal", _SHARED)
_DESCRIPTORS: Final = Path("/proc/self/fd")


class DatabaseFiles:
    """Names, devices and inodes of a database's files. Create it after the first read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = {f"{path}{suffix}": found for suffix in _SUFFIXES if (found := _identity(path + suffix))}

    def fault(self) -> str | None:
        """Return why later writes would not be in the named files, or None."""
        for name, opened in self._names.items():
            found = _identity(name)
            if found != opened:
                happened = "was deleted" if found is None else "was replaced by another file"
                return f"{name} {happened} while it was open{self._whereabouts(name, opened)}"
        return None

    def vanished(self) -> bool:
        """Return whether the database or its WAL has no name left and ends with this process."""
        kept = [(name, opened) for name, opened in self._names.items() if not name.endswith(_SHARED)]
        return any(_identity(name) != opened and _link_of(opened) is None for name, opened in kept)

    @staticmethod
    def _whereabouts(name: str, opened: Identity) -> str:
        link = _link_of(opened)
        if link is not None and link != name:
            return f": it is {link} now"
        descriptor = _descriptor_of(opened)
        return (
            ""
            if descriptor is None
            else f": it exists only as /proc/{os.getpid()}/fd/{descriptor} until this process ends"
        )


def _identity(name: str) -> Identity | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _descriptor_of(opened: Identity) -> str | None:
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return None
    return next((name for name in names if _identity(f"{_DESCRIPTORS}/{name}") == opened), None)


def _link_of(opened: Identity) -> str | None:
    descriptor = _descriptor_of(opened)
    if descriptor is None:
        return None
    link = os.readlink(_DESCRIPTORS / descriptor)
    return link if _identity(link) == opened else None


PATIENCE_SECONDS: Final = 0.15
_STEPS: Final = 1000
"""Steps of SQLite's virtual machine between two checks of the clock."""
_CHECK: Final = "PRAGMA quick_check(1)"
_HARMLESS: Final = ("ok", "CHECK constraint failed", "NULL value")
"""Results of quick_check for an intact file, or for rows that an earlier schema allowed."""


def check_integrity(connection: apsw.Connection) -> str | None:
    """Return SQLite's words for the damage; None if none was found in time. Raises apsw.Error."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        found = str(connection.execute(_CHECK).get)
    except apsw.InterruptError:
        return None
    finally:
        connection.set_progress_handler(None)
    return None if found.startswith(_HARMLESS) else " ".join(found.split())


logger = logging.getLogger(__name__)

C = TypeVar("C", bound=apsw.Connection)
Connection = apsw.Connection
"""Connection for queries. Other modules use it in annotations and never import apsw."""

MEMORY: Final = ":memory:"
BUSY_MILLISECONDS: Final = 5000
TOLD_SECONDS: Final = 1.0
"""Delay before the wait for a lock is logged."""
ROOM_BYTES: Final = 1024 * 1024
_STATEMENTS: Final = 512
"""Prepared statements cached per connection: more than the store has."""
_WRITE: Final = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
_READ: Final = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE
_WRITER_PRAGMAS: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8192;
PRAGMA secure_delete = ON;
PRAGMA journal_size_limit = 67108864;
"""
_READER_PRAGMAS: Final = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 0;"
_SAVED: Final = ".saved-"
_BEFORE = ".schema-"
"""Infix of the name of a converted database's copy, followed by the number of its schema."""
_numbers: Final = itertools.count(1)

LAST_BOOT_STOPPED: Final = "SELECT stopped_ms IS NOT NULL FROM boots ORDER BY id DESC LIMIT 1"


class Database:
    """Provides connections. Created by ``open_database``."""

    def __init__(
        self,
        path: str,
        vfs: str | None = None,
        patience_seconds: float = BUSY_MILLISECONDS / 1000,
        *,
        migrates: bool = True,
    ) -> None:
        self.path = path
        self._vfs = vfs
        # A unique address in SQLite's shared memory, so that readers see the writer's commits.
        self._uri = f"file:/agent-worker-{next(_numbers)}?vfs=memdb" if path == MEMORY else path
        self._patience_ms = int(patience_seconds * 1000)
        self._writer = self._connect(_WRITE, _WRITER_PRAGMAS, WriterConnection)
        self._readers = self._writer.readers
        try:
            try:
                found = check_integrity(self._writer)
            except apsw.Error as error:
                raise cannot_open(self.path, error) from error
            if found is not None:
                raise damaged(self.path, found)
            # Without shared memory, SQLite silently uses another mode.
            mode = self._writer.execute("PRAGMA journal_mode").get
            if mode not in ("wal", "memory"):
                raise CannotOpen(f"{no_locks(self.path)} (journal_mode {mode})")
            if migrates:
                self.migrate()
            else:
                missing_migrations(self._writer, path)
            self._patience_ms = BUSY_MILLISECONDS
            self._writer.set_busy_timeout(self._patience_ms)
            self._place = None if path == MEMORY else DatabaseFiles(path)
        except CannotOpen:
            self.keep_log()
            self.close()
            raise

    def writer(self) -> WriterConnection:
        """Return the one connection that writes. Use it from one thread at a time."""
        return self._writer

    def reader(self) -> apsw.Connection:
        """Return a new connection that refuses to write."""
        connection = self._connect(_READ, _READER_PRAGMAS, apsw.Connection)
        connection.create_scalar_function("shown", cast("Any", self._writer.shown), 1)
        self._readers.append(connection)
        if self._writer.active:
            connection.set_row_trace(self._writer.reveal)
        return connection

    def migrate(self) -> None:
        """Migrate the schema. Before a conversion, copy the database to a file beside it.

        Raises CannotOpen; the database may then be partly migrated.
        """
        if self.path != MEMORY and (found := self.schema()) in CONVERTED:
            copy = f"{self.path}{_BEFORE}{found}"
            logger.warning("database.converting %s has schema %d; a copy of it is stored in %s", self.path, found, copy)
            try:
                Path(f"{copy}.new").unlink(missing_ok=True)
                self._copy_to(f"{copy}.new")
                Path(f"{copy}.new").replace(copy)
            except apsw.Error as error:
                raise cannot_open(copy, error) from error
            except OSError as error:
                raise CannotOpen(f"cannot copy the database {self.path} before its conversion: {error}") from error
        migrate(self._writer, self.path)

    def schema(self) -> int:
        """Return the number of the last applied migration."""
        return int(self._writer.execute(VERSION).fetchone()[0])  # type: ignore[index]

    def misplaced(self) -> str | None:
        """Return why writes do not reach the file at ``path``, or None. Takes microseconds."""
        return None if self._place is None else self._place.fault()

    def continues_in_order(self) -> bool:
        """Return whether the last kernel stopped cleanly (or there was none) and a commit succeeds.

        Then no work has to be requeued, and the database cannot prevent the next kernel's start.
        """
        try:
            write_anew(self._writer)
            row = self._writer.execute(LAST_BOOT_STOPPED).fetchone()
        except apsw.Error:
            return False
        return row is None or bool(row[0])

    def has_room(self) -> bool:
        """Return whether the disk has enough free space to try a commit."""
        return self.path == MEMORY or has_room(self.path)

    def save(self) -> str | None:
        """Copy a deleted database to a new file. Return its path, or None if no file was deleted.

        Raises CannotSave.
        """
        if self._place is None or not self._place.vanished():
            return None
        copy = next(
            name for number in itertools.count(1) if not os.path.lexists(name := f"{self.path}{_SAVED}{number}")
        )
        try:
            self._copy_to(copy)
        except apsw.Error as error:
            raise CannotSave(f"{copy}: {error}") from error
        return copy

    def _copy_to(self, path: str) -> None:
        target = apsw.Connection(path, vfs=self._vfs)
        with target.backup("main", self._writer, "main") as backup:
            backup.step(-1)
        target.close()

    def saved_notice(self) -> str | None:
        """Return the notice about copies that earlier kernels saved beside the file, or None."""
        return None if self.path == MEMORY else saved_notice(self.path)

    def keep_log(self) -> None:
        """Skip the checkpoint at close: after a failed sync, only the WAL may have the data."""
        for connection in (*self._readers, self._writer):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def close(self) -> None:
        """Close every connection; the last one removes the WAL."""
        for connection in (*self._readers, self._writer):
            connection.close()
        self._readers.clear()

    def _connect(self, flags: int, pragmas: str, kind: type[C]) -> C:
        try:
            connection = kind(self._uri, flags=flags, vfs=self._vfs, statementcachesize=_STATEMENTS)
            connection.set_busy_timeout(self._patience_ms)
            # Plan each statement once, not again for each bound value: there are no statistics to use.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.execute(pragmas).fetchall()
        except apsw.Error as error:
            raise cannot_open(self.path, error) from error
        return connection


def write_anew(conn: apsw.Connection) -> None:
    """Test whether the disk accepts a write. Raises apsw.Error."""
    conn.execute(f"{VERSION} = {int(conn.execute(VERSION).get or 0)}")


def saved_beside(conn: apsw.Connection) -> tuple[str, ...]:
    """Return the paths of saved copies beside the database. Erasing data leaves them unchanged."""
    return tuple(_saved(conn.filename)) if conn.filename else ()


def _saved(path: str) -> list[str]:
    try:
        found = (name for name in glob(f"{escape(path)}{_SAVED}*") if name.rpartition(_SAVED)[2].isdecimal())
        return sorted(found, key=os.path.getmtime)
    except OSError:  # a copy is being moved away
        return []


def has_room(path: str) -> bool:
    """Return whether the disk of ``path`` has enough space to try a commit; True if unknown."""
    try:
        found = os.statvfs(path)
    except OSError:
        return True
    return found.f_bavail * found.f_frsize >= ROOM_BYTES


def saved_notice(path: str) -> str | None:
    """Return the notice about the copies that kernels saved beside ``path``, or None."""
    if not (found := _saved(path)):
        return None
    more = f" (and {len(found) - 1} older ones beside it)" if len(found) > 1 else ""
    return (
        f"{found[-1]}{more} contains all data before the database was deleted or replaced, and is not in "
        f"use: to use it, run awk stop, move {path} away, move the copy to {path} and run awk start; otherwise "
        f"delete it"
    )


def open_database(path: str, vfs: str | None = None, *, migrates: bool = True) -> Database:
    """Open ``path`` (or ``:memory:``) and migrate its schema, unless ``migrates`` is False. Raises CannotOpen.

    ``vfs`` names a registered SQLite VFS; None selects the system's.
    """
    try:
        return Database(path, vfs, TOLD_SECONDS, migrates=migrates)
    except DatabaseBusy:
        logger.warning("database.busy another program has locked %s: waiting up to %.0f s", path, OPEN_SECONDS)
    return Database(path, vfs, OPEN_SECONDS, migrates=migrates)


P = ParamSpec("P")
T = TypeVar("T")
READERS: Final = 4
LONGEST_SECONDS: Final = 20.0
"""Time limit of one query: a long snapshot blocks checkpoints, so that the WAL grows (fault SF18)."""
_READ_STEPS: Final = 100_000
"""Steps of SQLite's virtual machine between two checks of the clock: a few milliseconds."""


class Reader:
    """Reads beside the writer: each query sees the last commit, and none can write.

    ``now`` is for indexed, limited queries (microseconds), ``read`` for all others. Both accept any
    function ``(connection, ...)``; the modules of the tables define these functions.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._here = database.reader()
        self._idle: list[apsw.Connection] = []
        import trio  # noqa: PLC0415  (0.1 s: a kernel accepts requests before it)

        self._limiter = trio.CapacityLimiter(READERS)

    def now(self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query on the calling thread: only for queries that use an index and a limit."""
        return question(self._here, *args, **kwargs)

    async def read(
        self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query in a thread, on one snapshot. Raises Refused (busy) after LONGEST_SECONDS.

        Cancellation: the thread finishes its query first, then Cancelled is raised.
        """
        from trio.to_thread import run_sync  # noqa: PLC0415  (as above)

        return await run_sync(lambda: self._ask(lambda c: question(c, *args, **kwargs)), limiter=self._limiter)

    def _ask(self, question: Callable[[apsw.Connection], T]) -> T:
        connection = self._idle.pop() if self._idle else self._database.reader()
        deadline = time.monotonic() + LONGEST_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _READ_STEPS)
        try:
            connection.execute("BEGIN")
            return question(connection)
        except apsw.InterruptError as error:
            raise Refused(
                "busy", f"query takes more than {LONGEST_SECONDS:.0f} s", "request less data at a time"
            ) from error
        finally:
            connection.set_progress_handler(None)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.append(connection)
