"""NDJSON with a limit: frames to lines, bytes to frames. Sans I/O.

A line over the limit is cut, not buffered: the reader drops the rest of it and says so once (fault IF01).
What does not parse is handed back as text for the log; it never ends the stream (IF14).
"""

import json
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from protocol.text import encode_json

LINE_LIMIT_BYTES: Final = 1024 * 1024
_NEWLINE: Final = b"\n"

F = TypeVar("F")


class DoubledKey(ValueError):
    """An object that has one key twice: readers differ in which of the two values they take."""


class LineTooLong(ValueError):
    """A frame that does not fit in one line; send what is long as a blob reference."""


@dataclass(frozen=True, slots=True)
class Noise:
    """A line that was no frame: ``why`` it was not, and its first bytes as text."""

    why: str
    text: str


def refuse_doubled_keys(text: bytes) -> None:
    """Raise DoubledKey where an object in ``text`` has a key twice.

    For JSON from outside that its own decoder has taken: msgspec keeps the last value and says nothing.
    Raises ValueError or RecursionError where ``text`` is no JSON.
    """
    _pairs.decode(str(text, "utf-8"))


def _without_doubles(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise DoubledKey(f"the key {name[:100]!r} is there twice")
        seen.add(name)


_pairs: Final = json.JSONDecoder(object_pairs_hook=_without_doubles, parse_int=str, parse_float=str)


def encode(frame: msgspec.Struct) -> bytes:
    """One frame as one line. Raises LineTooLong."""
    line = encode_json(frame)
    if len(line) >= LINE_LIMIT_BYTES:
        raise LineTooLong(f"a {type(frame).__name__} frame of {len(line)} bytes exceeds {LINE_LIMIT_BYTES}")
    return line + _NEWLINE


@cache
def _decoder_of(frames: Hashable) -> msgspec.json.Decoder[Any]:
    """One for all readers of these frames: some 300 KiB, which forked processes share if it was there before."""
    return msgspec.json.Decoder(frames)


class FrameReader(Generic[F]):
    """Turns chunks of bytes into frames of one union, and lines that are none into Noise."""

    def __init__(self, frames: type[F] | object, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._decoder: msgspec.json.Decoder[F] = (
            frames if isinstance(frames, msgspec.json.Decoder) else _decoder_of(frames)
        )
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._dropping = False

    def another(self) -> "FrameReader[F]":
        """One of the same frames that has read nothing. Spares looking up the decoder, by every type of a union."""
        return FrameReader(self._decoder, self._limit)

    @property
    def pending(self) -> bytes:
        """What has come of a line that has not ended."""
        return bytes(self._buffer)

    def feed(self, chunk: bytes) -> list[F | Noise]:
        """Everything that ``chunk`` completes, in order."""
        out: list[F | Noise] = []
        *lines, rest = chunk.split(_NEWLINE)
        for line in lines:
            self._take(line, out)
            if not self._dropping and self._buffer:
                out.append(self._parse(bytes(self._buffer)))
            self._buffer.clear()
            self._dropping = False
        self._take(rest, out)
        return out

    def _take(self, piece: bytes, out: list[F | Noise]) -> None:
        if self._dropping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            out.append(Noise(f"line over {self._limit} bytes cut", _show(bytes(self._buffer[:200]))))
            self._buffer.clear()
            self._dropping = True

    def _parse(self, line: bytes) -> F | Noise:
        if not line.lstrip().startswith(b"{"):  # without an exception: there may be tens of thousands in a chunk
            return Noise("not JSON", _show(line))
        try:
            return self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Noise(str(error), _show(line))


def _show(line: bytes) -> str:
    return line[:2000].decode("utf-8", "replace").replace("\0", "�")
