"""NDJSON with a limit: frames to lines, bytes to frames. Sans I/O.

A line over the limit is cut, not buffered: the reader drops the rest of it and says so once (fault IF01).
What does not parse is handed back as text for the log; it never ends the stream (IF14). It names the kind of frame that
it was meant to be where that is one that counts: those are never lost without a word.
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
    """A frame that does not fit in one line; send what is long as a blob reference."""


class DuplicateKey(ValueError):
    """An object that gives a key twice: two readers would see two objects."""


class Noise(msgspec.Struct, frozen=True):
    """A line that was no frame: ``why`` it was not, and its first bytes as text.

    ``meant``: the kind of frame that it was to be, if that is one that counts.
    """

    why: str
    text: str
    meant: str | None = None


def encode(frame: msgspec.Struct) -> bytes:
    """One frame as one line. Raises LineTooLong."""
    line = encode_json(frame)
    if len(line) >= LINE_LIMIT_BYTES:
        raise LineTooLong(f"a {type(frame).__name__} frame of {len(line)} bytes exceeds {LINE_LIMIT_BYTES}")
    return line + _NEWLINE


def reject_duplicate_keys(data: bytes) -> None:
    """Raise DuplicateKey where an object in ``data``, which is JSON, gives a key twice."""
    json.loads(data, object_pairs_hook=_once, parse_int=_unread, parse_float=_unread)


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DuplicateKey(f"the key {key[:100]!r} is there twice")
        seen.add(key)


def _unread(_digits: str) -> None:
    """A number, of however many digits: only keys are looked at."""


@cache
def _decoder_of(frames: Hashable) -> msgspec.json.Decoder[Any]:
    """One for all readers of these frames: some 300 KiB, which forked processes share if it was there before."""
    return msgspec.json.Decoder(frames)


class FrameReader(Generic[F]):
    """Turns chunks of bytes into frames of one union, and lines that are none into Noise."""

    def __init__(
        self, frames: type[F] | object, limit_bytes: int = LINE_LIMIT_BYTES, *, counts: frozenset[str] = frozenset()
    ) -> None:
        """``counts``: tags of frames that have to be whole, and of which no key is given twice."""
        self._counts = counts
        self._decoder: msgspec.json.Decoder[F] = (
            frames if isinstance(frames, msgspec.json.Decoder) else _decoder_of(frames)
        )
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._dropping = False

    def another(self) -> "FrameReader[F]":
        """One of the same frames that has read nothing. Spares looking up the decoder, by every type of a union."""
        return FrameReader(self._decoder, self._limit, counts=self._counts)

    @property
    def pending(self) -> bytes:
        """Return what has come of a line that has not ended."""
        return bytes(self._buffer)

    @property
    def dropping(self) -> bool:
        """Return whether the rest of the line that is being read is dropped: it was too long."""
        return self._dropping

    def resume(self, pending: bytes, *, dropping: bool = False) -> None:
        """Go on where another reader of the same bytes stopped."""
        self._buffer[:] = pending
        self._dropping = dropping

    def feed(self, chunk: bytes) -> list[F | Noise]:
        """Everything that ``chunk`` completes, in order."""
        out: list[F | Noise] = []
        *lines, rest = chunk.split(_NEWLINE)
        for line in lines:
            self._take(line, out)
            if not self._dropping and self._buffer:
                parse_line = bytes(self._buffer)
                parse: F | Noise
                if not parse_line.lstrip().startswith(
                    b"{"
                ):  # without an exception: there may be tens of thousands in a chunk
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
                            reject_duplicate_keys(
                                parse_line
                            )  # what we would write ourselves has none, and is compared sooner than read
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
        """Which frame that counts ``line`` was to be: what is no JSON, or only the beginning of it, says so as well."""
        if not self._counts or not line.lstrip().startswith(b"{"):
            return None
        said: str | None
        try:
            said = _tagged.decode(line).t
        except (msgspec.DecodeError, ValueError, RecursionError):
            found = _TAG.search(line)
            said = None if found is None else found[1].decode()
        return said if said in self._counts else None


class _Tagged(msgspec.Struct, frozen=True):
    t: str = ""


_tagged: Final = msgspec.json.Decoder(_Tagged)
_TAG: Final = re.compile(rb'"t"\s*:\s*"([a-z]{1,20})"')


def _show(line: bytes) -> str:
    return line[:2000].decode("utf-8", "replace").replace("\0", "�")
