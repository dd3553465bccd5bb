"""Answers of operations that are more than a struct: a status and headers of their own, or a stream."""

from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from protocol.text import encode_json

JSON: Final = b"application/json"
BYE: Final = "bye"
"""Type of the last event of every stream of a kernel that stops."""


class Response(msgspec.Struct, frozen=True):
    """Status, body and the headers beyond the common ones."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(msgspec.Struct, frozen=True):
    """An answer in pieces: server-sent events, or an archive."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str = "text/event-stream; charset=utf-8"


def json_reply(value: Any, status: int = 200) -> Response:
    """Return ``value`` (a Struct, or plain JSON data) as JSON."""
    return Response(status, encode_json(value))
