"""Tap on the write-ahead log (WAL): all frames that the writer commits, in order, for a standby copy.

After each commit SQLite reports the number of frames in the WAL. A copier reads them from the file without a lock; only
frames that remain when the WAL is about to restart are read on the writer's thread. To lose none, this module runs the
checkpoints instead of SQLite, after the commit was answered. A copy that falls behind is abandoned and starts again:
the writer never waits for it.
"""

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Final, NamedTuple, cast

import apsw

from kernel.fault_injection import fault_point
from kernel.store.database import write_anew
from kernel.store.snapshot import SnapshotRefused, closed_connection, forget
from kernel.store.transaction import Transaction
from protocol.standby import FRAME_HEADER_BYTES, HEADER_BYTES, checkpoint_of, page_bytes

logger = logging.getLogger(__name__)

DUE_FRAMES: Final = 1000
"""Number of frames that triggers a checkpoint, as in SQLite."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
PENDING_BYTES: Final = 16 * 1024 * 1024
"""Limit of the frames that wait for the copier."""
_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
_BY_ITSELF: Final = 1000


NEWEST: Final = "SELECT seq, at_ms FROM events ORDER BY seq DESC LIMIT 1"


def newest_event(conn: apsw.Connection) -> tuple[int, int]:
    """Return the number and the time (ms) of the newest event; zeros if there is none."""
    return cast("tuple[int, int]", conn.execute(NEWEST).fetchone() or (0, 0))


class Taken(NamedTuple):
    """Frames of the WAL with this ``header``. The first frame has the number ``start``."""

    header: bytes
    start: int
    body: bytes


class LogTap:
    """Reader of a database's WAL. The writer calls ``install``, a copier calls ``begin``."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None
        self._lock = threading.Lock()
        self._now: tuple[bytes, int] | None = None
        """Header of the WAL and the number of its committed frames."""
        self._before: tuple[bytes, int] | None = None
        """Header and final number of frames of the previous WAL."""
        self._new = False
        self._copied_back: tuple[bytes, int] | None = None
        """Value of ``_now`` when a checkpoint had copied all frames."""
        self._header: bytes | None = None
        """Header of the WAL that is being read; None: the next one."""
        self._position = 0
        self._skipped = False
        """Reading started after the first frame, so that the rest of this WAL cannot be used."""
        self._pending: list[Taken] = []
        self._active = False

    # -- on the writer's thread ---------------------------------------------------------------------------

    def install(self, tx: Transaction) -> None:
        """Observe commits. The write in ``tx`` makes its own commit report the current WAL."""
        tx.conn.set_wal_hook(self._committed)
        write_anew(tx.conn)

    def remove(self, tx: Transaction) -> None:
        """Stop observing commits, and let SQLite run the checkpoints again."""
        self.stop()
        tx.conn.wal_autocheckpoint(_BY_ITSELF)

    def after_commit(self, conn: apsw.Connection) -> None:
        """Run a checkpoint if the WAL is long enough. Unread frames are read before."""
        now = self._now
        if now is None or not self._new or now[1] < DUE_FRAMES:
            return
        self.keep_rest()
        self._new = False
        fault_point("tap.checkpoint")
        # A checkpoint that fails is tried again after the next commit, as in SQLite.
        with suppress(apsw.Error):
            busy, frames, copied = conn.execute(_CHECKPOINT).fetchall()[0]
            if not busy and frames == copied:
                self._copied_back = now

    def keep_rest(self) -> None:
        """Read the unread frames into memory, before a checkpoint lets SQLite overwrite them."""
        with self._lock:
            try:
                for taken in self._read():
                    self._pending.append(taken)
                    if sum(len(one.body) for one in self._pending) > PENDING_BYTES:
                        self._active = False
                        self._pending.clear()
            except OSError as error:
                self._fail(error)

    def _committed(self, _conn: apsw.Connection, _name: str, frames: int) -> int:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            header = os.pread(self._file, HEADER_BYTES, 0)
        except OSError as error:
            self._fail(error)
            return apsw.SQLITE_OK
        if self._now is not None and self._now[0] != header:
            self._before = self._now
        self._now = (header, frames)
        self._new = True
        return apsw.SQLITE_OK

    def _fail(self, error: OSError) -> None:
        logger.warning("standby.unread the write-ahead log cannot be read: %s", error)
        self._active = False
        self._pending.clear()

    # -- on any thread ------------------------------------------------------------------------------------

    @property
    def broken(self) -> bool:
        """Return whether frames were lost (call ``begin``), or no commit was observed yet."""
        return not self._active or self._now is None

    def begin(self) -> None:
        """Start at the first frame of the current WAL; of the next WAL if a checkpoint copied all frames."""
        with self._lock:
            self._pending.clear()
            self._active, self._header, self._position, self._skipped = True, None, 0, False
            if self._now is not None and self._now == self._copied_back:
                (self._header, self._position), self._skipped = self._now, True

    def stop(self) -> None:
        """Stop reading and discard pending frames, which may contain erased data."""
        with self._lock:
            self._active = False
            self._pending.clear()

    def close(self) -> None:
        """Close the WAL file. The tap must not be used afterwards."""
        self.stop()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def take(self) -> tuple[list[Taken], bool]:
        """Return committed frames in order, and whether further ones can be taken at once."""
        with self._lock:
            found, self._pending = self._pending, []
            if found or not self._active:
                return found, bool(found)
            try:
                taken = next(self._read(), None)
            except OSError as error:
                self._fail(error)
                return [], False
            return ([], False) if taken is None else ([taken], True)

    def _read(self) -> Iterator[Taken]:
        """Yield committed, unread frames. The caller holds the lock. Raises OSError."""
        while self._active and self._now is not None and self._file is not None:
            header, frames = self._now
            if self._header != header:
                if self._header is not None:
                    # The new WAL must directly follow the one that was being read, and that one must have been read
                    # completely.
                    ended = self._before == (self._header, self._position)
                    if not ended or checkpoint_of(header) != (checkpoint_of(self._header) + 1) & 0xFFFFFFFF:
                        self._active = False
                        return
                self._header, self._position, self._skipped = header, 0, False
            if self._position >= frames:
                return
            if self._skipped:
                self._active = False
                return
            size = FRAME_HEADER_BYTES + page_bytes(header)
            left, offset = (frames - self._position) * size, HEADER_BYTES + self._position * size
            body = os.pread(self._file, min(left, CHUNK_BYTES), offset)
            count = len(body) // size if len(body) == left else _whole_commits(body, size)
            if not count and left > len(body):  # one commit is larger than the chunk
                body = os.pread(self._file, min(left, PENDING_BYTES), offset)
                count = len(body) // size if len(body) == left else _whole_commits(body, size)
            if not count:  # a new copy of the file is smaller than such a commit
                self._active = False
                return
            start, self._position = self._position, self._position + count
            yield Taken(header, start, body[: count * size])


