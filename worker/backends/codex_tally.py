"""What a thread of codex has spent so far: from the record of it that codex keeps in its home, as that grows.

What ``codex exec --json`` prints tells it once, at the end of its work. The record (``sessions/**/rollout-*.jsonl``,
version 0.169) counts after each reply of the model. Where there is no such record it is all told in the end.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from worker.backends import private
from worker.backends.lines import Lines

_KIND: Final = "token_count"
_CHUNK_BYTES: Final = 1024 * 1024


class Count(msgspec.Struct, frozen=True):
    """Tokens of a thread so far, of all processes that worked on it."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: Count = Count()


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    info: _Info | None = None


class _Event(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_decode: Final = msgspec.json.Decoder(_Event).decode


class Tally:
    """Follows the records of one thread, in the home that they are in."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._read: dict[Path, tuple[int, Lines]] = {}
        """How much of each is behind us, and its last line, which is being written."""
        self._last: Count | None = None

    def count(self, thread: str) -> Count | None:
        """What ``thread`` has spent, as far as it is written down by now; None where nothing is."""
        for path in sorted(self._home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl")):
            with suppress(OSError):
                self._follow(path)
        return self._last

    def _follow(self, path: Path) -> None:
        behind, lines = self._read.get(path, (0, Lines()))
        with private.opened(path) as file:
            file.seek(behind)
            while chunk := file.read(_CHUNK_BYTES):
                for line in lines.feed(chunk):
                    self._last = _counted(line) or self._last
            self._read[path] = file.tell(), lines


def _counted(line: bytes) -> Count | None:
    if _KIND.encode() not in line:
        return None
    try:
        payload = _decode(line).payload
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return payload.info.total_token_usage if payload.type == _KIND and payload.info is not None else None
