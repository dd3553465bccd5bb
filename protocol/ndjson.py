"""NDJSON with a line limit: frames to lines, bytes to frames. Sans I/O.

A line over the limit is not buffered: the reader drops the excess bytes and reports the line once
(fault IF01). An invalid line is returned as text for the log and never ends the stream (IF14). If
the line seems to be a frame that must not be lost, the report names the kind of that frame.
"""

import json
import re
from collections.abc import Hashable
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from protocol.text import encode_json

LINE_LIMIT_BYTES: Final = 1024 * 1024
_NEWLINE: Final = b"\n"

F = TypeVar("F")


class LineTooLong(ValueError):
    """Frame that exceeds the limit of a line; send long content as a blob reference."""


class DuplicateKey(ValueError):
    """Object with a duplicate key, which two parsers may read differently."""


class Noise(msgspec.Struct, frozen=True):
    """Invalid line: the reason, and its first bytes as text.

    ``meant``: the kind of frame that the sender intended, if frames of that kind must not be lost.
    """

    why: str
    text: str
    meant: str | None = None


def encode(frame: msgspec.Struct) -> bytes:
    """Encode a frame as a line. Raises LineTooLong."""
    line = encode_json(frame)
    if len(line) >= LINE_LIMIT_BYTES:
        raise LineTooLong(f"a {type(frame).__name__} frame of {len(line)} bytes exceeds {LINE_LIMIT_BYTES}")
    return line + _NEWLINE


def reject_duplicate_keys(data: bytes) -> None:
    """Raise DuplicateKey if an object in the JSON ``data`` has a duplicate key."""
    json.loads(data, object_pairs_hook=_check_keys, parse_int=_skip_number, parse_float=_skip_number)


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DuplicateKey(f"the key {key[:100]!r} occurs twice")
        seen.add(key)


def _skip_number(_digits: str) -> None:
    """Skip the conversion of numbers, which may have any number of digits: only keys are checked."""


@cache
def _decoder_of(frames: Hashable) -> msgspec.json.Decoder[Any]:
    """Return the cached decoder of these frames. It uses about 300 KiB, which processes forked later share."""
    return msgspec.json.Decoder(frames)


class FrameReader(Generic[F]):
    """Parser of chunks of bytes to frames of one union. Invalid lines become Noise."""

    def __init__(
        self, frames: type[F] | object, limit_bytes: int = LINE_LIMIT_BYTES, *, counts: frozenset[str] = frozenset()
    ) -> None:
        """``counts``: tags of frames that must not be lost or have duplicate keys."""
        self._counts = counts
        self._decoder: msgspec.json.Decoder[F] = (
            frames if isinstance(frames, msgspec.json.Decoder) else _decoder_of(frames)
        )
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._dropping = False

    def another(self) -> "FrameReader[F]":
        """Return a new reader of the same frames, without the slow lookup of the decoder of a union."""
        return FrameReader(self._decoder, self._limit, counts=self._counts)

    @property
    def pending(self) -> bytes:
        """Return the received part of an incomplete line."""
        return bytes(self._buffer)

    @property
    def dropping(self) -> bool:
        """Return whether the rest of the current line is dropped because it is too long."""
        return self._dropping

    def resume(self, pending: bytes, *, dropping: bool = False) -> None:
        """Continue the stream of another reader, which stopped with the state ``pending`` and ``dropping``."""
        self._buffer[:] = pending
        self._dropping = dropping

    def feed(self, chunk: bytes) -> list[F | Noise]:
        """Return the frames and invalid lines that ``chunk`` completes, in order."""
        out: list[F | Noise] = []
        *lines, rest = chunk.split(_NEWLINE)
        for line in lines:
            self._take(line, out)
            if not self._dropping and self._buffer:
                parse_line = bytes(self._buffer)
                parse: F | Noise
                # An exception would be slow: a chunk may contain tens of thousands of such lines.
                if not parse_line.lstrip().startswith(b"{"):
                    parse = Noise("not JSON", _show(parse_line))
                else:
                    try:
                        frame = self._decoder.decode(parse_line)
                        if (
                            self._counts
                            and (frame.__struct_config__.tag if isinstance(frame, msgspec.Struct) else None)
                            in self._counts
                            and encode_json(frame) != parse_line
                        ):
                            # Our own encoding has no duplicate keys, and the comparison is faster.
                            reject_duplicate_keys(parse_line)
                        parse = frame
                    except (msgspec.DecodeError, ValueError, RecursionError) as error:
                        parse = Noise(str(error), _show(parse_line), self._meant(parse_line))
                out.append(parse)
            self._buffer.clear()
            self._dropping = False
        self._take(rest, out)
        return out

    def _take(self, piece: bytes, out: list[F | Noise]) -> None:
        if self._dropping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            line = bytes(self._buffer)
            out.append(Noise(f"line over {self._limit} bytes cut", _show(line[:200]), self._meant(line)))
            self._buffer.clear()
            self._dropping = True

    def _meant(self, line: bytes) -> str | None:
        """Return the tag in ``line`` if it is in ``counts``, even from a truncated line."""
        if not self._counts or not line.lstrip().startswith(b"{"):
            return None
        tag: str | None
        try:
            tag = _tagged.decode(line).t
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = _TAG.search(line)
            tag = None if found is None else found[1].decode()
        return tag if tag in self._counts else None


class _Tagged(msgspec.Struct, frozen=True):
    t: str = ""


_tagged: Final = msgspec.json.Decoder(_Tagged)
_TAG: Final = re.compile(rb'"t"\s*:\s*"([a-z]{1,20})"')


def _show(line: bytes) -> str:
    return line[:2000].decode("utf-8", "replace").replace("\0", "�")
