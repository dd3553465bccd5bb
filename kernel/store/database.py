"""One SQLite database: a file in WAL mode, or memory. The same code on both.

Everything that writes goes through ``writer()``, one connection for one thread; readers cannot write. Nothing
may open() the file beside SQLite: closing it would drop SQLite's locks.

At the start a small file is checked for damage as a whole, of a large one what fits into the time. Pages carry no
checksums: what is found is damage to the structure, not a changed letter in a text.

Whoever removes the file of an open database tells nobody: SQLite goes on writing to one that has no name any more, and
what is accepted there is never found again. So device and inode are compared, a ``stat`` for each name, a microsecond.
"""

import itertools
import logging
import os
import time
from collections.abc import Callable
from glob import escape, glob
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import apsw
import trio

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
"""Made anew at every start."""
_SUFFIXES: Final = ("", "-wal", _SHARED)
_DESCRIPTORS: Final = Path("/proc/self/fd")


class DatabaseFiles:
    """The names of one database's files, and what they stood for when it was opened. Make it after the first read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = {f"{path}{suffix}": found for suffix in _SUFFIXES if (found := _identity(path + suffix))}

    def fault(self) -> str | None:
        """Return why what is written does not reach the files that the next kernel opens; None: it does."""
        for name, opened in self._names.items():
            found = _identity(name)
            if found != opened:
                happened = "is not there any more" if found is None else "was replaced by another file"
                return f"{name} {happened} while it was open{self._whereabouts(name, opened)}"
        return None

    def vanished(self) -> bool:
        """Return whether the database itself, or its log, has no name at all any more: with this process it would be
        gone.
        """
        kept = [(name, opened) for name, opened in self._names.items() if not name.endswith(_SHARED)]
        return any(_identity(name) != opened and _link_of(opened) is None for name, opened in kept)

    @staticmethod
    def _whereabouts(name: str, opened: Identity) -> str:
        link = _link_of(opened)
        if link is not None and link != name:
            return f": it is {link} now"
        descriptor = _descriptor_of(opened)
        return (
            "" if descriptor is None else f": only /proc/{os.getpid()}/fd/{descriptor} has it, until this process ends"
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
"""Between two looks at the clock, in SQLite's virtual machine."""
_CHECK: Final = "PRAGMA quick_check(1)"
_HARMLESS: Final = ("ok", "CHECK constraint failed", "NULL value")
"""What quick_check says of a file that is whole, or of rows that another schema allowed."""


def check_integrity(connection: apsw.Connection) -> str | None:
    """Return what is broken, in SQLite's words; None: nothing was found in time. Raises apsw.Error."""
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

Connection = apsw.Connection
"""What a question is asked on. Others annotate with this and never import apsw."""

MEMORY: Final = ":memory:"
BUSY_MILLISECONDS: Final = 5000
TOLD_SECONDS: Final = 1.0
"""After so long it says that it waits."""
ROOM_BYTES: Final = 1024 * 1024
_STATEMENTS: Final = 512
"""Prepared statements kept for each connection: more than there are in the store."""
_WRITE: Final = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
_READ: Final = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE
_WRITER_PRAGMAS: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -32768;
PRAGMA secure_delete = ON;
PRAGMA journal_size_limit = 67108864;
"""
_READER_PRAGMAS: Final = "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 0;"
_SAVED: Final = ".saved-"
_BEFORE = ".schema-"
"""Ends the name of the copy of a database that was converted, with the number of its schema."""
_numbers: Final = itertools.count(1)

LAST_BOOT_STOPPED: Final = "SELECT stopped_ms IS NOT NULL FROM boots ORDER BY id DESC LIMIT 1"


class Database:
    """Hands out connections. Made by ``open_database``."""

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
        # An address of its own in SQLite's shared memory, so that readers see what the writer commits.
        self._uri = f"file:/agent-worker-{next(_numbers)}?vfs=memdb" if path == MEMORY else path
        self._readers: list[apsw.Connection] = []
        self._patience_ms = int(patience_seconds * 1000)
        self._writer = self._connect(_WRITE, _WRITER_PRAGMAS)
        try:
            try:
                found = check_integrity(self._writer)
            except apsw.Error as error:
                raise cannot_open(self.path, error) from error
            if found is not None:
                raise damaged(self.path, found)
            # SQLite goes on in another mode where there is no shared memory, and says nothing.
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

    def writer(self) -> apsw.Connection:
        """The one connection that writes. Use it from one thread at a time."""
        return self._writer

    def reader(self) -> apsw.Connection:
        """A new connection that refuses to write."""
        connection = self._connect(_READ, _READER_PRAGMAS)
        self._readers.append(connection)
        return connection

    def migrate(self) -> None:
        """Bring the schema up to date; a copy of a database that is converted stays beside it.

        Raises CannotOpen; then nothing was changed, or not all.
        """
        if self.path != MEMORY and (found := self.schema()) in CONVERTED:
            copy = f"{self.path}{_BEFORE}{found}"
            logger.warning("database.converting %s has schema %d; a copy of it stays in %s", self.path, found, copy)
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
        """Return the number of the migration that was applied last."""
        return int(self._writer.execute(VERSION).fetchone()[0])  # type: ignore[index]

    def misplaced(self) -> str | None:
        """Return why what is written does not reach the file that is at ``path`` now; None: it does. Cheap."""
        return None if self._place is None else self._place.fault()

    def continues_in_order(self) -> bool:
        """Return whether the last kernel was asked to end, or there was none, and a commit succeeds: nothing is to be
        put back, and nothing here keeps the next kernel from starting.
        """
        try:
            write_anew(self._writer)
            row = self._writer.execute(LAST_BOOT_STOPPED).fetchone()
        except apsw.Error:
            return False
        return row is None or bool(row[0])

    def has_room(self) -> bool:
        """Return whether its disk has so much room that a commit is worth a try: a small one may find some where none
        is.
        """
        return self.path == MEMORY or has_room(self.path)

    def save(self) -> str | None:
        """Copy what no name leads to any more to a file of its own. Returns its path; None where nothing is lost.

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
        """Say what an earlier kernel saved beside this database, and how to go on with it; None: nothing is there."""
        return None if self.path == MEMORY else saved_notice(self.path)

    def keep_log(self) -> None:
        """Do not copy the log back when closing: after a failed sync nobody knows what of it is on the disk."""
        for connection in (*self._readers, self._writer):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def close(self) -> None:
        """Close every connection; the last one to close removes the WAL."""
        for connection in (*self._readers, self._writer):
            connection.close()
        self._readers.clear()

    def _connect(self, flags: int, pragmas: str) -> apsw.Connection:
        try:
            connection = apsw.Connection(self._uri, flags=flags, vfs=self._vfs, statementcachesize=_STATEMENTS)
            connection.set_busy_timeout(self._patience_ms)
            # A plan is made once, and not anew for each value that is bound: there are no statistics to gain from.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.execute(pragmas).fetchall()
        except apsw.Error as error:
            raise cannot_open(self.path, error) from error
        return connection


