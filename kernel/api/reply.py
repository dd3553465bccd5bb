"""One answer to one request, complete and in memory, and how it goes out."""

from dataclasses import dataclass
from typing import Any, Final

import trio

from kernel.api.asgi import Receive, Send
from protocol.text import encode_json

JSON: Final = b"application/json"
PROBLEM: Final = b"application/problem+json"

COMMON: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""On every answer. There are no CORS headers, on purpose (promise P17)."""

LINGER_BYTES: Final = 16 * 1024 * 1024
LINGER_SECONDS: Final = 2.0
"""How much of an unread body, and for how long, is thrown away, so that the client gets to read why it was refused."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, body and the headers beyond the common ones."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def json_reply(value: Any, status: int = 200) -> Reply:
    """``value`` (a Struct, or plain JSON data) as JSON."""
    return Reply(status, encode_json(value))


def head_of(reply: Reply) -> list[tuple[bytes, bytes]]:
    """All header fields of ``reply``."""
    return [
        (b"content-type", reply.content_type),
        (b"content-length", b"%d" % len(reply.body)),
        *COMMON,
        *reply.headers,
    ]


async def send_reply(reply: Reply, send: Send) -> None:
    """Send ``reply`` and end the response."""
    await send({"type": "http.response.start", "status": reply.status, "headers": head_of(reply)})
    await send({"type": "http.response.body", "body": reply.body})


async def send_and_drain(reply: Reply, receive: Receive, send: Send) -> None:
    """Send ``reply`` to a client that may still be sending its body.

    Closing on unread bytes makes TCP reset the connection, and the client would never see the answer.
    """
    await send({"type": "http.response.start", "status": reply.status, "headers": head_of(reply)})
    await send({"type": "http.response.body", "body": reply.body, "more_body": True})
    drained = 0
    with trio.move_on_after(LINGER_SECONDS):
        while drained < LINGER_BYTES:
            message = await receive()
            drained += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
    await send({"type": "http.response.body", "body": b""})
