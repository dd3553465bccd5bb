"""The agent's own MCP servers: started, called and stopped with the attempt.

Each server has its own task. If a server fails to start, or exits, only its tools are unavailable:
the model and the log get a message instead. Invalid tool descriptions are repaired on arrival,
because the SDK would reject the whole list.

Importing this module imports the MCP SDK, which takes a second.
"""

import logging
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from subprocess import PIPE
from types import TracebackType
from typing import Any, Final, Self, cast

import httpx2
import mcp_types as types
import msgspec
import trio
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from protocol.agent import McpServer
from protocol.ipc import Json
from protocol.redaction import Redaction
from protocol.tools import SERVER_PREFIX, is_read_only
from worker.mcp_stdio import Pipes, ServerStderr, piped, watched
from worker.subprocesses import Subprocesses
from worker.tool import UNKNOWN, BuiltinTool, ToolOutcome, ToolSpec

_ANYTHING: Final = {"type": "object"}
"""Schema of a tool that does not describe its arguments."""


@asynccontextmanager
async def repaired(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """Yield the streams of ``transport``, with repaired tool lists. Their type is private to the SDK."""
    async with transport as (read, write):
        yield _Repairing(read), write


class _Repairing:
    """A message stream that repairs the tools in tool lists."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Any:
        """Return the context variable that the SDK expects as an attribute of its streams."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        return _repair(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return _repair(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return cast("bool | None", await self._stream.__aexit__(kind, error, trace))


def _repair(item: Any) -> Any:
    message = getattr(item, "message", None)
    if isinstance(message, types.JSONRPCResponse):
        tools = message.result.get("tools")
        if isinstance(tools, list):
            message.result["tools"] = [fit for tool in tools if (fit := _fit(tool)) is not None]
    return item


def _fit(tool: Any) -> dict[str, Any] | None:
    """Return ``tool`` if it is valid; otherwise its name and description, or None if it has no name."""
    if not isinstance(tool, dict):
        return None
    given = cast("dict[str, Any]", tool)
    schema = given.get("inputSchema")
    try:
        types.Tool.model_validate(given, by_name=False)
    except ValidationError:
        name, about = given.get("name"), given.get("description")
        if not isinstance(name, str):
            return None
        given = {"name": name, **({"description": about} if isinstance(about, str) else {})}
    fits = isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "object"
    return {**given, "inputSchema": schema if fits else _ANYTHING}


START_SECONDS: Final = 30.0
"""Timeout until a server has listed its tools; all servers start concurrently."""
LEAVE_SECONDS: Final = 10.0
"""Time to stop a server, including the time to kill its program."""
TOOLS: Final = 200
"""Maximum number of tools of one server: more than a model can choose from."""
DESCRIPTION_LIMIT: Final = 4000
SCHEMA_LIMIT_BYTES: Final = 64 * 1024
"""Maximum size of a tool's schema; a larger one is replaced by an empty schema."""
NAME_LIMIT: Final = 64
"""Maximum length of a tool name: every provider accepts it."""
KEY: Final = "agent-worker/idempotency-key"
"""Field of ``_meta`` with the idempotency key of a call, which is equal on every attempt."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_REASON_LIMIT: Final = 500
_SECRET_LENGTH: Final = 6
"""Minimum length of a word to redact: shorter words occur in other words."""


Tell = Callable[[str], Awaitable[None]]
"""Logs a line. Raises nothing."""


async def _nowhere(_: str) -> None:
    pass


class Server:
    """An MCP server. ``tools`` are the listed tools; ``fault`` is the reason why it is unavailable, or ""."""

    def __init__(self, name: str, config: McpServer, programs: Subprocesses, tell: Tell = _nowhere) -> None:
        self.name = name
        self.tools: tuple[types.Tool, ...] = ()
        self.fault = "not started"
        self._config = config
        self._programs = programs
        self._tell = tell
        self._words: ServerStderr | None = None
        self._pipes: Pipes | None = None
        self._client: Client | None = None
        self._leaving = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start the server, report the outcome as started, and keep it running until ``leave``. Raises nothing.

        Cancellation stops the server too: its input is closed, it gets time to exit, and its process group is killed.
        """
        came = False
        try:
            with trio.move_on_after(START_SECONDS) as patience:
                async with self._connected() as client:
                    found: list[types.Tool] = []
                    cursor: str | None = None
                    while len(found) < TOOLS:
                        page = await client.list_tools(cursor=cursor)
                        found += page.tools
                        cursor = page.next_cursor
                        if cursor is None:
                            break
                    self.tools = tuple(found[:TOOLS])
                    self._client, self.fault = client, ""
                    patience.deadline = math.inf
                    came = True
                    task_status.started()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._watch)
                        await self._leaving.wait()
                        nursery.cancel_scope.cancel()
                    patience.deadline = trio.current_time() + LEAVE_SECONDS
            if patience.cancelled_caught:
                self.fault = self._with_words(f"no answer within {START_SECONDS:g} s")
        except Exception as error:  # noqa: BLE001 - third-party program
            await self._gone(self._broke() or self._reason(error))
        finally:
            if self._words is not None:
                self._words.close()
        self._client = None
        if not came:
            task_status.started()

    def leave(self) -> None:
        """Stop the server."""
        self._leaving.set()

    async def _watch(self) -> None:
        if self._words is not None:
            await self._words.ended.wait()
            await self._gone(self._broke() or "the program has exited")

    async def _gone(self, why: str) -> None:
        was_there, self._client = self._client is not None, None
        self.fault = self._with_words(why)
        if was_there and not self._leaving.is_set():
            await self._tell(f"MCP server {self.name} has exited: {self.fault}")

    async def call(self, tool: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Call a tool. A failed call has an error result. Cancellation notifies the server."""
        if self._client is None:
            return ToolOutcome(f"server {self.name} is unavailable: {self.fault}", True)
        try:
            result = await self._client.call_tool(tool, args, meta=cast("types.RequestParamsMeta", {KEY: key}))
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                why = self._broke()
                return ToolOutcome(f"server {self.name} has exited{f' ({why})' if why else ''}: {UNKNOWN}", True)
            return ToolOutcome(f"server {self.name} returned an error: {self._reason(error)}", True)
        except Exception as error:  # noqa: BLE001 - third-party program
            return ToolOutcome(f"server {self.name} failed ({self._reason(error)}): {UNKNOWN}", True)
        texts = [part.text if isinstance(part, types.TextContent) else f"[{part.type}]" for part in result.content]
        if not texts and result.structured_content is not None:
            text = msgspec.json.encode(result.structured_content).decode()
        else:
            text = "\n".join(texts)
        return ToolOutcome(text, bool(result.is_error))

    def _broke(self) -> str:
        return "" if self._pipes is None else self._pipes.fault

    def _reason(self, error: BaseException) -> str:
        """Return the text of ``error`` without the server's secrets: clients quote headers that they cannot send."""
        return self._redacted(_reason(error))[:_REASON_LIMIT]

    def _with_words(self, why: str) -> str:
        said = "" if self._words is None else self._redacted(self._words.text())
        return f"{why}; last lines of standard error:\n{said}" if said else why

    def _redacted(self, said: str) -> str:
        values = (*self._config.env.values(), *self._config.headers.values())
        words = {word for value in values for word in value.split() if len(word) >= _SECRET_LENGTH}
        paths = {word for word in words if word.startswith("/")}  # parts of a path occur in other paths
        for word in sorted(paths, key=len, reverse=True):
            said = said.replace(word, "[...]")
        return Redaction(dict.fromkeys(words - paths, "[...]")).of(said)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Client]:
        config = self._config
        if config.url is None:
            words = (config.command or "", *config.args)
            changed = await trio.to_thread.run_sync(self._programs.changed, words)
            if changed is not None:
                raise PermissionError(f"{changed} has changed since it was trusted")
            self._words = ServerStderr()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._words.hear)
                async with Client(repaired(self._streams(words, self._words))) as client:
                    yield client
                nursery.cancel_scope.cancel()
            return
        secure = not config.url.startswith("http://")  # creating an unused TLS context takes 50 ms
        timeout = httpx2.Timeout(START_SECONDS, read=None)
        async with (
            httpx2.AsyncClient(headers=config.headers, timeout=timeout, verify=secure, trust_env=secure) as http,
            Client(repaired(streamable_http_client(config.url, http_client=http))) as client,
        ):
            yield client

    @asynccontextmanager
    async def _streams(self, command: Sequence[str], words: ServerStderr) -> AsyncGenerator[tuple[Pipes, Pipes]]:
        process = await self._programs.open(
            command, env=self._config.env, stdin=PIPE, stdout=PIPE, stderr=words.file, around=watched
        )
        words.file.close()
        async with piped(process) as streams:
            self._pipes = streams[0]
            yield streams


