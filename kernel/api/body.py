"""Reads a request's body: whole, bounded in bytes and in time, once for every route."""

from typing import Final

import trio

from kernel.api.asgi import Message, Receive
from protocol.errors import Refused

LIMIT_BYTES: Final = 4 * 1024 * 1024
PATIENCE_SECONDS: Final = 30.0
"""How long a whole body may take (fault HF09)."""


class ClientGone(Exception):
    """The client went away before its body was complete: there is nobody to answer."""


async def read_body(receive: Receive, content_length: bytes | None) -> bytes:
    """The whole body. Raises Refused (too_large, bad_request) and ClientGone."""
    if content_length is not None and content_length.isdigit() and int(content_length) > LIMIT_BYTES:
        raise _too_large()
    with trio.move_on_after(PATIENCE_SECONDS):
        return await _read(receive)
    raise Refused("bad_request", f"the body did not arrive within {PATIENCE_SECONDS:g} s")


async def _read(receive: Receive) -> bytes:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    if not message.get("more_body", False):
        return bytes(message.get("body", b""))
    body = bytearray(message.get("body", b""))
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > LIMIT_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> Refused:
    return Refused(
        "too_large", f"the body is larger than {LIMIT_BYTES} bytes", hint="keep what is long in a file and name it"
    )


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives ``body`` first, then what the connection gives (its end)."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
