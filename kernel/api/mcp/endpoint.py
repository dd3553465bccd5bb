"""POST /mcp: plain requests are answered here, everything else goes through the SDK, imported when first needed."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import trio

from kernel.api.asgi import Fields, Message, Receive, Scope, Send
from kernel.api.http.dispatch import check_json
from kernel.api.mcp import fast_path
from kernel.api.mcp.approvals import send_or_stream
from kernel.api.mcp.calls import ToolDispatcher, failed
from kernel.api.mcp.fast_path import IDENTITY, DirectCall, reply_to
from kernel.api.mcp.tool import Caller
from kernel.api.request_body import replay
from kernel.api.responses import COMMON, Response, problem_reply, send_reply
from kernel.store.attempts import Identity
from protocol.errors import Refused
from protocol.ndjson import DuplicateKey, reject_duplicate_keys

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class Endpoint:
    """Serves MCP without sessions: each request stands for itself, as its token does.

    ``reached`` is told the instruction of each that comes.
    """

    def __init__(self, calls: ToolDispatcher, reached: Callable[[str], None]) -> None:
        self._calls = calls
        self._reached = reached
        self._nursery: trio.Nursery | None = None
        self._opening = trio.Lock()
        self._sdk: _Serve | None = None

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        """Serve while the block lasts. Leave it in the task that entered it, after the last request."""
        async with trio.open_nursery() as self._nursery:
            yield
            self._nursery.cancel_scope.cancel()

    async def handle(
        self, identity: Identity, fields: Fields, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one request of ``identity``."""
        self._reached(identity.instruction)
        plain = _plain(fields, body)
        if (twice := _given_twice(body)) is not None:
            refused = Refused("bad_request", f"this is no call: {twice}", "give each argument once")
            answer = reply_to(plain, failed(refused)) if isinstance(plain, DirectCall) else problem_reply(refused)
            await send_reply(answer, send)
            return
        if isinstance(plain, DirectCall) and plain.tool.waits:
            await send_or_stream(partial(self._call, identity, plain), fields, receive, send)
            return
        if plain is not None:
            await send_reply(plain if isinstance(plain, Response) else await self._call(identity, plain), send)
            return
        serve = await self._by_sdk()
        scope[IDENTITY] = identity
        await serve(scope, replay(body, receive), _uncached(send))

    async def _call(self, identity: Identity, plain: DirectCall) -> Response:
        """The answer to a call that needs nothing of the SDK."""
        answer = await self._calls.call(plain.tool, Caller(identity, plain.call_key), plain.arguments)
        return reply_to(plain, answer)

    async def _by_sdk(self) -> _Serve:
        """The SDK's way. The first that needs it has it imported, in a thread; the others wait for the same."""
        async with self._opening:
            serve = self._sdk
            if serve is None:
                assert self._nursery is not None, "a request comes while run() lasts"
                serve = self._sdk = cast("_Serve", await self._nursery.start(self._serve_by_sdk))
            return serve

    async def _serve_by_sdk(self, *, task_status: trio.TaskStatus[_Serve]) -> None:
        manager = await trio.to_thread.run_sync(_build, self._calls)
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of every request of the older revisions
        async with manager.run():
            task_status.started(manager.handle_request)
            await trio.sleep_forever()


def _plain(fields: Fields, body: bytes) -> DirectCall | Response | None:
    """A call, or an answer that is known at once; None where the SDK has to look at it."""
    try:
        check_json(fields.get(b"content-type", b""))
    except Refused as refused:
        return problem_reply(refused)
    return fast_path.modern_read(fields, body) or fast_path.read(fields, body)


def _given_twice(body: bytes) -> str | None:
    """Which key an object in ``body`` has twice: of two readers each would see another call."""
    try:
        reject_duplicate_keys(body)
    except DuplicateKey as error:
        return str(error)
    except (ValueError, RecursionError):  # no JSON: whoever reads it next says so
        return None
    return None


def _build(calls: ToolDispatcher) -> "StreamableHTTPSessionManager":
    from kernel.api.mcp.sdk_server import build_manager  # noqa: PLC0415  (takes more than half a second)

    return build_manager(calls)


def _uncached(send: Send) -> Send:
    """``send`` with our common headers on what the SDK answers."""
    names = {name for name, _ in COMMON}

    async def send_uncached(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name not in names]
            message["headers"] = [*kept, *COMMON]
        await send(message)

    return send_uncached
