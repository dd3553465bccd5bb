"""Frames of a node's stream as bytes: a header with length, checksum, number and acknowledgement, then the body.

What is damaged is noticed, never guessed at: the transport ends, and the numbers say what to send again.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from protocol.node import FRAME_LIMIT_BYTES

_HEADER: Final = struct.Struct(">IIQQ")
_NUMBERS: Final = struct.Struct(">QQ")
HEADER_BYTES: Final = _HEADER.size


class Garbled(Exception):
    """The bytes that came are not what the other side sent, or break the rules: this transport is of no more use."""


class Packet(NamedTuple):
    """One frame. ``number`` 0: it has none; ``acknowledged`` is the last number that took effect over there."""

    number: int
    acknowledged: int
    body: bytes


def pack(packet: Packet) -> bytes:
    """One frame as bytes."""
    numbers = _NUMBERS.pack(packet.number, packet.acknowledged)
    crc = zlib.crc32(packet.body, zlib.crc32(numbers))
    return _HEADER.pack(len(packet.body), crc, packet.number, packet.acknowledged) + packet.body


class Unpacker:
    """Turns chunks of bytes into frames. Holds one frame at most, whatever length is announced."""

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._buffer = bytearray()

    def feed(self, chunk: bytes | bytearray) -> Iterator[Packet]:
        """Yield what ``chunk`` completes. Raises Garbled."""
        self._buffer += chunk
        at = 0
        try:
            while len(self._buffer) - at >= HEADER_BYTES:
                length, crc, number, acknowledged = _HEADER.unpack_from(self._buffer, at)
                if length > self._limit:
                    raise Garbled(f"a frame of {length} bytes is announced, and {self._limit} is the most there is")
                end = at + HEADER_BYTES + length
                if len(self._buffer) < end:
                    return
                body = bytes(self._buffer[at + HEADER_BYTES : end])
                at = end
                if zlib.crc32(body, zlib.crc32(_NUMBERS.pack(number, acknowledged))) != crc:
                    raise Garbled(f"the checksum of a frame of {length} bytes is wrong")
                yield Packet(number, acknowledged, body)
        finally:
            del self._buffer[:at]
