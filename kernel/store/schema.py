"""The schema: errors of an unusable database, the scripts, and the conversion of older databases.

``schema.sql`` is the schema of a new database, followed by the numbered migrations beside it. For a database from
before ``schema.sql``, each table is created from that script and its rows are copied.
"""

import hashlib
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, cast

import apsw

from kernel.fault_injection import fault_point


class StoreError(Exception):
    """Base class of this package's errors."""


class CannotOpen(StoreError):
    """The database cannot be used: newer than this program, damaged, or foreign. The file is unchanged."""


class DatabaseBusy(CannotOpen):
    """Another program holds the lock of the database for longer than the time limit."""


class StorageFailed(StoreError):
    """Writing failed (not for lack of space). Unanswered writes may be lost; restart to recover."""


class CannotSave(StoreError):
    """The data of a deleted database could not be copied to a file and is lost."""


OPEN_SECONDS: Final = 15.0
"""Time limit at start for a lock of another program, shorter than clients' patience for a starting kernel."""
_UNSUPPORTED: Final = frozenset(
    {
        apsw.SQLITE_IOERR_SHMOPEN,
        apsw.SQLITE_IOERR_SHMSIZE,
        apsw.SQLITE_IOERR_SHMMAP,
        apsw.SQLITE_IOERR_SHMLOCK,
        apsw.SQLITE_IOERR_LOCK,
        apsw.SQLITE_IOERR_RDLOCK,
        apsw.SQLITE_IOERR_UNLOCK,
        apsw.SQLITE_IOERR_CHECKRESERVEDLOCK,
        apsw.SQLITE_READONLY_CANTLOCK,
    }
)
"""Errors of a file system without shared memory or locks."""


def cannot_open(path: str, error: apsw.Error) -> CannotOpen:
    """Return the error for people: what ``error`` means for the database at ``path``, and the remedy."""
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return damaged(path, str(error))
    said = f"({error})"
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        what = f"another program has locked the database {path} for more than {OPEN_SECONDS:.0f} s"
        return DatabaseBusy(f"{what}: find out which (fuser {path}) and end it, then start again {said}")
    if isinstance(error, apsw.FullError):
        return CannotOpen(f"the disk of {path} is full: free some space there, then start again {said}")
    if isinstance(error, apsw.ProtocolError) or getattr(error, "extendedresult", 0) in _UNSUPPORTED:
        return CannotOpen(f"{no_locks(path)} {said}")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError):
        return CannotOpen(
            f"cannot write to the database {path}: check the permissions of the file and its directory {said}"
        )
    return CannotOpen(f"cannot use the database {path}: check the system's log for disk errors {said}")


def no_locks(path: str) -> str:
    """Return the problem with the file system of ``path`` and its remedy."""
    what = f"the file system of {path} has no shared memory, or no locks, which the database needs"
    return f"{what}: set AGENT_WORKER_HOME to a directory on a local disk"


def damaged(path: str, found: str) -> CannotOpen:
    """Return the error for a damaged database."""
    return CannotOpen(
        f"the database {path} is damaged: {found}. The file was not changed: "
        f"restore it from a backup, or move the file away to start with an empty database"
    )


CONVERTED: Final = {
    30: "9559a2a8b751855d807a25d0b9bc909bde0845293c72a128fb4151daa606f16e",
    31: "6a05bf8190f4adbd1b3882e6d3be2dc4d59808d1632a0f1c43e2d08d25101b0c",
    32: "63aa040a81517f3f05bd576325f0e7ef4d7b58e0f19bd822d08000bd7373f4ba",
    33: "8099e405b15905683c5670a7dba423b201dc23e4f5d8f7b6e3d08563d4f39550",
    34: "0da170743119c523c49008e9972dc6471999b18348a26bc75928f16cfac1038c",
}
"""Schemas that can be converted, with the digest of the shape of each."""

_INTEGRITY = "PRAGMA integrity_check(1)"
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
_SEQUENCES = "SELECT name, seq FROM sqlite_sequence"
_FORGET_SEQUENCES = "DELETE FROM sqlite_sequence"
_KEEP_SEQUENCE = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"
# SQLite quotes the table names when it generates the statements.
_SET_ASIDE = """
SELECT format('DROP %s "%w"', type, name) FROM sqlite_schema
WHERE type IN ('index', 'trigger') AND tbl_name = ?1 AND sql IS NOT NULL
UNION ALL SELECT format('ALTER TABLE "%w" RENAME TO "%w before"', ?1, ?1)
"""
_COPY = """
SELECT format('DELETE FROM "%w"; INSERT INTO "%w" (%s) SELECT %s FROM "%w before"', ?1, ?1, columns, columns, ?1)
FROM (SELECT group_concat(format('"%w"', name), ', ') AS columns FROM pragma_table_info(?1 || ' before'))
"""
_COUNT = """SELECT format('SELECT (SELECT count(*) FROM "%w before"), (SELECT count(*) FROM "%w")', ?1, ?1)"""
_DROP = """SELECT format('DROP TABLE "%w before"', ?1)"""
# Before schema 33 each kind of decision had a table.
_MERGE = """
INSERT INTO decisions SELECT 'document', id, space, space, file, content, reason, author, instruction, run, at_ms,
  json_object('since', since), state, decided_by, decision_reason, version, NULL FROM document_suggestions;
INSERT INTO decisions SELECT 'soul', id, agent, space, trait, value, observation, NULL, instruction, run, at_ms,
  '{}', state, decided_by, reason, version, NULL FROM soul_proposals;
INSERT INTO decisions SELECT 'memory', id, agent, space, key, value, '', NULL, NULL, run, at_ms,
  json_object('kind', kind, 'messages', json(CAST(messages AS TEXT)), 'trust', trust),
  state, decided_by, NULL, NULL, voted FROM tray;
INSERT INTO decision_numbers SELECT CASE name WHEN 'tray' THEN 'memory' WHEN 'soul_proposals' THEN 'soul'
  ELSE 'document' END, seq FROM sqlite_sequence WHERE name IN ('document_suggestions', 'soul_proposals', 'tray');
DROP TABLE document_suggestions; DROP TABLE soul_proposals; DROP TABLE tray;
"""
# Before schema 31 no trust was recorded: work that has run may have seen the output of tools.
_DISTRUST = "UPDATE instructions SET trust = 2 WHERE epoch > 0"


