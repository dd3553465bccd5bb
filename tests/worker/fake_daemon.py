"""Daemon MCP's stand-in: the real MCP SDK's server on hypercorn under trio, with a ledger keyed by call."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import hypercorn.trio
import mcp_types as types
import trio
from hypercorn.config import Config
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
TOOLS = (
    types.Tool(name="channel_send", description="Say something.", input_schema=SCHEMA),
    types.Tool(name="big", description="Answer with a lot.", input_schema={"type": "object"}),
    types.Tool(name="hang", description="Never answer.", input_schema={"type": "object"}),
    types.Tool(name="auth_request", description="Ask whether a tool may run.", input_schema={"type": "object"}),
)


@dataclass
class FakeDaemon:
    """What was said, in order, and every call that came (a repeated one again)."""

    url: str = ""
    token: str = "token"
    said: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    ledger: dict[str, str] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """What leave was asked for."""
    grants: bool = True
    refuse: list[int] = field(default_factory=list)
    """Statuses to answer the next requests with, before the server sees them."""
    more: list[str] = field(default_factory=list)
    """Names of further tools that are listed."""
    refusal: str = "busy"
    """The code they carry."""

    async def call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        match params.name:
            case "channel_send":
                meta: Mapping[str, Any] = params.meta or {}
                return self._send(meta.get("agent-worker/call", f"unkeyed-{len(self.keys)}"), str(arguments["message"]))
            case "big":
                return _text("x" * int(arguments["size"]))
            case "hang":
                await trio.sleep_forever()
            case "auth_request":
                return self._decide(arguments)
            case _:
                pass
        return _text(f"unknown tool {params.name}", is_error=True)

    def _decide(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        self.asked.append(dict(arguments))
        if "tool_name" not in arguments:
            return _text(json.dumps({"decision": "granted" if self.grants else "denied"}))
        if self.grants:
            return _text(json.dumps({"behavior": "allow", "updatedInput": arguments["input"]}))
        return _text(json.dumps({"behavior": "deny", "message": "somebody refused"}))

    def _send(self, key: str, message: str) -> types.CallToolResult:
        self.keys.append(key)
        if key not in self.ledger:
            self.said.append(message)
            self.ledger[key] = f"said {len(self.said)}"
        return _text(self.ledger[key])


def _text(text: str, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


@asynccontextmanager
async def fake_daemon() -> AsyncGenerator[FakeDaemon]:
    """Serve on loopback for as long as the context is open."""
    daemon = FakeDaemon()

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        further = (types.Tool(name=name, input_schema={"type": "object"}) for name in daemon.more)
        return types.ListToolsResult(tools=[*TOOLS, *further])

    server: Server[Any] = Server("fake", on_list_tools=list_tools, on_call_tool=daemon.call)
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        daemon.methods.append(headers.get("mcp-method", ""))
        if daemon.refuse:
            await _refuse(send, daemon.refuse.pop(0), daemon.refusal)
        elif headers.get("authorization") != f"Bearer {daemon.token}":
            await _refuse(send, 401, "stale_attempt")
        else:
            await manager.handle_request(scope, receive, send)

    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = config.accesslog = None
    config.graceful_timeout = 0.1
    stop = trio.Event()
    async with manager.run(), trio.open_nursery() as nursery:
        binds = await nursery.start(partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait))
        daemon.url = f"{binds[0]}/mcp"
        yield daemon
        stop.set()
        nursery.cancel_scope.cancel()


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _refuse(send: Any, status: int, code: str) -> None:
    body = json.dumps({"title": code, "status": status, "code": code, "detail": "not now"}).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
