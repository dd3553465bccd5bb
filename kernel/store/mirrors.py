"""Progress of the mirror: messages to write into files, the last written one, and files to rewrite.

Also the last written state of document files, which shows what people have changed since.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, cast

import apsw

from kernel.policy.documents import Mirrored
from kernel.store.messages import Row, message_of, newest_seq
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from protocol.message import Message
from protocol.names import DM, is_personal, split_space

LIMIT: Final = 64
"""Limit of messages in one batch: each may have a quarter of a megabyte."""


class MirrorPlace(NamedTuple):
    """Folder with the direct messages of ``agent``, or the messages of runs (``folder``)."""

    agent: str | None = None
    folder: str | None = None


class MirrorLine(NamedTuple):
    """Message and the folder whose files contain it."""

    place: MirrorPlace
    message: Message


class MirrorBatch(NamedTuple):
    """Messages in order, complete up to number ``upto``. ``more``: further messages may exist."""

    lines: tuple[MirrorLine, ...]
    upto: int
    more: bool


# Messages to an agent without a file are not mirrored: the agent ends with the kernel. Of the runs with one name and
# tag, only the newest one's space is mirrored.
LINES: Final = """
SELECT m.seq, m.kind, m.space, m.sender, m.addressed, m.text, m.hops, m.cause, m.at_ms, m.cleared, w.mirror
FROM messages AS m LEFT JOIN workflows AS w ON w.id = m.run
WHERE m.seq > :since AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND m.cleared = 0
  -- the newest space of each workflow with a mirror
  AND (w.mirror IS NOT NULL AND m.space = (SELECT l.space FROM workflows AS l
      WHERE l.name = w.name AND l.tag = w.tag ORDER BY l.id DESC LIMIT 1)
    -- and the personal spaces of file-based agents
    OR (m.run IS NULL AND m.space BETWEEN 'dm:' AND 'dm:~' AND EXISTS (
    SELECT 1 FROM agents AS a WHERE a.key = substr(m.space, 4) AND a.origin = 'file')))
  AND (:space IS NULL OR m.space = :space) AND (:folder IS NULL OR w.mirror = :folder)
ORDER BY m.seq LIMIT :limit
"""
BEFORE_FIRST: Final = """
SELECT coalesce(min(m.seq) - 1, 0) FROM workflows AS w CROSS JOIN messages AS m ON m.run = w.id
WHERE w.mirror = ? AND m.kind NOT IN ('approval', 'due', 'done', 'failed')
  AND w.space = (SELECT l.space FROM workflows AS l WHERE l.name = w.name AND l.tag = w.tag ORDER BY l.id DESC LIMIT 1)
"""


def lines(conn: apsw.Connection, since: int, only: MirrorPlace | None = None) -> MirrorBatch:
    """Return the messages to mirror after number ``since``. Reads many rows: call in a thread."""
    only = only or MirrorPlace()
    newest = newest_seq(conn)
    if only.folder is not None:
        since = max(since, int(conn.execute(BEFORE_FIRST, (only.folder,)).get))
    space = None if only.agent is None else f"{DM}:{only.agent}"
    values = {"since": since, "space": space, "folder": only.folder, "limit": LIMIT}
    found = tuple(map(_line, conn.execute(LINES, values)))
    full = len(found) == LIMIT
    return MirrorBatch(found, found[-1].message.seq if full else max(since, newest), full)


def _line(row: object) -> MirrorLine:
    *columns, folder = cast("tuple[object, ...]", row)
    message = message_of(cast(Row, tuple(columns)))
    if is_personal(message.space):
        return MirrorLine(MirrorPlace(agent=split_space(message.space)[1]), message)
    return MirrorLine(MirrorPlace(folder=cast(str, folder)), message)


# The row with the space '' stores the overall progress.
written = Sql("SELECT seq FROM mirrors WHERE space = ''").scalar(int, 0)
"""Return the message up to which everything is mirrored; later messages may be mirrored too."""


TO_REDO: Final = "SELECT space FROM mirrors WHERE space <> '' ORDER BY space"
FOLDERS: Final = "SELECT DISTINCT mirror FROM workflows WHERE space = ? AND mirror IS NOT NULL"


class Redo(NamedTuple):
    """Space whose messages were deleted, and the folders whose files contain them."""

    space: str
    places: tuple[MirrorPlace, ...]


def to_redo(conn: apsw.Connection) -> tuple[Redo, ...]:
    """Return the spaces whose mirror files must be rewritten, because messages were deleted."""
    spaces = (str(row[0]) for row in conn.execute(TO_REDO).fetchall())
    return tuple(Redo(space, tuple(_places(conn, space))) for space in spaces)


def _places(conn: apsw.Connection, space: str) -> Iterator[MirrorPlace]:
    if is_personal(space):
        yield MirrorPlace(agent=split_space(space)[1])
    for row in conn.execute(FOLDERS, (space,)):
        yield MirrorPlace(folder=str(row[0]))


EARLIER_IN_FOLDER: Final = """
SELECT EXISTS (SELECT 1 FROM workflows AS w CROSS JOIN messages AS m ON m.run = w.id
  WHERE w.mirror = :folder AND m.seq < :before AND m.cleared = 0
    AND m.kind NOT IN ('approval', 'due', 'done', 'failed')
    -- only the newest space of each workflow is mirrored
    AND m.space = (SELECT l.space FROM workflows AS l
      WHERE l.name = w.name AND l.tag = w.tag ORDER BY l.id DESC LIMIT 1)
    AND (instr(:part, '.') OR (m.sender = :part AND m.cause IS NOT NULL)
      OR instr(' ' || m.addressed || ' ', ' ' || :part || ' ')))
