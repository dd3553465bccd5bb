"""The frames between a kernel and the process that copies its log: msgpack to it, a line of JSON back."""

import struct
from collections.abc import Iterator
from typing import Final

import msgspec


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
