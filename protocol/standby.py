"""Copies of a project: the continuous one of its log with its files, and backups; and what people are told of them."""

import struct
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

STANDBY: Final = "awk/standby/1"
ALIVE_SECONDS: Final = 60.0
"""A beat that is younger says that the original lives."""
BEAT_SECONDS: Final = 5.0


HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
_HEADER: Final = struct.Struct(">8I")


def page_bytes(header: bytes) -> int:
    """The size of a page in the write-ahead log with this header."""
    return int(_HEADER.unpack(header)[2])


def checkpoint_of(header: bytes) -> int:
    """The number of the write-ahead log: each that is begun anew in one database's life has the next."""
    return int(_HEADER.unpack(header)[3])


LARGEST: Final = 2**52
"""Of numbers in the folder: anybody may have written them."""
LATEST: Final = 253_402_300_799
"""The last second that has a date: of the year 9999."""
Number = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=LATEST * 1000)]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """``standby.json``: whose copy this folder has."""

    form: str = STANDBY
    log: str
    """The id of the log."""
    root: str
    """The project's, where it was written."""
    state: str


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """``base-N.json``: a copy of the database's file, to which the pieces from ``first`` on belong.

    It was copied while the kernel wrote: it is one moment only together with the pieces up to ``needs``.
    """

    first: Number
    needs: Number
    chain: str
    """What the first piece names as the one before it."""
    size: Number
    sha256: str
    at_ms: Milliseconds


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The head of ``log-N.seg``: frames of the write-ahead log, from one commit's end to another's.

    ``chain`` is the digest of the head before; the body's is in the head.
    """

    number: Number
    chain: str
    wal: bytes
    """The header of the write-ahead log whose frames these are."""
    start: Number
    """The first frame's number there, from 0."""
    frames: Number
    sha256: str
    anew: bool = False
    """The first of a chain: it belongs to a base of its own."""


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """``beat.json``: when the original lived last, and how much of its log it had brought here."""

    at: Seconds
    """Seconds since 1970, by its clock."""
    term: Number
    last: Number
    """The last piece that is here."""
    event: Number = 0
    """The newest event that has to be in it."""
    ended: bool = False
    """Its kernel was asked to end, and all of its log is here."""


class Promoted(msgspec.Struct, frozen=True, kw_only=True):
    """``promoted.json``: the copy took the original's place."""

    at: str
    root: str


class StandbyState(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of this kernel's log: how far behind it is, and what keeps it."""

    to: str
    state: str
    """``copying`` (the first, or a new copy of the file), ``following``, ``behind``, or ``untrusted``."""
    lag_seconds: float
    """Since the oldest commit that is not there; 0: all is."""
    event: int
    """The newest event that is certainly there."""
    place_bytes: int = 0
    why: str | None = None
    fix: str | None = None


class StandbyReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk standby check``: the copy in a folder as it is, without the original's word for it."""

    schema: str = "awk/standby-check/1"
    folder: str
    ok: bool
    project: str
    event: int
    """The last event that is in it, and all before it."""
    message: int
    at: str | None
    """When that event was."""
    term: int
    pieces: int
    base_at: str
    total_bytes: int
    files: int
    """Of what agents keep."""
    files_at: str | None
    beat_at: str | None
    alive: bool
    """The original's last beat is so young that it may live."""
    ended: bool
    promoted: str | None = None
    faults: tuple[str, ...] = ()


class Anew(msgspec.Struct, frozen=True, kw_only=True, tag="anew"):
    """A mark that what follows begins with the first frame of a write-ahead log, and needs a new copy of the file."""

    sent: int
    """The number of the piece that comes next."""


class Frames(msgspec.Struct, frozen=True, kw_only=True, tag="frames"):
    """Frames of the write-ahead log."""

    sent: int
    wal: bytes
    start: int
    body: bytes


class UpTo(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """All that was committed when the kernel looked has been sent."""

    event: int
    at_ms: int
    sent: int
    term: int
    copies: int = 0
    """So often it had heard before it looked that the file was copied."""
    last: bool = False
    """It ends."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the copier: how much is there, and what keeps it from more."""

    done: int = 0
    """The last piece that is there, by the kernel's numbers."""
    begun: int = 0
    """How often it heard that all begins anew."""
    whole: bool = False
    """What it was sent since then can be promoted."""
    copies: int = 0
    """How often it has copied the file of the database."""
    lost: bool = False
    """It cannot go on with what it has."""
    why: str | None = None
    fix: str | None = None
    ended: bool = False
    place_bytes: int = 0


Sent = Anew | Frames | UpTo
_decode: Final = msgspec.msgpack.Decoder(Sent).decode
_LENGTH: Final = struct.Struct(">I")


def packed(message: Sent) -> bytes:
    """A message as it is sent: its length, and msgpack."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def unpacked(data: bytearray) -> Iterator[Sent]:
    """The whole messages at the beginning of ``data``, which are taken out of it."""
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
    """One file of a backup."""

    path: str
    bytes: int
    sha256: str


class BackedUpTree(msgspec.Struct, frozen=True, kw_only=True):
    """A working tree that is not in the backup: the branch with its commits, which the project's git has."""

    run: str
    agent: str
    branch: str
    tip: str


class BackupHead(msgspec.Struct, frozen=True, kw_only=True):
    """The project that a backup is of, and up to where it is complete."""

    version: str
    at: str
    project: str
    state: str
    """The directory of state of the original, without links."""
    database_schema: int
    event: int
    """The last event and message that are in it, and all before them."""
    message: int
    trees: tuple[BackedUpTree, ...] = ()


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a backup, and what it is of."""

    schema: str = BACKUP
    head: BackupHead
    files: tuple[BackedUpFile, ...] = ()


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk backup``."""

    schema: str = "awk/backup/1"
    file: str
    bytes: int
    backup: BackupHead
    files: int
    left_out: tuple[str, ...]


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk restore``. ``aside``: where what was there is now. ``missing``: branches that this project's git lacks."""

    schema: str = "awk/restore/1"
    project: str
    backup: BackupHead
    aside: tuple[str, ...]
    missing: tuple[BackedUpTree, ...]
    notes: tuple[str, ...]
