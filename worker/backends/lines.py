"""Bytes to lines, with a cap. Sans I/O."""

from typing import Final

LIMIT_BYTES: Final = 4 * 1024 * 1024
"""A longer line is dropped: a tool's result may be large, and nothing we need is."""
_NEWLINE: Final = b"\n"


class Lines:
    """Lines of a program's output, without their ends. ``dropped`` counts those that were over the limit."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._dropping = False
        self.dropped = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """All lines that ``chunk`` completes, in order; empty ones are left out."""
        *pieces, rest = chunk.split(_NEWLINE)
        found: list[bytes] = []
        for piece in pieces:
            self._take(piece)
            found += self._ended()
        self._take(rest)
        return found

    def rest(self) -> list[bytes]:
        """The last line, where it ended without a newline."""
        return self._ended()

    def _take(self, piece: bytes) -> None:
        if self._dropping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            self._buffer.clear()
            self._dropping = True
            self.dropped += 1

    def _ended(self) -> list[bytes]:
        line = bytes(self._buffer.removesuffix(b"\r"))
        self._buffer.clear()
        self._dropping = False
        return [line] if line.strip() else []