def shape_digest(shape: Iterable[tuple[str, str, str]]) -> str:
    """Return a digest of a schema: of the type, name and text of all its objects."""
    return hashlib.sha256(repr(list(shape)).encode()).hexdigest()


def why_not_convertible(found: int) -> str:
    """Return the error text for the schema number ``found``, which is too old to be converted."""
    known = ", ".join(str(number) for number in CONVERTED)
    return (
        f"its schema is {found}, and this version can convert only {known}: start it once with a version of schema 30"
    )


def convert(connection: apsw.Connection, found: int, script: str, path: str) -> None:
    """Rebuild every table of schema ``found`` according to ``script``, in the caller's transaction.

    Raises CannotOpen and apsw.Error; the caller then rolls back.
    """
    made = apsw.Connection(":memory:")
    made.execute(script).fetchall()
    existing = connection.execute(_TABLES).fetchall()
    tables = [str(name) for (name,) in made.execute(_TABLES) if (name,) in existing]
    made.close()
    sequences = {"events": 0, "messages": 0, "instructions": 0, **dict(connection.execute(_SEQUENCES))}
    for table in tables:
        _run_written(connection, _SET_ASIDE, table)
    connection.execute(script).fetchall()
    for table in tables:
        _run_written(connection, _COPY, table)
        before, after = _run_written(connection, _COUNT, table)[0]
        if before != after:
            raise CannotOpen(f"the database {path} was not converted: {table} has {after} of {before} rows")
        _run_written(connection, _DROP, table)
    connection.execute(_FORGET_SEQUENCES)
    connection.executemany(_KEEP_SEQUENCE, sequences.items())
    if found < 33:
        connection.execute(_MERGE).fetchall()
    if found < 31:
        connection.execute(_DISTRUST)
    broken = str(connection.execute(_INTEGRITY).get)
    if broken != "ok":
        raise CannotOpen(f"the database {path} was not converted, because it is damaged: {broken[:200]}")


def _run_written(connection: apsw.Connection, statements: str, table: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for (statement,) in connection.execute(statements, (table,)).fetchall():
        rows = cast("list[tuple[object, ...]]", connection.execute(str(statement)).fetchall())
    return rows


VERSION: Final = "PRAGMA user_version"
BASE: Final = 35
"""Number of schema.sql: higher than the numbers of earlier versions, which therefore refuse it as newer."""


def missing_migrations(connection: apsw.Connection, path: str) -> int:
    """Return the number of missing migrations. Raises CannotOpen if the database has others."""
    known = max(migrations())
    found = int(connection.execute(VERSION).fetchone()[0])  # type: ignore[index]
    if found > known:
        raise _too_new(path, found, known)
    return known - found


def _too_new(path: str, found: int, known: int) -> CannotOpen:
    return CannotOpen(
        f"the database {path} has schema {found}, newer than this program's {known}: "
        f"upgrade agent-worker, or move the file away to start with an empty database"
    )


def migrate(connection: apsw.Connection, path: str) -> None:
    """Apply the missing scripts, each in one transaction. Raises CannotOpen, maybe after some."""
    scripts = migrations()
    try:
        while _apply_next(connection, scripts, path) < max(scripts):
            pass
    except apsw.Error as error:
        raise cannot_open(path, error) from error


def _apply_next(connection: apsw.Connection, scripts: dict[int, Traversable], path: str) -> int:
    """Return the version after applying the next script, if any. The lock keeps others out."""
    fault_point("migrate.begin")
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = int(connection.execute(VERSION).fetchone()[0])  # type: ignore[index]
        if found > max(scripts):
            raise _too_new(path, found, max(scripts))
        if found < max(scripts):
            script = scripts[max(found + 1, BASE)].read_text("utf-8")
            if found in CONVERTED:
                convert(connection, found, script, path)
            elif 0 < found < BASE:
                raise CannotOpen(f"the database {path} is too old: {why_not_convertible(found)}")
            else:
                connection.execute(script).fetchall()
        fault_point("migrate.commit")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(connection.execute(VERSION).fetchone()[0])  # type: ignore[index]


def migrations() -> dict[int, Traversable]:
    """Return schema.sql and the later migrations by number, in order."""
    folder = resources.files("kernel.store")
    named = [(int(file.name.split("_")[0]), file) for file in folder.iterdir() if file.name[0].isdigit()]
    scripts = dict(sorted([(BASE, folder / "schema.sql"), *named]))
    assert len(scripts) == len(named) + 1, "two migrations have one number"
    return scripts