def _whole_commits(body: bytes, size: int) -> int:
    count = len(body) // size
    while count and body[(count - 1) * size + 4 : (count - 1) * size + 8] == b"\0\0\0\0":
        count -= 1
    return count


_PRIVATE: Final = "PRAGMA secure_delete = ON"
_PLAIN: Final = "PRAGMA journal_mode = DELETE"
_SYNC: Final = "PRAGMA synchronous = OFF"
_FRAMES: Final = "PRAGMA wal_autocheckpoint = 0"


def replay(path: str, header: bytes, bodies: Iterable[bytes]) -> None:
    """Apply the frames of one WAL, from the first on, to the database at ``path``. Blocks.

    SQLite replays the WAL as after a crash: the WAL is placed beside the database, and the checksum of each frame is
    verified, so that a torn, changed or missing frame ends the replay.

    Raises SnapshotRefused unless SQLite accepts all frames; OSError.
    """
    log = f"{path}-wal"
    written = 0
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(header)
        for body in bodies:
            file.write(body)
            written += len(body)
    frames = written // (FRAME_HEADER_BYTES + page_bytes(header))
    try:
        with closing(closed_connection(path)) as connection:
            connection.execute(_SYNC).fetchall()
            connection.execute(_FRAMES).fetchall()
            busy, taken, copied = connection.execute(_CHECKPOINT).fetchall()[0]
            if (busy, taken, copied) != (0, frames, frames):
                raise SnapshotRefused(f"only {taken} of {frames} frames of its log are valid")
    except apsw.Error as error:
        raise SnapshotRefused(f"its log cannot be replayed: {error}") from error
    finally:
        for suffix in ("-wal", "-shm"):
            if os.path.lexists(path + suffix):
                os.unlink(path + suffix)


def seal(path: str) -> None:
    """Turn a replayed database into one file (no WAL) and delete tokens. Raises SnapshotRefused."""
    try:
        with closing(closed_connection(path)) as connection:
            connection.execute(_PRIVATE).fetchall()
            forget(connection)
            connection.execute(_PLAIN).fetchall()
    except apsw.Error as error:
        raise SnapshotRefused(f"the database cannot be read: {error}") from error