@asynccontextmanager
async def running(
    configured: Mapping[str, McpServer], programs: Subprocesses, tell: Tell = _nowhere
) -> AsyncGenerator[tuple[Server, ...]]:
    """Run the configured servers during the block, and yield them. ``tell`` logs a server that exits early."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the SDK logs a traceback for every invalid line
    servers = tuple(Server(name, config, programs, tell) for name, config in configured.items())
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as starting:
            for server in servers:
                starting.start_soon(nursery.start, server.run)
        try:
            yield servers
        finally:
            for server in servers:
                server.leave()


def tools_of(server: Server, idempotency_key: str, read_only: Sequence[str] = ()) -> dict[str, BuiltinTool]:
    """Return the tools of ``server`` for the model; for an unavailable server, one tool with a message.

    Only the agent's file (``read_only``) makes tools read-only; a server's own claims are ignored (promise P19).
    """
    if server.fault:
        name = tool_name(server.name, "unavailable")
        about = f"The MCP server {server.name} and its tools are unavailable: {server.fault}"
        return {
            name: BuiltinTool(
                hand=_UnavailableServer(about), spec=ToolSpec(name=name, description=about), read_only=True
            )
        }
    own: dict[str, BuiltinTool] = {}
    for tool in server.tools:
        name, schema = tool_name(server.name, tool.name), Json(msgspec.json.encode(tool.input_schema))
        if len(schema) > SCHEMA_LIMIT_BYTES:
            schema = Json(b'{"type":"object"}')
        spec = ToolSpec(name=name, description=(tool.description or "")[:DESCRIPTION_LIMIT], input_schema=schema)
        hand = _ServerToolRunner(server, tool.name, idempotency_key)
        own[name] = BuiltinTool(hand=hand, spec=spec, read_only=is_read_only(name, read_only))
    return own


def tool_name(server: str, tool: str) -> str:
    """Return ``mcp__<server>__<tool>``, changed if a provider would refuse it; a digest keeps it unique."""
    plain = f"{SERVER_PREFIX}{server}__{tool}"
    fit = _UNFIT.sub("_", plain)
    if fit == plain and len(fit) <= NAME_LIMIT:
        return fit
    return f"{fit[: NAME_LIMIT - 9]}_{sha256(plain.encode()).hexdigest()[:8]}"


class _ServerToolRunner(msgspec.Struct, frozen=True):
    server: Server
    tool: str
    idempotency_key: str

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        return await self.server.call(self.tool, args, f"{self.idempotency_key}:{key}")


class _UnavailableServer(msgspec.Struct, frozen=True):
    why: str

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        return ToolOutcome(self.why, True)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        inner: Sequence[BaseException] = error.exceptions
        error = inner[0]
    return " ".join(str(error).split()) or type(error).__name__
