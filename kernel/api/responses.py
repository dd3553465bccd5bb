"""Complete responses, and refusals as problem+json (RFC 9457) by one mapping for all routes."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Final

import msgspec
import trio

from kernel.agents.trust import Untrusted
from kernel.api.requests import Fields, Receive, Send
from kernel.operations.answers import Response, Stream
from kernel.policy.documents import Clashing
from kernel.source.diagnostics import BadDefinition
from kernel.store.schema import StorageFailed
from protocol.api.document import Problem
from protocol.errors import Refused
from protocol.ndjson import DuplicateKey
from protocol.text import encode_json

logger = logging.getLogger(__name__)

PROBLEM: Final = b"application/problem+json"

COMMON: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Default header fields. CORS headers are omitted on purpose (promise P17)."""

LINGER_BYTES: Final = 16 * 1024 * 1024
LINGER_SECONDS: Final = 2.0
"""Limits for reading and discarding an unread body, so that the client receives the refusal."""


def head_of(reply: Response) -> list[tuple[bytes, bytes]]:
    """Return all header fields of ``reply``."""
    return [
        (b"content-type", reply.content_type),
        (b"content-length", b"%d" % len(reply.body)),
        *(COMMON if not reply.headers else [one for one in COMMON if one[0] not in dict(reply.headers)]),
        *reply.headers,
    ]


async def send_reply(reply: Response, send: Send) -> None:
    """Send ``reply`` and end the response."""
    await send({"type": "http.response.start", "status": reply.status, "headers": head_of(reply)})
    await send({"type": "http.response.body", "body": reply.body})


async def send_stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Send the pieces of ``stream``, until the client disconnects."""
    headers = [(b"content-type", stream.content_type.encode()), *COMMON]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async with while_connected(receive), aclosing(stream.pieces) as pieces:
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncGenerator[trio.Nursery]:
    """Cancel the block and the tasks of its nursery when the client disconnects; its end cancels the tasks."""

    async def cancel_when_gone(scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when_gone, nursery.cancel_scope)
        yield nursery
        nursery.cancel_scope.cancel()


async def send_and_drain(reply: Response, receive: Receive, send: Send) -> None:
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


INTERNAL: Final = Refused(
    "internal", "the kernel failed to answer; nothing was changed", hint="see `awk logs` and report it"
)

_KNOWN: Final[tuple[tuple[type[Exception], Refused], ...]] = (
    (UnicodeError, Refused("bad_request", "the body has text that is not Unicode (UTF-8, no lone surrogates)")),
    (RecursionError, Refused("bad_request", "the body is nested too deeply")),
    (
        StorageFailed,
        Refused(
            "storage_failed",
            "the kernel can no longer write to its database and exits",
            "see the end of kernel.log for the reason",
        ),
    ),
)


def problem_of(refused: Refused) -> Problem:
    """Return the problem document of a refusal."""
    status = refused.meaning.http_status
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=refused.code,
        detail=refused.text,
        hint=refused.hint,
        errors=refused.errors if isinstance(refused, BadDefinition) else (),
        wants=refused.wants if isinstance(refused, Untrusted) else (),
        conflict=refused.conflict if isinstance(refused, Clashing) else None,
    )


def problem_reply(refused: Refused, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """Return the response to a refused request."""
    problem = problem_of(refused)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers = (*headers, (b"www-authenticate", b"Bearer"))
    return Response(problem.status, encode_json(problem), PROBLEM, headers)


def refusal_of(error: Exception) -> Refused:
    """Return the refusal for ``error``. Unexpected errors are logged and become ``internal``."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, msgspec.ValidationError | DuplicateKey):
        return Refused("bad_request", f"the body does not fit: {error}")
    if isinstance(error, msgspec.DecodeError):
        return Refused("bad_request", f"the body is not JSON: {error}")
    known = next((refused for kind, refused in _KNOWN if isinstance(error, kind)), None)
    if known is not None:
        return known
    logger.error("request.failed", exc_info=error)
    return INTERNAL


PATIENCE_SECONDS = 5.0
"""Seconds to wait for the result before a stream with keep-alives is started."""
SIGN_SECONDS = 20.0
"""Seconds between keep-alives. Known clients wait for at least one minute."""
SIGN = b": a person is asked\n\n"
STREAM = b"text/event-stream"


async def send_or_stream(
    answer: Callable[[], Awaitable[Response]], fields: Fields, receive: Receive, send: Send
) -> None:
    """Send the result of ``answer``, as a stream with keep-alives if it takes long and the client
    accepts one. A disconnecting client cancels ``answer``."""
    streams = STREAM in fields.get(b"accept", b"")
    replies: list[Response] = []
    there = trio.Event()

    async def work() -> None:
        replies.append(await answer())
        there.set()

    async with while_connected(receive) as nursery:
        nursery.start_soon(work)
        with trio.move_on_after(PATIENCE_SECONDS if streams else float("inf")):
            await there.wait()
        if replies:
            await send_reply(replies[0], send)
        else:
            headers = [(b"content-type", STREAM), *COMMON]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not replies:
                await send({"type": "http.response.body", "body": SIGN, "more_body": True})
                with trio.move_on_after(SIGN_SECONDS):
                    await there.wait()
            event = b"event: message\ndata: " + replies[0].body + b"\n\n"
            await send({"type": "http.response.body", "body": event})
