"""Usage in the responses of four APIs: Anthropic, OpenAI Chat Completions and Responses, and Gemini."""

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Final

from protocol.instruction import LARGEST, Usage
from protocol.text import decoded

_LINE_BYTES: Final = 4 * 1024 * 1024
"""Longest line of a stream, or longest document, whose usage is counted."""
_DATA: Final = b"data:"
_WORD: Final = b'"usage"'
_GEMINI: Final = re.compile(rb'"(prompt|candidates|thoughts|cachedContent)TokenCount":\s*(\d{1,15})')
"""Token counts in responses of Gemini's API. In a text of the model, their quotes would be escaped."""


class ResponseUsage:
    """Extractor of the usage in one response. Later counts replace earlier ones.

    A stream is read line by line, any other response as one document.
    """

    def __init__(self, *, streams: bool) -> None:
        self.streams = streams
        self._held = bytearray()
        self._dropping = False
        self._found: dict[str, Any] = {}

    def feed(self, chunk: bytes) -> None:
        """Read a part of the response."""
        if not self.streams:
            self._hold(chunk)
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._hold(line)
            self._look()
        self._hold(rest)

    def end(self) -> Usage:
        """Return the usage. Anthropic's input excludes cached tokens; Gemini's and OpenAI's include them."""
        self._look()
        found = self._found
        read = _number(found, "input_tokens") or _number(found, "prompt_tokens") or _number(found, "prompt")
        written = _number(found, "output_tokens") or _number(found, "completion_tokens")
        written = written or _number(found, "candidates") + _number(found, "thoughts")
        details = _inner(found, "input_tokens_details") or _inner(found, "prompt_tokens_details")
        cached = _number(details, "cached_tokens") or _number(found, "prompt_cache_hit_tokens")
        cached = cached or _number(found, "cachedContent")
        return Usage(
            input_tokens=max(0, read - cached),
            output_tokens=written,
            cache_read_tokens=cached or _number(found, "cache_read_input_tokens"),
            cache_write_tokens=_number(found, "cache_creation_input_tokens"),
        )

    def _hold(self, piece: bytes) -> None:
        if len(self._held) + len(piece) > _LINE_BYTES:
            self._held.clear()
            self._dropping = True
        if not self._dropping:
            self._held += piece

    def _look(self) -> None:
        text, self._dropping = bytes(self._held), False
        self._held.clear()
        if not self._read(text) and not self.streams:  # a stream that its head does not call one
            for line in text.splitlines():
                self._read(line)

    def _read(self, text: bytes) -> bool:
        """Note the usage in a line or document. Return whether that is done."""
        if b"TokenCount" in text:
            self._found |= {name.decode(): int(count) for name, count in _GEMINI.findall(text)}
        if _WORD not in text:
            return True
        said = decoded(text.removeprefix(BOM_UTF8).removeprefix(_DATA).strip(), object)
        for part in (said, *(_inner(said, name) for name in ("message", "response"))):
            usage = _inner(part, "usage")
            if isinstance(usage, Mapping):
                self._found |= {key: value for key, value in usage.items() if value is not None}
        return said is not None


def _inner(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _number(value: object, name: str) -> int:
    found = _inner(value, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LARGEST else 0
