"""Full-text index of agents' messages, steps and memories: a separate database, derived from the log.

The index contains no original data, so that any problem is repaired by a rebuild: a file that is
damaged, or of another version or log, is deleted when it is opened. The index stores which words
occur in which turn, but no texts. Texts are read from the log, so that deleted ones are not found.

Words are prefixed with the number of their agent's shelf (``12xdeploy``): a query reads only its agent's postings, and
frequencies count only there. For a common word, only the newest turns are read (policy.recall.within_budget).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar, cast

import apsw

from kernel.store.database import check_integrity

VERSION: Final = 3
"""Version of the index format. An index of another version is rebuilt."""
BUDGET: Final = 10_000
"""Limit of postings that one query reads."""
CANDIDATES: Final = 100
"""Limit of ranked turns per query."""
INDEXED_CHARACTERS: Final = 32_000
"""Limit of indexed characters per turn."""

T = TypeVar("T")

SCHEMA: Final = """
CREATE TABLE progress (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  log TEXT NOT NULL,                 -- identifier of the indexed log
  message INTEGER NOT NULL,          -- messages are indexed up to this one,
  event INTEGER NOT NULL,            -- steps from events up to this one,
  instruction INTEGER NOT NULL,      -- steps of older instructions up to this one,
  last_instruction INTEGER NOT NULL, -- the last of the older instructions
  unscrubbed INTEGER NOT NULL DEFAULT 0      -- the file may contain deleted data
) STRICT;
CREATE TABLE shelves (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,               -- key
  part TEXT NOT NULL CHECK (part IN ('history', 'memory')),
  texts INTEGER NOT NULL DEFAULT 0,
  words INTEGER NOT NULL DEFAULT 0,
  UNIQUE (agent, part)
) STRICT;
CREATE TABLE spaces (id INTEGER PRIMARY KEY, space TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE turns (
  id INTEGER PRIMARY KEY,            -- also in turn_words
  shelf INTEGER NOT NULL,
  words INTEGER NOT NULL,
  -- for the part 'history'
  space INTEGER,
  kind INTEGER CHECK (kind IN (0, 1)),  -- message, step
  number INTEGER,                    -- of the message, or of the step's instruction
  k INTEGER,                         -- of the step's first entry
  at_ms INTEGER,
  -- for the part 'memory': an item instead of a turn
  name TEXT,
  tier TEXT,
  digest BLOB,
  CHECK ((name IS NULL) = (space NOTNULL AND kind NOTNULL AND number NOTNULL AND k NOTNULL AND at_ms NOTNULL)),
  CHECK ((name IS NULL) = (tier IS NULL) AND (name IS NULL) = (digest IS NULL))
) STRICT;
CREATE UNIQUE INDEX turns_of ON turns (shelf, kind, number, k) WHERE name IS NULL;
CREATE UNIQUE INDEX turns_kept ON turns (shelf, name) WHERE name NOTNULL;
CREATE INDEX turns_at ON turns (shelf, at_ms, id);
CREATE INDEX turns_beside ON turns (shelf, space, kind, at_ms, id);
CREATE VIRTUAL TABLE turn_words USING fts5 (words, content = '', contentless_delete = 1, detail = none,
  tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* S* P* C*'");
CREATE TABLE vectors (
  turn INTEGER PRIMARY KEY,
  endpoint TEXT NOT NULL,            -- and model: vectors of other models are not comparable
  vector BLOB NOT NULL               -- of length 1, floats of four bytes
) STRICT;
"""
_PRAGMAS: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -16384;
PRAGMA secure_delete = ON;
PRAGMA journal_size_limit = 67108864;
"""
_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
BROKEN: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.IOError, apsw.CantOpenError)
"""Errors of a damaged or deleted index, which must be rebuilt."""
UNWRITABLE: Final = (apsw.FullError, apsw.BusyError, apsw.ReadOnlyError)
"""Errors of an intact index that cannot be written now."""


class IndexBroken(Exception):
    """The index is unusable and must be rebuilt. The text gives the reason."""


class IndexUnwritable(Exception):
    """The index cannot be written for now: its disk is full or read-only."""


def open_index(path: str, log: str) -> tuple[apsw.Connection, str | None]:
    """Open the index at ``path`` of the log ``log``; replace an unusable one by an empty one.

    Return the connection and, if the index is empty, why, or None. Raises IndexUnwritable.
    """
    why = None
    if os.path.exists(path):
        try:
            return _connect(path, log), None
        except (IndexBroken, *BROKEN) as error:
            why = str(error)
    try:
        remove(path)
        conn = apsw.Connection(path, flags=_FLAGS)
        conn.execute(_PRAGMAS).fetchall()
        with conn:
            conn.execute(SCHEMA).fetchall()
            conn.execute(BEGIN_PROGRESS, (log,))
            conn.pragma("user_version", VERSION)
    except (*BROKEN, *UNWRITABLE, OSError) as error:
        raise IndexUnwritable(f"{path}: {error}") from error
    return conn, why or "there was none"


def remove(path: str) -> None:
    """Delete the index and SQLite's files beside it. Raises OSError."""
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


BEGIN_PROGRESS: Final = """
INSERT INTO progress (id, log, message, event, instruction, last_instruction) VALUES (1, ?, 0, 0, 0, 0)
"""


def _connect(path: str, log: str) -> apsw.Connection:
    conn = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        conn.set_busy_timeout(1000)
        version = int(conn.pragma("user_version") or 0)
        if version != VERSION:
            raise IndexBroken(f"it has version {version}, but this program needs {VERSION}")
        conn.execute(_PRAGMAS).fetchall()
        if (found := check_integrity(conn)) is not None:
            raise IndexBroken(f"it is damaged: {found}")
        if progress(conn).log != log:
            raise IndexBroken("it belongs to another log")
    except BaseException:
        conn.close()
        raise
    return conn


class Index:
    """Open index: one writing connection, and further ones for queries. One thread at a time uses each.

    The connections of a broken index are not closed, because a thread may still use them.
    """

    def __init__(self, path: str, log: str) -> None:
        """Open the index. Raises IndexUnwritable."""
        self._path = path
        self._writer, self.why_empty = open_index(path, log)
        self._idle: list[apsw.Connection] = []
        self._place = os.stat(path).st_ino

    def ask(self, question: Callable[[apsw.Connection], T]) -> T:
        """Run a query on one snapshot. Raises IndexBroken, IndexUnwritable."""
        conn = self._idle.pop() if self._idle else None
        try:
            self._check_place()
            conn = conn or _reader(self._path)
            conn.execute("BEGIN")
            return question(conn)
        except BROKEN as error:
            raise IndexBroken(str(error)) from error
        except UNWRITABLE as error:
            raise IndexUnwritable(str(error)) from error
        finally:
            if conn is not None:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                self._idle.append(conn)

    def change(self, change: Callable[[apsw.Connection], T]) -> T:
        """Run a change in a transaction. Raises IndexBroken, IndexUnwritable."""
        try:
            self._check_place()
            return change(self._writer)
        except BROKEN as error:
            raise IndexBroken(str(error)) from error
        except UNWRITABLE as error:
            raise IndexUnwritable(str(error)) from error

    def _check_place(self) -> None:
        try:
            found = os.stat(self._path).st_ino
        except FileNotFoundError:
            raise IndexBroken("it was removed") from None
        if found != self._place:
            raise IndexBroken("it was replaced by another file")


def _reader(path: str) -> apsw.Connection:
    conn = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    conn.set_busy_timeout(1000)
    conn.execute("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;").fetchall()
    return conn


class IndexProgress(NamedTuple):
    """Position in the log up to which the index is complete."""

    log: str
    message: int
    event: int
    instruction: int
    last_instruction: int


PROGRESS: Final = "SELECT log, message, event, instruction, last_instruction FROM progress WHERE id = 1"
SET_PROGRESS: Final = """
UPDATE progress SET message = :message, event = :event, instruction = :instruction,
  last_instruction = :last_instruction WHERE id = 1
"""


def progress(conn: apsw.Connection) -> IndexProgress:
    """Return the position up to which the index is complete. Raises IndexBroken."""
    row = conn.execute(PROGRESS).fetchone()
    if row is None:
        raise IndexBroken("its progress is missing")
    return IndexProgress(*cast("tuple[str, int, int, int, int]", row))


MERGE: Final = "INSERT INTO turn_words (turn_words) VALUES ('optimize')"
UNSCRUBBED: Final = "UPDATE progress SET unscrubbed = ? WHERE id = 1"
OWES: Final = "SELECT unscrubbed FROM progress WHERE id = 1"


def scrub(conn: apsw.Connection) -> bool:
    """Erase deleted data from the file by rewriting it. Return False if a reader prevents this for
    now. Raises apsw.Error.
    """
    if not conn.execute(OWES).get:
        return True
    with conn:
        # Otherwise deleted words remain in segments until some later merge.
        conn.execute(MERGE)
    conn.execute("VACUUM").fetchall()
    if conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
        return False
    conn.execute(UNSCRUBBED, (0,))
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return True


DROP_PROGRESS: Final = "UPDATE progress SET message = 0, event = 0, instruction = 0, last_instruction = 0 WHERE id = 1"


def begin_again(conn: apsw.Connection) -> None:
    """Reset the progress, so that the whole log is indexed again; indexed turns remain."""
    conn.execute(DROP_PROGRESS)


FIGURES: Final = """
SELECT count(*), coalesce(sum(texts), 0) FROM shelves
WHERE part = 'history' AND texts > 0 AND (?1 IS NULL OR agent = ?1)
"""


def figures(conn: apsw.Connection, agent: str | None) -> tuple[int, int]:
    """Return the numbers of agents with turns and of turns; of ``agent`` (a key), or (None) all."""
    return cast("tuple[int, int]", conn.execute(FIGURES, (agent,)).fetchone())
