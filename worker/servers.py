"""The agent's own MCP servers: started with the attempt, asked on its behalf, ended with it.

Each is entered, used and left in one task of its own. One that does not come, or leaves, costs the agent its tools and
nothing else: the model is told in their place, and the log is. Importing this imports the MCP SDK: a second.
"""

import logging
import math
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, cast

import httpx2
import mcp_types as types
import msgspec
import trio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from protocol.agent import McpServer
from protocol.ipc import Json
from protocol.tools import SERVER_PREFIX
from worker.programs import Programs
from worker.tool import UNKNOWN, Outcome, Own, ToolSpec

START_SECONDS: Final = 30.0
"""Until a server has listed its tools; all of them start at once."""
LEAVE_SECONDS: Final = 10.0
"""Until one that was left is let go of, whatever it has not answered. Programs are killed within it."""
TOOLS: Final = 200
"""Of one server. Whoever has more has more than a model can choose from."""
DESCRIPTION_LIMIT: Final = 4000
SCHEMA_LIMIT_BYTES: Final = 64 * 1024
"""Of what a tool says of its arguments; where it says more, the model is told nothing of them."""
NAME_LIMIT: Final = 64
"""Characters of a tool's name that every provider takes."""
KEY: Final = "agent-worker/idempotency-key"
"""Where in ``_meta`` a call's key rides: the same on every attempt."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_REASON_LIMIT: Final = 500
_SECRET_LENGTH: Final = 6
"""Characters of a word that is left out of what is told: shorter ones are in every other word."""


class Server:
    """One of them. ``tools`` is what it listed; ``fault`` why it is not there, "" while it is."""

    def __init__(self, name: str, config: McpServer, programs: Programs) -> None:
        self.name = name
        self.tools: tuple[types.Tool, ...] = ()
        self.fault = "it is not started"
        self._config = config
        self._programs = programs
        self._client: Client | None = None
        self._leaving = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start it, tell when that is done or has failed, and keep it until ``leave``. Raises nothing.

        Cancellation ends it politely all the same: its input is closed, it is waited for, its group is killed.
        """
        came = False
        try:
            with trio.move_on_after(START_SECONDS) as patience:
                async with self._connected() as client:
                    self.tools = await _listed(client)
                    self._client, self.fault = client, ""
                    patience.deadline = math.inf
                    came = True
                    task_status.started()
                    await self._leaving.wait()
                    patience.deadline = trio.current_time() + LEAVE_SECONDS
            if patience.cancelled_caught:
                self.fault = f"it did not answer within {START_SECONDS:g} s"
        except Exception as error:  # noqa: BLE001 - the boundary: somebody else's program
            self.fault = self._reason(error)
        self._client = None
        if not came:  # one that came and left later has told so before
            task_status.started()

    def leave(self) -> None:
        """Let it go."""
        self._leaving.set()

    async def call(self, tool: str, args: dict[str, Any], key: str) -> Outcome:
        """Call one of its tools. What goes wrong is a result. Cancellation tells the server."""
        if self._client is None:
            return Outcome(f"the server {self.name} is not there: {self.fault}", True)
        try:
            result = await self._client.call_tool(tool, args, meta=cast("types.RequestParamsMeta", {KEY: key}))
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                return Outcome(f"the server {self.name} has gone: {UNKNOWN}", True)
            return Outcome(f"the server {self.name} says: {self._reason(error)}", True)
        except Exception as error:  # noqa: BLE001 - the boundary: somebody else's program
            return Outcome(f"the server {self.name} failed ({self._reason(error)}): {UNKNOWN}", True)
        return Outcome(_text(result), bool(result.is_error))

    def _reason(self, error: BaseException) -> str:
        """What went wrong, without what the server was given: clients quote the header that they do not send."""
        said = _reason(error)
        values = (*self._config.env.values(), *self._config.headers.values())
        for word in sorted({word for value in values for word in value.split()}, key=len, reverse=True):
            if len(word) >= _SECRET_LENGTH:
                said = said.replace(word, "[...]")
        return said[:_REASON_LIMIT]

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client]:
        config = self._config
        if config.url is None:
            words = (config.command or "", *config.args)
            changed = await trio.to_thread.run_sync(self._programs.changed, words)
            if changed is not None:
                raise PermissionError(f"{changed} is not what was trusted")
            argv = self._programs.argv(words)
            variables = self._programs.env(config.env)
            program = StdioServerParameters(
                command=argv[0],
                args=argv[1:],
                env=variables,
                cwd=self._programs.cwd,
                encoding_error_handler="replace",  # or one wrong byte leaves every call without an answer
            )
            async with Client(stdio_client(program, sys.stderr)) as client:
                yield client
            return
        secure = not config.url.startswith("http://")  # a context that nobody uses takes 50 ms to make
        timeout = httpx2.Timeout(START_SECONDS, read=None)
        async with (
            httpx2.AsyncClient(headers=config.headers, timeout=timeout, verify=secure, trust_env=secure) as http,
            Client(streamable_http_client(config.url, http_client=http)) as client,
        ):
            yield client