def write_anew(conn: apsw.Connection) -> None:
    """Write what is there already: whether the disk takes it is the answer. A row that stays as it was SQLite does not
    write, its version it does. Raises apsw.Error.
    """
    conn.execute(f"{VERSION} = {int(conn.execute(VERSION).get or 0)}")


def saved_beside(conn: apsw.Connection) -> tuple[str, ...]:
    """The copies that kernels saved beside the database of ``conn``: nothing that is erased goes from them."""
    return tuple(_saved(conn.filename)) if conn.filename else ()


def _saved(path: str) -> list[str]:
    try:
        found = (name for name in glob(f"{escape(path)}{_SAVED}*") if name.rpartition(_SAVED)[2].isdecimal())
        return sorted(found, key=os.path.getmtime)
    except OSError:  # it is being moved away
        return []


def has_room(path: str) -> bool:
    """Return whether the disk of ``path`` has room, or nobody can tell."""
    try:
        found = os.statvfs(path)
    except OSError:
        return True
    return found.f_bavail * found.f_frsize >= ROOM_BYTES


def saved_notice(path: str) -> str | None:
    """Say what a kernel saved beside the database at ``path``, and how to go on with it; None: nothing is there."""
    if not (found := _saved(path)):
        return None
    more = f" (and {len(found) - 1} older ones beside it)" if len(found) > 1 else ""
    return (
        f"{found[-1]}{more} has all that was accepted before the database was removed or replaced, and is not in "
        f"use: to go on with it, awk stop, move {path} away, move the copy to {path}, awk start; without use for it, "
        f"delete it"
    )


def open_database(path: str, vfs: str | None = None, *, migrates: bool = True) -> Database:
    """Open ``path`` (or ``:memory:``) and bring its schema up to date, unless that is done later. Raises CannotOpen.

    ``vfs`` names a registered SQLite VFS to reach the disk by, None: the system's own.
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
"""For one question: as long as a snapshot is held, the log cannot be copied back, and grows (fault SF18)."""
_READ_STEPS: Final = 100_000
"""Between two looks at the clock, in SQLite's virtual machine: a few milliseconds."""


class Reader:
    """Reads, beside the writer: each sees the last commit, none can write.

    ``now`` is for questions with an index and a limit (microseconds), ``read`` for the others. They take any
    function ``(connection, ...)``; which questions there are is for the modules of the tables.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._here = database.reader()
        self._idle: list[apsw.Connection] = []
        self._limiter = trio.CapacityLimiter(READERS)

    def now(self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask at once, on the calling thread: only what an index answers within a limit."""
        return question(self._here, *args, **kwargs)

    async def read(
        self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask in a thread, all of it on one snapshot. Raises Refused (busy) after LONGEST_SECONDS.

        Cancellation: the thread finishes its question first, then Cancelled is raised.
        """
        return await trio.to_thread.run_sync(
            lambda: self._ask(lambda c: question(c, *args, **kwargs)), limiter=self._limiter
        )

    def _ask(self, question: Callable[[apsw.Connection], T]) -> T:
        connection = self._idle.pop() if self._idle else self._database.reader()
        deadline = time.monotonic() + LONGEST_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _READ_STEPS)
        try:
            connection.execute("BEGIN")
            return question(connection)
        except apsw.InterruptError as error:
            raise Refused(
                "busy", f"reading takes more than {LONGEST_SECONDS:.0f} s", "ask for less at a time"
            ) from error
        finally:
            connection.set_progress_handler(None)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.append(connection)