"""
EARLIER_OF_AGENT: Final = """
SELECT EXISTS (SELECT 1 FROM messages AS m
  WHERE m.space = :space AND m.seq < :before AND m.cleared = 0
    AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND date(m.at_ms / 1000, 'unixepoch') = :part)
"""


def said_earlier(conn: apsw.Connection, place: MirrorPlace, parts: Iterable[str], before: int) -> bool:
    """Return whether a file of ``place`` has a message before number ``before``. Call in a thread.

    ``parts`` name the files: days of an agent's folder, or members; one with a dot is the channel.
    """
    question = EARLIER_OF_AGENT if place.folder is None else EARLIER_IN_FOLDER
    values = {"folder": place.folder, "space": f"{DM}:{place.agent}", "before": before}
    return any(conn.execute(question, {**values, "part": part}).get for part in parts)


DAYS: Final = "SELECT DISTINCT date(at_ms / 1000, 'unixepoch') FROM messages WHERE space = ?"
SPEAKERS: Final = """
SELECT DISTINCT m.sender, m.addressed FROM workflows AS w CROSS JOIN messages AS m ON m.run = w.id
WHERE w.mirror = :folder AND m.kind NOT IN ('approval', 'due', 'done', 'failed')
UNION SELECT m.name, '' FROM workflows AS w CROSS JOIN members AS m ON m.space = w.space WHERE w.mirror = :folder
"""


def days(conn: apsw.Connection, agent: str) -> tuple[str, ...]:
    """Return the days (UTC) with direct messages to ``agent``, including deleted messages."""
    return tuple(day for (day,) in conn.execute(DAYS, (f"{DM}:{agent}",)))


def names(conn: apsw.Connection, folder: str) -> tuple[str, ...]:
    """Return the names of senders, receivers and members in the runs that are or were mirrored to ``folder``."""
    rows = conn.execute(SPEAKERS, {"folder": folder})
    return tuple(sorted({name for sender, addressed in rows for name in (sender, *addressed.split())}))


set_written = Sql("""
INSERT INTO mirrors (space, seq) VALUES ('', ?) ON CONFLICT (space) DO UPDATE SET seq = excluded.seq
""").change()
"""Record that all messages up to this one are in synced files."""

mark_redo = Sql("INSERT INTO mirrors (space, seq) VALUES (?, 0) ON CONFLICT (space) DO UPDATE SET seq = 0").change()
"""Record that the mirror files of a space must be rewritten, also by the next kernel."""

redone = Sql("DELETE FROM mirrors WHERE space = ?").change()
"""Record that the mirror files of a space were rewritten."""


class DocumentFolder(NamedTuple):
    """Space with documents in ``folder``. Unless ``newest``, its files belong to an earlier run."""

    space: str
    folder: str
    newest: bool = False
    running: bool = False


NEWEST_FOLDERS: Final = """
SELECT w.space, w.mirror, w.state = 'running' FROM workflows AS w INDEXED BY workflows_mirrored
WHERE w.mirror IS NOT NULL AND w.workspace = 'kept'
  AND w.id = (SELECT l.id FROM workflows AS l WHERE l.name = w.name AND l.tag = w.tag ORDER BY l.id DESC LIMIT 1)
"""
LEFT_FOLDERS: Final = "SELECT DISTINCT space, folder FROM document_mirrors"


def document_folders(conn: apsw.Connection) -> tuple[DocumentFolder, ...]:
    """Return the spaces with mirrored documents: earlier runs with files, then newest runs."""
    newest = [
        DocumentFolder(str(space), str(folder), True, bool(running))
        for space, folder, running in conn.execute(NEWEST_FOLDERS)
    ]
    left = {DocumentFolder(str(space), str(folder)) for space, folder in conn.execute(LEFT_FOLDERS)}
    return (*sorted(left - {DocumentFolder(one.space, one.folder) for one in newest}), *newest)


LEFT: Final = "SELECT file, version, digest, told FROM document_mirrors WHERE space = ? AND folder = ?"
VERSIONS: Final = "SELECT file, version, deleted FROM documents WHERE space = ?"


def left_files(conn: apsw.Connection, one: DocumentFolder) -> dict[str, Mirrored]:
    """Return the mirrored documents of a folder by name, each as last written to its file."""
    return {str(file): Mirrored(*cast("Mirrored", rest)) for file, *rest in conn.execute(LEFT, (one.space, one.folder))}


def versions(conn: apsw.Connection, space: str) -> dict[str, tuple[int, bool]]:
    """Return each document's newest version, by name, and whether the document is deleted."""
    rows = cast("list[tuple[str, int, int]]", conn.execute(VERSIONS, (space,)).fetchall())
    return {file: (version, bool(deleted)) for file, version, deleted in rows}


LEAVE: Final = """
INSERT INTO document_mirrors (space, file, folder, version, digest, told)
VALUES (:space, :file, :folder, :version, :digest, :told)
ON CONFLICT (space, file) DO UPDATE SET
  folder = excluded.folder, version = excluded.version, digest = excluded.digest, told = excluded.told
"""
FORGET: Final = "DELETE FROM document_mirrors WHERE space = ? AND file = ?"


def leave_files(tx: Transaction, one: DocumentFolder, left: Mapping[str, Mirrored | None]) -> None:
    """Record the documents as they were last written to files; None: the file was deleted."""
    for file, how in left.items():
        if how is None:
            tx.conn.execute(FORGET, (one.space, file))
        else:
            values = {"space": one.space, "file": file, "folder": one.folder, **how._asdict()}
            tx.conn.execute(LEAVE, values)