@asynccontextmanager
async def running(configured: Mapping[str, McpServer], programs: Programs) -> AsyncGenerator[tuple[Server, ...]]:
    """Servers that were started, or were tried to be; they end with the block."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it writes a traceback for every line that is no message
    servers = tuple(Server(name, config, programs) for name, config in configured.items())
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as starting:
            for server in servers:
                starting.start_soon(nursery.start, server.run)
        try:
            yield servers
        finally:
            for server in servers:
                server.leave()


def tools_of(server: Server, idempotency_key: str) -> dict[str, Own]:
    """What the model is told of ``server``: its tools, or that it is not there."""
    if server.fault:
        name = tool_name(server.name, "unavailable")
        about = f"The MCP server {server.name} is not there, and neither are its tools: {server.fault}"
        return {name: Own(hand=_Absent(about), spec=ToolSpec(name=name, description=about), read_only=True)}
    return {
        name: Own(hand=_ServerHand(server, tool.name, idempotency_key), spec=_spec(name, tool), read_only=_reads(tool))
        for tool in server.tools
        for name in (tool_name(server.name, tool.name),)
    }


def tool_name(server: str, tool: str) -> str:
    """``mcp__<server>__<tool>`` as every provider takes it; what had to be changed is told apart by a digest."""
    plain = f"{SERVER_PREFIX}{server}__{tool}"
    fit = _UNFIT.sub("_", plain)
    if fit == plain and len(fit) <= NAME_LIMIT:
        return fit
    return f"{fit[: NAME_LIMIT - 9]}_{sha256(plain.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class _ServerHand:
    server: Server
    tool: str
    idempotency_key: str

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        return await self.server.call(self.tool, args, f"{self.idempotency_key}:{key}")


@dataclass(frozen=True, slots=True)
class _Absent:
    why: str

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        return Outcome(self.why, True)


async def _listed(client: Client) -> tuple[types.Tool, ...]:
    found: list[types.Tool] = []
    cursor: str | None = None
    while len(found) < TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(found[:TOOLS])


def _spec(name: str, tool: types.Tool) -> ToolSpec:
    schema = Json(msgspec.json.encode(tool.input_schema))
    if len(schema) > SCHEMA_LIMIT_BYTES:
        schema = Json(b'{"type":"object"}')
    return ToolSpec(name=name, description=(tool.description or "")[:DESCRIPTION_LIMIT], input_schema=schema)


def _reads(tool: types.Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


def _text(result: types.CallToolResult) -> str:
    texts = [part.text if isinstance(part, types.TextContent) else f"[{part.type}]" for part in result.content]
    if not texts and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(texts)


def _reason(error: BaseException) -> str:
    """The first of what went wrong, on one line."""
    while isinstance(error, BaseExceptionGroup):
        inner: Sequence[BaseException] = error.exceptions
        error = inner[0]
    return " ".join(str(error).split()) or type(error).__name__
