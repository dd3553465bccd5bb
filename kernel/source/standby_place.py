"""The folder of a standby: a copy of the database file, the pieces of its log, and their descriptions.

Each file is written under a temporary name, synced and renamed, so that it is complete or absent. Each piece contains
the digest of the previous piece's head, and each head its body's digest: missing, swapped and changed pieces are
detected, and all earlier ones are valid. The contents are read as untrusted input.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final, NamedTuple, TypeVar

import msgspec

from kernel.fault_injection import fault_point
from osfiles.atomic_write import replacing, sync_folder
from osfiles.safe_open import open_regular
from protocol.standby import FRAME_HEADER_BYTES, STANDBY, Base, Beat, Owner, Piece, Promoted, checkpoint_of, page_bytes

OWNER: Final = "standby.json"
BEAT: Final = "beat.json"
PROMOTED: Final = "promoted.json"
FILES: Final = "files.zip"
PART: Final = ".part"
PIECE_BYTES: Final = 64 * 1024 * 1024
"""Limit of one piece."""
_HEAD_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_MAGIC: Final = b"awk-log1"
_LENGTH: Final = struct.Struct(">I")
_NUMBERED: Final = re.compile(r"(?:base-(\d{12})-[0-9a-f]{8}\.(?:db|json)|log-(\d{12})\.seg)", re.ASCII)

T = TypeVar("T")


class BadPlace(Exception):
    """The folder has no valid copy or cannot be used. The text gives the reason."""


def new_base_name(number: int) -> str:
    """Return the name of a base without suffix: ``.db`` is the database, ``.json`` its description."""
    return f"base-{number:012d}-{secrets.token_hex(4)}"


def piece_name(number: int) -> str:
    """Return the name of a piece."""
    return f"log-{number:012d}.seg"


def number_of(name: str) -> int | None:
    """Return the number in the name of a base or piece, or None for other names."""
    return int(found[1] or found[2]) if (found := _NUMBERED.fullmatch(name)) else None


# -- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def new_file(folder: str, name: str) -> Generator[IO[bytes]]:
    """Yield a new file, renamed to ``name`` after the block. After an OSError, no file remains.

    An existing file may be open in another process, which could read the contents.
    """
    path = os.path.join(folder, name)
    with replacing(path, beside=path + PART, written=lambda: fault_point("standby.written")) as file:
        yield file
    fault_point("standby.named")


def write_json(folder: str, name: str, what: msgspec.Struct) -> None:
    """Write ``what`` as JSON to the file ``name``. Raises OSError."""
    with new_file(folder, name) as file:
        file.write(msgspec.json.encode(what))


def write_piece(folder: str, piece: Piece, body: bytes) -> str:
    """Write a piece and return the digest of its head for the next piece. Raises OSError."""
    head = msgspec.json.encode(piece)
    with new_file(folder, piece_name(piece.number)) as file:
        file.write(_MAGIC + _LENGTH.pack(len(head)) + head)
        file.write(body)
    return hashlib.sha256(head).hexdigest()


def claim(folder: str, owner: Owner) -> int:
    """Claim ``folder``; return the highest number of a piece. A base may exist before its first piece.

    Raises BadPlace, OSError.
    """
    if not stat.S_ISDIR(os.stat(folder).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    promoted = _read(folder, PROMOTED, Promoted)
    if promoted is not None:
        raise BadPlace(f"its copy was promoted at {promoted.at}, in {promoted.root}")
    found = _read(folder, OWNER, Owner)
    if found is not None and (found.log, found.state) != (owner.log, owner.state):
        raise BadPlace(f"it contains the copy of another project: {found.root} ({found.state})")
    if found is None:
        write_json(folder, OWNER, owner)
        sync_folder(folder)
    names = os.listdir(folder)
    for name in names:
        if name.endswith(PART) and (name.removesuffix(PART) in (BEAT, FILES, OWNER) or number_of(name[: -len(PART)])):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
    numbers = ((name, number_of(name) or 0) for name in names if not name.endswith(".db"))
    return max((number - name.startswith("base-") for name, number in numbers), default=0)


def forget_before(folder: str, first: int, kept: str) -> None:
    """Delete all bases but ``kept``, and pieces before ``first``; the description of a base is deleted first."""
    names = [(name, number) for name in os.listdir(folder) if (number := number_of(name)) is not None]
    bases = (name for name, _ in names if name.startswith("base-") and not name.startswith(kept))
    older = [*bases, *(name for name, number in names if name.startswith("log-") and number < first)]
    for name in sorted(older, key=lambda name: (not name.endswith(".json"), name)):
        os.unlink(os.path.join(folder, name))
        fault_point("standby.removed")


# -- reading -----------------------------------------------------------------------------------------------------------


class StandbyCopy(NamedTuple):
    """Copy in a folder, with the descriptions that could be read."""

    owner: Owner
    base: Base
    base_name: str
    """Name without suffix."""
    beat: Beat | None
    promoted: Promoted | None
    total_bytes: int
    names: frozenset[str]


def look_at(folder: str) -> StandbyCopy:
    """Read the description of the copy in ``folder``. Raises BadPlace."""
    try:
        names = frozenset(os.listdir(folder))
        owner = _read(folder, OWNER, Owner)
        if owner is None:
            raise BadPlace("it contains no standby")
        if owner.form != STANDBY:
            raise BadPlace(f"it is not {STANDBY}: upgrade agent-worker, if a newer one wrote it")
        bases = sorted((name for name in names if name.startswith("base-") and name.endswith(".json")), reverse=True)
        read = [(one, name[: -len(".json")]) for name in bases if (one := _read(folder, name, Base)) is not None]
        if not read:
            raise BadPlace("the copy of the database is incomplete and cannot be used")
        size = sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
        beat, promoted = _read(folder, BEAT, Beat), _read(folder, PROMOTED, Promoted)
    except OSError as error:
        raise BadPlace(f"it cannot be read: {error.strerror or error}") from error
    base, named = max(read, key=lambda one: (one[0].first, one[0].at_ms))
    return StandbyCopy(owner, base, named, beat, promoted, size, names)


def _read(folder: str, name: str, kind: type[T]) -> T | None:
    try:
        with _opened(folder, name) as file:
            return msgspec.json.decode(file.read(_HEAD_BYTES), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _opened(folder: str, name: str) -> IO[bytes]:
    return open(open_regular(os.path.join(folder, name)), "rb")


def copy_base(folder: str, found: StandbyCopy, target: str) -> None:
    """Copy the base to the new file ``target`` and verify its size and digest. Raises BadPlace."""
    name, digest, left = f"{found.base_name}.db", hashlib.sha256(), found.base.size
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _opened(folder, name) as source, open(os.open(target, flags, 0o600), "wb") as file:
            while left and (data := source.read(min(left, _CHUNK_BYTES))):
                digest.update(data)
                file.write(data)
                left -= len(data)
    except OSError as error:
        raise BadPlace(f"{name} cannot be copied: {error.strerror or error}") from error
    if left or digest.hexdigest() != found.base.sha256:
        raise BadPlace(f"{name} is damaged: its digest does not match")


def good_pieces(folder: str, found: StandbyCopy, fault: list[str]) -> Iterator[tuple[Piece, bytes]]:
    """Yield the base's pieces in order, up to the first fault, whose text is added to ``fault``."""
    number, chain = found.base.first, found.base.chain
    before: Piece | None = None
    while piece_name(number) in found.names:
        try:
            piece, body, digest = _read_piece(folder, number)
            begins = piece.anew and piece.chain != found.base.chain
            if not begins and piece.chain != chain:
                raise BadPlace("it does not belong to the piece before it")
            goes_on = before is not None and before.wal == piece.wal
            start = before.start + before.frames if before is not None and goes_on else 0
            after = None if before is None or goes_on else (checkpoint_of(before.wal) + 1) & 0xFFFFFFFF
            if not begins and (piece.start != start or after not in (None, checkpoint_of(piece.wal))):
                raise BadPlace("frames are missing before it")
        except (BadPlace, OSError, struct.error) as error:
            fault.append(f"{piece_name(number)}: {error}")
            return
        if begins:
            return  # the base of this piece is not complete yet
        yield piece, body
        before, chain, number = piece, digest, number + 1
    last = max(found.base.needs, 0 if found.beat is None else found.beat.last)
    later = [name for name in found.names if name.endswith(".seg") and (number_of(name) or 0) > number]
    if number <= last or later:
        fault.append(f"{piece_name(number)} is not there")


def _read_piece(folder: str, number: int) -> tuple[Piece, bytes, str]:
    with _opened(folder, piece_name(number)) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(_MAGIC) + _LENGTH.size)
        if len(start) != len(_MAGIC) + _LENGTH.size or not start.startswith(_MAGIC) or size > PIECE_BYTES:
            raise BadPlace("it is not a piece of a log")
        (length,) = _LENGTH.unpack(start[len(_MAGIC) :])
        head = file.read(min(length, _HEAD_BYTES))
        body = file.read()
    try:
        piece = msgspec.json.decode(head, type=Piece)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadPlace(f"its head cannot be read: {error}") from error
    if hashlib.sha256(body).hexdigest() != piece.sha256:
        raise BadPlace("it is damaged: its digest does not match")
    if piece.number != number or len(body) != piece.frames * (FRAME_HEADER_BYTES + page_bytes(piece.wal)) or not body:
        raise BadPlace("it does not match its head")
    return piece, body, hashlib.sha256(head).hexdigest()
