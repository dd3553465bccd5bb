"""The end of a copied log: a database's file and the frames that were committed meanwhile become one database.

SQLite does it itself, as after a kernel's death: each write-ahead log is put beside the file and copied back. It adds
up every frame, so that one which is torn, changed or not there ends it before it is believed.
"""

import os
from collections.abc import Iterable
from typing import Final

import apsw

from kernel.store.snapshot import SnapshotRefused, closed_connection, forget
from protocol.standby import FRAME_HEADER_BYTES, page_bytes

_PRIVATE: Final = "PRAGMA secure_delete = ON"
_PLAIN: Final = "PRAGMA journal_mode = DELETE"
_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
_SYNC: Final = "PRAGMA synchronous = OFF"
_FRAMES: Final = "PRAGMA wal_autocheckpoint = 0"


def replay(path: str, header: bytes, bodies: Iterable[bytes]) -> None:
    """Copy one write-ahead log, with its frames from the first on, back into the database at ``path``. Blocks.

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
        connection = closed_connection(path)
        try:
            connection.execute(_SYNC).fetchall()
            connection.execute(_FRAMES).fetchall()
            busy, taken, copied = connection.execute(_CHECKPOINT).fetchall()[0]
            if (busy, taken, copied) != (0, frames, frames):
                raise SnapshotRefused(f"{taken} of {frames} frames of its log are as they were written")
        finally:
            connection.close()
    except apsw.Error as error:
        raise SnapshotRefused(f"its log cannot be copied back: {error}") from error
    finally:
        for suffix in ("-wal", "-shm"):
            if os.path.lexists(path + suffix):
                os.unlink(path + suffix)


def seal(path: str) -> None:
    """Make what was replayed one plain file in which nobody's token is. Raises SnapshotRefused."""
    try:
        connection = closed_connection(path)
        try:
            connection.execute(_PRIVATE).fetchall()
            forget(connection)
            connection.execute(_PLAIN).fetchall()
        finally:
            connection.close()
    except apsw.Error as error:
        raise SnapshotRefused(f"the database cannot be read: {error}") from error
