"""A tap on the write-ahead log: every frame that the writer commits, in order, for a copy elsewhere.

SQLite says after each commit how many frames the log has. They are read from its file, which nobody locks, by whoever
wants them; only what is left of them when the log is about to be begun anew is read on the writer's thread. So that
nothing is lost then, the log is copied back here, and not by SQLite: behind the answers of a commit, not before them.
A copy that cannot keep up is broken off, and begins anew: nothing is ever waited for.
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
"""After so many the log is copied back, as SQLite does by itself."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
PENDING_BYTES: Final = 16 * 1024 * 1024
"""That are kept for whoever does not take them."""
_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
_BY_ITSELF: Final = 1000


NEWEST: Final = "SELECT seq, at_ms FROM events ORDER BY seq DESC LIMIT 1"


def newest_event(conn: apsw.Connection) -> tuple[int, int]:
    """The newest event and its time; zeros where there is none."""
    return cast("tuple[int, int]", conn.execute(NEWEST).fetchone() or (0, 0))


class Taken(NamedTuple):
    """Frames of one write-ahead log, which ``header`` tells from others, from the number ``start`` on."""

    header: bytes
    start: int
    body: bytes


class LogTap:
    """Reads the log of the database at ``path``. ``installed`` on the writer, ``begun`` by whoever copies."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None
        self._lock = threading.Lock()
        self._now: tuple[bytes, int] | None = None
        """The header of the log, and how many frames are committed in it."""
        self._before: tuple[bytes, int] | None = None
        """The same of the log before this one, when it ended."""
        self._new = False
        self._copied_back: tuple[bytes, int] | None = None
        """As ``_now``, when all of it was in the database's file."""
        self._header: bytes | None = None
        """Of the log that is being read; None: of whichever comes first."""
        self._position = 0
        self._skipped = False
        """It is not read from its first frame: nothing more of it can be used."""
        self._pending: list[Taken] = []
        self._active = False

    # -- on the writer's thread ---------------------------------------------------------------------------

    def install(self, tx: Transaction) -> None:
        """Be told of each commit from this one on, which has to write something."""
        tx.conn.set_wal_hook(self._committed)
        write_anew(tx.conn)

    def remove(self, tx: Transaction) -> None:
        """Leave the log to SQLite again."""
        self.stop()
        tx.conn.wal_autocheckpoint(_BY_ITSELF)

    def after_commit(self, conn: apsw.Connection) -> None:
        """Copy the log back where it has grown enough, with all of it read before."""
        now = self._now
        if now is None or not self._new or now[1] < DUE_FRAMES:
            return
        self.keep_rest()
        self._new = False
        fault_point("tap.checkpoint")
        # As when SQLite does it by itself: it is tried again after the next commit.
        with suppress(apsw.Error):
            busy, frames, copied = conn.execute(_CHECKPOINT).fetchall()[0]
            if not busy and frames == copied:
                self._copied_back = now

    def keep_rest(self) -> None:
        """Read what is left: the log may be begun anew after this."""
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
        """Return whether frames are missing, so that ``begin`` is needed; or it knows of no commit yet."""
        return not self._active or self._now is None

    def begin(self) -> None:
        """Read from the first frame of the log that there is now; where the file has all of that, of the next."""
        with self._lock:
            self._pending.clear()
            self._active, self._header, self._position, self._skipped = True, None, 0, False
            if self._now is not None and self._now == self._copied_back:
                (self._header, self._position), self._skipped = self._now, True

    def stop(self) -> None:
        """Read nothing more; what was erased is not given out any more either."""
        with self._lock:
            self._active = False
            self._pending.clear()

    def close(self) -> None:
        """Give the file back. The tap is not used any more."""
        self.stop()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def take(self) -> tuple[list[Taken], bool]:
        """Some of what was committed, in order, and whether there is more at once."""
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
        """Frames that were committed and not read yet. The lock is held. Raises OSError."""
        while self._active and self._now is not None and self._file is not None:
            header, frames = self._now
            if self._header != header:
                if self._header is not None:
                    # It has to come right after the one that was being read, and that to be read to its end.
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
            if not count and left > len(body):  # one commit is larger than that
                body = os.pread(self._file, min(left, PENDING_BYTES), offset)
                count = len(body) // size if len(body) == left else _whole_commits(body, size)
            if not count:  # a new copy of the file is less than such a commit
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
    """Copy one write-ahead log, with its frames from the first on, back into the database at ``path``. Blocks.

    SQLite does it itself, as after a kernel's death: the log is put beside the file, and each frame is added up, so
    that one which is torn, changed or not there ends it before it is believed.

    Raises SnapshotRefused where SQLite does not take every one of them; OSError.
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
                raise SnapshotRefused(f"{taken} of {frames} frames of its log are as they were written")
    except apsw.Error as error:
        raise SnapshotRefused(f"its log cannot be copied back: {error}") from error
    finally:
        for suffix in ("-wal", "-shm"):
            if os.path.lexists(path + suffix):
                os.unlink(path + suffix)


def seal(path: str) -> None:
    """Make what was replayed one plain file in which nobody's token is. Raises SnapshotRefused."""
    try:
        with closing(closed_connection(path)) as connection:
            connection.execute(_PRIVATE).fetchall()
            forget(connection)
            connection.execute(_PLAIN).fetchall()
    except apsw.Error as error:
        raise SnapshotRefused(f"the database cannot be read: {error}") from error
