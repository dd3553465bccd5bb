"""A stdio MCP server that forwards to Daemon MCP: ``python -I -m worker.mcp_bridge FILE [--listen]``.

For programs whose HTTP client fails, or would expose our token. FILE (0600) contains the kernel's address and the
token, so neither argv nor the environment contains them, and shells of the program do not inherit them. ``awk
mcp-serve`` passes the kernel's own address file, or a pipe, as FILE; then the tools are those for external programs.
If the kernel has exited or rejects the token, FILE is read again, because the next kernel may have written it.

Requests and answers are forwarded unchanged, in any protocol revision. The bridge adds a key to each call, so that a
call with a lost answer can be repeated safely (a later attempt uses another key; its calls are recognized by their
content). When the tools have been listed, the bridge creates a marker file, which proves the connection. With
``--listen`` it forwards events of the kernel, also of the next kernel: in handshake revisions after initialization, in
the newest revision during a subscription.
"""

import os
import secrets
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import trio

from protocol.text import decoded, encode_json
from protocol.tools import OFFERED_TO, SENDING, TO_MODEL
from worker.daemon_mcp import BROKEN, CALL_KEY, McpConnection, refusal, request_with_retry
from worker.io.trio_io import TrioIO
from worker.models.model import Failed

LINE_BYTES: Final = 8 * 1024 * 1024
"""Maximum length of a request. A longer request ends the bridge: the stream can no longer be parsed."""
_CHUNK_BYTES: Final = 64 * 1024
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_INTERNAL: Final = -32603
_UNAUTHORIZED: Final = 401
_BUSY: Final = 503
_PATH: Final = "/mcp"
_LISTEN: Final = "subscriptions/listen"
_AGAIN_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Delays before a failed event stream is requested again."""


class BridgeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of FILE. ``mark`` is the marker file to create when the tools have been listed."""

    url: str
    """Address of the kernel; the MCP path is added to an address without a path."""
    token: str
    mark: str = ""


