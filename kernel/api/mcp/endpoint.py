"""POST /mcp: plain modern calls are answered here, everything else goes through the SDK."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from kernel.api.asgi import Fields, Message, Receive, Scope, Send
from kernel.api.body import replay
from kernel.api.http.answer import check_json
from kernel.api.mcp.calls import Calls
from kernel.api.mcp.modern import plain_call, reply_to
from kernel.api.mcp.server import IDENTITY, build_server
from kernel.api.mcp.tool import Caller
from kernel.api.problems import problem_reply
from kernel.api.reply import COMMON, send_reply
from kernel.store.attempts import Identity
from protocol.errors import Refused


class Endpoint:
    """Serves MCP without sessions: each request stands for itself, as its token does."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._manager = StreamableHTTPSessionManager(build_server(calls), stateless=True, json_response=True)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        """Serve while the block lasts. Leave it in the task that entered it, after the last request."""
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of every request of the older revisions
        async with self._manager.run():
            yield

    async def handle(
        self, identity: Identity, fields: Fields, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer one request of ``identity``."""
        try:
            check_json(fields.get(b"content-type", b""))
        except Refused as refused:
            await send_reply(problem_reply(refused), send)
            return
        plain = plain_call(fields, body)
        if plain is not None:
            answer = await self._calls.call(plain.tool, Caller(identity, plain.call_key), plain.arguments)
            await send_reply(reply_to(plain, answer), send)
            return
        scope[IDENTITY] = identity
        await self._manager.handle_request(scope, replay(body, receive), _uncached(send))


def _uncached(send: Send) -> Send:
    """``send`` with our common headers on what the SDK answers."""
    names = {name for name, _ in COMMON}

    async def send_uncached(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name not in names]
            message["headers"] = [*kept, *COMMON]
        await send(message)

    return send_uncached
