"""Copies of a project: the standby copy of its log and files, backups, and the reports about both."""

import struct
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

STANDBY: Final = "awk/standby/1"
ALIVE_SECONDS: Final = 60.0
"""Maximum age of a beat that proves that the original's kernel is alive."""
BEAT_SECONDS: Final = 5.0


HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
_HEADER: Final = struct.Struct(">8I")


def page_bytes(header: bytes) -> int:
    """Return the page size of the write-ahead log with this header."""
    return int(_HEADER.unpack(header)[2])


def checkpoint_of(header: bytes) -> int:
    """Return the checkpoint number of the write-ahead log, which SQLite increments each time it restarts the log."""
    return int(_HEADER.unpack(header)[3])


LARGEST: Final = 2**52
"""Largest accepted number in files of the folder, which are not trusted."""
LATEST: Final = 253_402_300_799
"""Last second of the year 9999, the latest time that can be displayed."""
Number = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=LATEST * 1000)]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """``standby.json``: the project whose copy is in this folder."""

    form: str = STANDBY
    log: str
    """Id of the log."""
    root: str
    """Root of the project on the original machine."""
    state: str


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """``base-N.json``: a copy of the database file, to which the pieces from ``first`` on apply.

    The file was copied while the kernel wrote, so the copy is consistent only after the pieces up to ``needs``.
    """

    first: Number
    needs: Number
    chain: str
    """Value of ``chain`` in the first piece."""
    size: Number
    sha256: str
    at_ms: Milliseconds


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Head of ``log-N.seg``, a piece: frames of the write-ahead log between two commits.

    ``chain`` is the digest of the previous head, ``sha256`` is the digest of the body.
    """

    number: Number
    chain: str
    wal: bytes
    """Header of the write-ahead log that contains the frames."""
    start: Number
    """Index of the first frame in the write-ahead log, from 0."""
    frames: Number
    sha256: str
    anew: bool = False
    """Whether the piece is the first of a chain, which has its own base."""


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """``beat.json``: the last sign of life of the original, and the progress of its copy."""

    at: Seconds
    """Seconds since 1970, by the original's clock."""
    term: Number
    last: Number
    """Number of the last piece in the folder."""
    event: Number = 0
    """Newest event that the copy must contain."""
    ended: bool = False
    """Whether the original's kernel stopped on request after it copied its whole log."""


class Promoted(msgspec.Struct, frozen=True, kw_only=True):
    """``promoted.json``: the record that the copy replaced the original."""

    at: str
    root: str


class StandbyState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the standby copy of this kernel's log: its lag and the current problem."""

    to: str
    state: str
    """``copying`` (a copy of the database file is being written), ``following``, ``behind``, or ``untrusted``."""
    lag_seconds: float
    """Age of the oldest commit that is not copied; 0 if all commits are copied."""
    event: int
    """Newest event that the copy certainly contains."""
    place_bytes: int = 0
    why: str | None = None
    fix: str | None = None


class StandbyReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk standby check``: the verified content of a standby folder, checked without the original."""

    schema: str = "awk/standby-check/1"
    folder: str
    ok: bool
    project: str
    event: int
    """Last event in the copy, which also contains all earlier events."""
    message: int
    at: str | None
    """Time of the last event."""
    term: int
    pieces: int
    base_at: str
    total_bytes: int
    files: int
    """Number of copied files of agents."""
    files_at: str | None
    beat_at: str | None
    alive: bool
    """Whether the last beat is recent enough that the original may still run."""
    ended: bool
    promoted: str | None = None
    faults: tuple[str, ...] = ()


class LogRestart(msgspec.Struct, frozen=True, kw_only=True, tag="anew"):
    """Mark in the stream to the copier: the next frame is the first of a write-ahead log, so the
    copier has to copy the database file."""

    sent: int
    """Number of the next piece."""


class Frames(msgspec.Struct, frozen=True, kw_only=True, tag="frames"):
    """Frames of the write-ahead log, sent to the copier."""

    sent: int
    wal: bytes
    start: int
    body: bytes


class UpTo(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """Mark in the stream to the copier: all frames have been sent that were committed at the kernel's last check."""

    event: int
    at_ms: int
    sent: int
    term: int
    copies: int = 0
    """Number of copies of the database file that the copier had reported before that check."""
    last: bool = False
    """Whether the kernel stops."""


class CopierReport(msgspec.Struct, frozen=True, kw_only=True):
    """Progress report of the copier, one line of its output, with the current problem."""

    done: int = 0
    """Number of the last piece in the folder, as the kernel numbers pieces."""
    begun: int = 0
    """Number of ``LogRestart`` marks that the copier received."""
    whole: bool = False
    """Whether the pieces since the last ``LogRestart`` can be promoted."""
    copies: int = 0
    """Number of times that the copier has copied the database file."""
    lost: bool = False
    """Whether the copier needs a new copy of the database file to continue."""
    why: str | None = None
    fix: str | None = None
    ended: bool = False
    place_bytes: int = 0


Sent = LogRestart | Frames | UpTo
_decode: Final = msgspec.msgpack.Decoder(Sent).decode
_LENGTH: Final = struct.Struct(">I")


def packed(message: Sent) -> bytes:
    """Encode a message as its length and MessagePack."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def unpacked(data: bytearray) -> Iterator[Sent]:
    """Remove the complete messages from the beginning of ``data`` and yield them."""
    while len(data) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        if len(data) < end:
            return
        message = _decode(bytes(data[_LENGTH.size : end]))
        del data[:end]
        yield message


BACKUP: Final = "awk/backup-file/1"


class BackedUpFile(msgspec.Struct, frozen=True, kw_only=True):
    """File in a backup."""

    path: str
    bytes: int
    sha256: str


class BackedUpTree(msgspec.Struct, frozen=True, kw_only=True):
    """Working tree that the backup leaves out, with the branch that has its commits in the project's git repository."""

    run: str
    agent: str
    branch: str
    tip: str


class BackupHead(msgspec.Struct, frozen=True, kw_only=True):
    """Project of a backup, and the last event and message that the backup contains."""

    version: str
    at: str
    project: str
    state: str
    """State directory of the original, with links resolved."""
    database_schema: int
    event: int
    """Last event in the backup, which also contains all earlier events. The same applies to ``message``."""
    message: int
    trees: tuple[BackedUpTree, ...] = ()


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a backup, and its head."""

    schema: str = BACKUP
    head: BackupHead
    files: tuple[BackedUpFile, ...] = ()


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of ``awk backup``."""

    schema: str = "awk/backup/1"
    file: str
    bytes: int
    backup: BackupHead
    files: int
    left_out: tuple[str, ...]


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of ``awk restore``. ``aside``: new paths of the replaced state. ``missing``: branches that git lacks."""

    schema: str = "awk/restore/1"
    project: str
    backup: BackupHead
    aside: tuple[str, ...]
    missing: tuple[BackedUpTree, ...]
    notes: tuple[str, ...]