class _Params(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    request_id: int | str | None = None
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


class _RpcMessage(msgspec.Struct, frozen=True):
    """A message: a request has an id and a method, a notification has no id, an answer has no method."""

    method: str = ""
    id: int | str | None = None
    params: _Params = _Params()


class _Greeting(msgspec.Struct, frozen=True, rename="camel"):
    protocol_version: str = ""


class _KernelAnswer(msgspec.Struct, frozen=True):
    jsonrpc: str = ""
    result: _Greeting | None = None


class Bridge:
    """Bridge for one client. ``origin`` is a unique prefix of its call keys; ``listed`` is called after tools/list."""

    def __init__(
        self,
        key: BridgeConfig,
        origin: str,
        answers: trio.abc.SendStream,
        listed: Callable[[], None] = lambda: None,
        again: Callable[[], BridgeConfig | None] = lambda: None,
        *,
        listens: bool = False,
    ) -> None:
        self._pass = key
        self._listens = listens
        self._again = again
        self._origin = origin
        self._answers = answers
        self._listed = listed
        self._answering = trio.Lock()
        self._idle: list[McpConnection] = []
        self._running: dict[int | str, trio.CancelScope] = {}
        self._revision = ""
        self._calls = 0

    async def serve(self, requests: trio.abc.ReceiveStream) -> None:
        """Answer requests concurrently until ``requests`` ends; then finish pending calls, and end event streams."""
        async with trio.open_nursery() as streams:
            async with trio.open_nursery() as calls:
                rest = b""
                async for chunk in requests:
                    *lines, rest = (rest + bytes(chunk)).split(b"\n")
                    for line in filter(None, map(bytes.strip, lines)):
                        self._take(line, calls, streams)
                    if len(rest) > LINE_BYTES:
                        break
                else:  # the last line may end without a newline
                    self._take(rest.strip(), calls, streams)
            streams.cancel_scope.cancel()
        for connection in self._idle:
            connection.close()

    def _take(self, line: bytes, calls: trio.Nursery, streams: trio.Nursery) -> None:
        message = decoded(line, _RpcMessage)
        if message is None:
            return
        if message.method == "notifications/cancelled" and message.params.request_id in self._running:
            self._running[message.params.request_id].cancel()
        elif message.method == "notifications/initialized" and self._listens:
            streams.start_soon(self._follow)
        elif message.method == _LISTEN and message.id is not None and self._listens:
            streams.start_soon(self._subscribe, message, message.id, line)
        elif message.method and message.id is not None:
            if message.method == "tools/call":
                # Add our key to a call without one.
                request = msgspec.json.decode(line)
                params = request.setdefault("params", {})
                self._calls += 1
                params["_meta"] = {CALL_KEY: f"{SENDING}{self._origin}.{self._calls}", **params.get("_meta", {})}
                line = encode_json(request)
            calls.start_soon(self._serve_one, message, message.id, line)

    async def _serve_one(self, message: _RpcMessage, id_: int | str, body: bytes) -> None:
        with trio.CancelScope() as scope:
            self._running[id_] = scope
            try:
                status, content = await self._ask(body, self._routing(message))
                parsed = decoded(content, _KernelAnswer) or _KernelAnswer()
                if not parsed.jsonrpc:
                    raise Failed("network", refusal(status, content))
                if message.method == "initialize" and parsed.result is not None:
                    self._revision = parsed.result.protocol_version
                if message.method == "tools/list" and parsed.result is not None:
                    self._listed()
                answer = content if b"\n" not in content else msgspec.json.format(content, indent=-1)
            except Failed as failed:
                answer = _error(id_, failed.text)
            finally:
                self._running.pop(id_, None)
            await self._say(answer)

    async def _say(self, line: bytes) -> None:
        async with self._answering:
            await self._answers.send_all(line + b"\n")

    def _routing(self, message: _RpcMessage) -> tuple[tuple[str, str], ...]:
        stated = message.params.meta.get(_VERSION)
        if isinstance(stated, str):
            name = (("mcp-name", message.params.name),) if message.params.name else ()
            return ("mcp-protocol-version", stated), ("mcp-method", message.method), *name
        return (("mcp-protocol-version", self._revision),) if self._revision else ()

    async def _follow(self) -> None:
        last, quiet = "", 0
        while True:
            asked, back = self._pass, (("last-event-id", last),) if last else ()
            try:
                async with aclosing(self._events("GET", b"", back)) as events:
                    async for id_, data in events:
                        last, quiet = id_ or last, 0
                        if data:
                            await self._say(data)
            except Failed as failed:
                if failed.http_status not in (_UNAUTHORIZED, _BUSY):
                    return  # the server does not push events to this client
            except BROKEN:
                pass
            await trio.sleep(_AGAIN_SECONDS[min(quiet, len(_AGAIN_SECONDS) - 1)])
            quiet += 1
            self._turn_to_next(asked)

    async def _subscribe(self, message: _RpcMessage, id_: int | str, body: bytes) -> None:
        with trio.CancelScope() as scope:
            self._running[id_] = scope
            why = "the kernel has exited"
            try:
                async with aclosing(self._events("POST", body, self._routing(message))) as events:
                    async for _, data in events:
                        if data:
                            await self._say(data)
                            if (decoded(data, _RpcMessage) or _RpcMessage()).id is not None:  # the final result
                                return
            except Failed as failed:
                why = failed.text
            except BROKEN:
                pass
            finally:
                self._running.pop(id_, None)
            self._turn_to_next(self._pass)
            await self._say(_error(id_, f"the event stream has ended ({why}): subscribe again"))

    async def _events(
        self, method: str, body: bytes, headers: tuple[tuple[str, str], ...]
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the id and data of each server-sent event. Raises Failed, and one of BROKEN."""
        connection, rest = self._connect("application/json, text/event-stream"), b""
        async with aclosing(connection.stream(method, body, headers)) as chunks:
            async for chunk in chunks:
                *blocks, rest = (rest + chunk).split(b"\n\n")
                for block in blocks:
                    fields = {name: text for name, _, text in (line.partition(b": ") for line in block.split(b"\n"))}
                    yield fields.get(b"id", b"").decode(), fields.get(b"data", b"")
                if len(rest) > LINE_BYTES:
                    raise Failed("protocol", f"an event exceeds {LINE_BYTES} bytes")

    async def _ask(self, body: bytes, routing: tuple[tuple[str, str], ...]) -> tuple[int, bytes]:
        """Return status and body of the answer: of this kernel or, if it has exited, the next. Raises Failed."""
        asked = self._pass
        try:
            async with self._connection() as connection:
                status, content = await request_with_retry(connection, TrioIO(), body, routing)
            if status != _UNAUTHORIZED:
                return status, content
        except Failed:
            if not self._turn_to_next(asked):
                raise
        else:
            if not self._turn_to_next(asked):
                return status, content
        async with self._connection() as connection:
            return await request_with_retry(connection, TrioIO(), body, routing)

    def _turn_to_next(self, asked: BridgeConfig) -> bool:
        """Read FILE again; return whether its address or token differs from ``asked``, which was used last."""
        if self._pass == asked:
            self._pass = self._again() or asked
            if self._pass != asked:
                for connection in self._idle:
                    connection.close()  # of the earlier kernel
                self._idle.clear()
        return self._pass != asked

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[McpConnection]:
        """Open a connection for one call, which may take any time without delaying other calls."""
        config = self._pass
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            yield connection
        finally:
            if self._pass == config:
                self._idle.append(connection)
            else:
                connection.close()

    def _connect(self, accept: str = "application/json") -> McpConnection:
        """Create a connection. If ``accept`` allowed event streams, the kernel would stream during approvals."""
        fields = (
            ("authorization", f"Bearer {self._pass.token}"),
            ("content-type", "application/json"),
            (OFFERED_TO, TO_MODEL),
            ("accept", accept),
        )
        url = self._pass.url
        return McpConnection(url if urlsplit(url).path else f"{url}{_PATH}", fields, TrioIO())


def _error(id_: int | str, text: str) -> bytes:
    return encode_json({"jsonrpc": "2.0", "id": id_, "error": {"code": _INTERNAL, "message": text}})


def read_config(path: Path) -> BridgeConfig | None:
    """Return the contents of the file at ``path``; None if it is missing or invalid."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=BridgeConfig)
    except (OSError, msgspec.DecodeError):
        return None


async def _main(path: Path, *, listens: bool) -> None:
    config = read_config(path)
    if config is None:
        sys.exit(f"{path} is not a valid kernel record")
    async with trio.lowlevel.FdStream(os.dup(0)) as requests, trio.lowlevel.FdStream(os.dup(1)) as answers:
        bridge = Bridge(
            config,
            secrets.token_hex(8),
            answers,
            Path(config.mark).touch if config.mark else lambda: None,
            lambda: read_config(path),
            listens=listens,
        )
        try:
            await bridge.serve(requests)
        except* (OSError, trio.BrokenResourceError):
            pass  # the client has exited


if __name__ == "__main__":
    trio.run(partial(_main, Path(sys.argv[1]), listens="--listen" in sys.argv[2:]))
