"""POST /mcp: requests that fast_path reads are answered here, all others by the SDK, imported when first needed."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import trio

from kernel.api.http.dispatch import check_json
from kernel.api.mcp import fast_path
from kernel.api.mcp.approvals import send_or_stream
from kernel.api.mcp.calls import ToolDispatcher, failed
from kernel.api.mcp.fast_path import IDENTITY, DirectCall, reply_to
from kernel.api.mcp.tool import Caller
from kernel.api.requests import Fields, Message, Receive, Scope, Send, replay
from kernel.api.responses import COMMON, Response, problem_reply, send_reply
from kernel.store.attempts import Identity
from protocol.errors import Refused
from protocol.ndjson import DuplicateKey, reject_duplicate_keys

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class Endpoint:
    """Serves MCP without sessions: each request stands for itself, as its token does.

    ``reached`` is told the instruction of each request that comes.
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
        # A call, or an answer that is known at once; None where the SDK has to look at it.
        plain: DirectCall | Response | None
        try:
            check_json(fields.get(b"content-type", b""))
        except Refused as refused:
            plain = problem_reply(refused)
        else:
            scopes = self._calls.opened(identity)
            plain = fast_path.modern_read(fields, body, scopes) or fast_path.read(fields, body, scopes)
        try:
            reject_duplicate_keys(body)  # of two readers each would see another call
        except DuplicateKey as twice:
            refusal = Refused("bad_request", f"this is no call: {twice}", "give each argument once")
            answer = reply_to(plain, failed(refusal)) if isinstance(plain, DirectCall) else problem_reply(refusal)
            await send_reply(answer, send)
            return
        except (ValueError, RecursionError):
            pass  # no JSON: whoever reads it next says so
        if isinstance(plain, DirectCall) and plain.tool.waits:
            await send_or_stream(partial(self._call, identity, plain), fields, receive, send)
            return
        if plain is not None:
            await send_reply(plain if isinstance(plain, Response) else await self._call(identity, plain), send)
            return
        async with self._opening:  # the first that needs the SDK has it imported; the others wait for the same
            if self._sdk is None:
                assert self._nursery is not None, "a request comes while run() lasts"
                self._sdk = cast("_Serve", await self._nursery.start(self._serve_by_sdk))
            serve = self._sdk
        scope[IDENTITY] = identity
        await serve(scope, replay(body, receive), with_common_headers(send))

    async def _call(self, identity: Identity, plain: DirectCall) -> Response:
        """The answer to a call that needs nothing of the SDK."""
        answer = await self._calls.call(plain.tool, Caller(identity, plain.call_key), plain.arguments)
        return reply_to(plain, answer)

    async def _serve_by_sdk(self, *, task_status: trio.TaskStatus[_Serve]) -> None:
        manager = await trio.to_thread.run_sync(load_sdk, self._calls)
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of every request of the older revisions
        async with manager.run():
            task_status.started(manager.handle_request)
            await trio.sleep_forever()


def load_sdk(calls: ToolDispatcher) -> "StreamableHTTPSessionManager":
    """The SDK's way of serving. Imports it: takes more than half a second."""
    from kernel.api.mcp.sdk_server import build_manager  # noqa: PLC0415  (see above)

    return build_manager(calls)


def with_common_headers(send: Send) -> Send:
    """``send`` with our common headers on the answers of the SDK."""
    names = {name for name, _ in COMMON}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name not in names]
            message["headers"] = [*kept, *COMMON]
        await send(message)

    return send_with_headers
