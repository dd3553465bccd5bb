"""One SQLite database: a file in WAL mode, or memory. The same code on both.

Everything that writes goes through ``writer()``, one connection for one thread; readers cannot write. Nothing
may open() the file beside SQLite: closing it would drop SQLite's locks.
"""

import itertools
from importlib import resources
from typing import Final

import apsw

from kernel.fault import fault_hook
from kernel.store.errors import CannotOpen
from kernel.store.look_over import damage

Connection = apsw.Connection
"""What a question is asked on. Others annotate with this and never import apsw."""

MEMORY: Final = ":memory:"
BUSY_MILLISECONDS: Final = 5000
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
_numbers: Final = itertools.count(1)


class Database:
    """Hands out connections. Made by ``open_database``."""

    def __init__(self, path: str, vfs: str | None = None) -> None:
        self.path = path
        self._vfs = vfs
        # An address of its own in SQLite's shared memory, so that readers see what the writer commits.
        self._uri = f"file:/agent-worker-{next(_numbers)}?vfs=memdb" if path == MEMORY else path
        self._readers: list[apsw.Connection] = []
        self._writer = self._connect(_WRITE, _WRITER_PRAGMAS)
        try:
            self._refuse_damage()
            migrate(self._writer, path)
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

    def keep_log(self) -> None:
        """Do not copy the log back when closing: after a failed sync nobody knows what of it is on the disk."""
        for connection in (*self._readers, self._writer):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def close(self) -> None:
        """Close every connection; the last one to close removes the WAL."""
        for connection in (*self._readers, self._writer):
            connection.close()
        self._readers.clear()

    def _refuse_damage(self) -> None:
        try:
            found = damage(self._writer)
        except apsw.Error as error:
            found = str(error)
        if found is not None:
            raise CannotOpen(
                f"the database {self.path} is damaged: {found}. It was left as it is: "
                f"restore it from a backup, or move the file away to start anew"
            )

    def _connect(self, flags: int, pragmas: str) -> apsw.Connection:
        try:
            connection = apsw.Connection(self._uri, flags=flags, vfs=self._vfs, statementcachesize=_STATEMENTS)
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            # A plan is made once, and not anew for each value that is bound: there are no statistics to gain from.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.execute(pragmas).fetchall()
        except apsw.Error as error:
            raise CannotOpen(f"cannot use the database {self.path}: {error}") from error
        return connection


def open_database(path: str, vfs: str | None = None) -> Database:
    """Open ``path`` (or ``:memory:``) and bring its schema up to date. Raises CannotOpen.

    ``vfs`` names a registered SQLite VFS to reach the disk by, None: the system's own.
    """
    return Database(path, vfs)


_VERSION: Final = "PRAGMA user_version"


def migrate(connection: apsw.Connection, path: str) -> None:
    """Apply what is missing, each migration in one transaction. Raises CannotOpen; then nothing was changed."""
    scripts = migrations()
    try:
        _apply(connection, scripts, path)
    except apsw.Error as error:
        raise CannotOpen(
            f"cannot use the database {path}: {error}. Restore it from a backup, or move the file away to start anew"
        ) from error


def _apply(connection: apsw.Connection, scripts: dict[int, str], path: str) -> None:
    """Apply each script above the schema's version inside BEGIN IMMEDIATE, where the version cannot change."""
    for number, script in scripts.items():
        fault_hook("migrate.begin")
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = int(connection.execute(_VERSION).fetchone()[0])  # type: ignore[index]
            if found > max(scripts):
                raise CannotOpen(
                    f"the database {path} has schema {found}, newer than this program's {max(scripts)}: "
                    f"upgrade agent-worker, or move the file away to start anew"
                )
            if found < number:
                connection.execute(script).fetchall()
            fault_hook("migrate.commit")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def migrations() -> dict[int, str]:
    """The numbered scripts of this program, in order."""
    files = resources.files("kernel.store.schema").iterdir()
    named = {int(file.name.split("_")[0]): file for file in files if file.name.endswith(".sql")}
    return {number: named[number].read_text("utf-8") for number in sorted(named)}
