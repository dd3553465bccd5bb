"""Client for Daemon MCP: list the tools, call one. Protocol revision 2026-07-28, JSON answers.

Every request carries the attempt's token, which is the only identification. A call without an answer is repeated with
the same key: the kernel recognizes a repeated mutating call by it, and repeated reads are harmless. Other requests are
not retried.

The connection is a minimal keep-alive HTTP/1.1 client: an SDK's client costs more CPU time per call than the whole
kernel side, and a mock worker must start without an SDK. Only ``http://``, because it never leaves the loopback.
"""

import re
from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import urlsplit

import h11
import msgspec

from protocol.discovery import VERSION
from protocol.errors import UNREACHED
from protocol.ipc import NULL, Json
from protocol.text import decoded, encode_json
from protocol.tools import OFFERED_TO, TO_MODEL
from worker.kernel_link import ByteStream, WorkerIO
from worker.models.model import Failed
from worker.tool import ToolOutcome, ToolSpec

ANSWER_LIMIT_BYTES: Final = 8 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_OK: Final = 200

BROKEN: Final = (OSError, h11.RemoteProtocolError)
"""Exceptions of a failed connection. The server may or may not have processed the request."""


class McpConnection:
    """Client for one URL that posts one request at a time, and reconnects when the server has closed the connection."""

    def __init__(self, url: str, headers: tuple[tuple[str, str], ...], io: WorkerIO) -> None:
        if not url.startswith("http://"):
            raise ValueError(f"{url!r} is not an http:// address")
        self._url = url
        self._parts = urlsplit(url)
        self._headers = headers
        self._io = io
        self._open: tuple[ByteStream, h11.Connection] | None = None

    async def post(self, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> tuple[int, bytes]:
        """Post ``body``; return the status and body of the answer. Raises one of BROKEN.

        Cancellation closes the connection; the server may or may not have processed the request.
        """
        try:
            stream, protocol = await self._ask("POST", body, headers)
            answer = await _answer(stream, protocol)
            if protocol.our_state is h11.DONE and protocol.their_state is h11.DONE:
                protocol.start_next_cycle()  # keep the connection for the next request
            else:
                self.close()
            return answer
        except BaseException:
            self.close()
            raise

    async def stream(
        self, method: str, body: bytes, headers: tuple[tuple[str, str], ...]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a streamed answer. Raises one of BROKEN, and Failed for an error status."""
        try:
            stream, protocol = await self._ask(method, body, headers)
            while not isinstance(event := protocol.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
                if event is h11.NEED_DATA:
                    protocol.receive_data(await stream.receive_some(_CHUNK_BYTES))
                elif isinstance(event, h11.Response) and event.status_code != _OK:
                    raise Failed("network", f"HTTP {event.status_code}", http_status=event.status_code)
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
        finally:
            self.close()

    async def _ask(
        self, method: str, body: bytes, headers: tuple[tuple[str, str], ...]
    ) -> tuple[ByteStream, h11.Connection]:
        if self._open is None:
            opened = await self._io.connect(self._parts.hostname or "", self._parts.port or 80)
            self._open = opened, h11.Connection(h11.CLIENT)
        stream, protocol = self._open
        fields = [("host", self._parts.netloc), *self._headers, *headers, ("content-length", str(len(body)))]
        request = h11.Request(method=method, target=self._parts.path or "/", headers=fields)
        events = (request, h11.Data(data=body), h11.EndOfMessage())
        await stream.send_all(b"".join(protocol.send(event) or b"" for event in events))  # one write, one packet
        return stream, protocol

    def close(self) -> None:
        """Close the connection without waiting for the other side."""
        opened, self._open = self._open, None
        if opened is not None:
            opened[0].close()


async def _answer(stream: ByteStream, protocol: h11.Connection) -> tuple[int, bytes]:
    status, body = 0, bytearray()
    while True:
        event = protocol.next_event()
        match event:
            case h11.NEED_DATA:
                protocol.receive_data(await stream.receive_some(_CHUNK_BYTES))
            case h11.Response():
                status = event.status_code
            case h11.Data():
                body += event.data
                if len(body) > ANSWER_LIMIT_BYTES:
                    raise h11.RemoteProtocolError(f"the answer exceeds {ANSWER_LIMIT_BYTES} bytes")
            case h11.EndOfMessage():
                return status, bytes(body)
            case h11.ConnectionClosed():
                raise h11.RemoteProtocolError("the connection closed before the answer")
            case _:
                continue


RETRY_SECONDS: Final = (0.0, 0.1, 0.5, 2.0)
"""Delays between retries. The first is 0: a kept-alive connection may just have been closed."""
_BUSY: Final = frozenset({502, 503, 504})


async def request_with_retry(
    connection: McpConnection, io: WorkerIO, body: bytes, headers: tuple[tuple[str, str], ...]
) -> tuple[int, bytes]:
    """Post ``body`` until there is an answer; return its status and body. Raises Failed after the last retry."""
    trouble = ""
    for wait in (*RETRY_SECONDS, None):
        try:
            status, content = await connection.post(body, headers)
            if status not in _BUSY:
                return status, content
            trouble = f"HTTP {status}"
        except BROKEN as error:
            trouble = f"{type(error).__name__}: {error}"
        if wait is not None:
            await io.sleep(wait)
    raise Failed("network", f"the kernel's tools cannot be reached ({trouble})", code=UNREACHED)


REVISION: Final = "2026-07-28"
CALL_KEY: Final = "agent-worker/call"
"""Field of ``_meta`` with the idempotency key of a call."""
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)
"""Tool names that are valid in an HTTP header. All tools of the kernel have such names."""


class _Content(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    content: tuple[_Content, ...] = ()
    structured_content: Json = NULL
    is_error: bool = False
    tools: tuple[ToolSpec, ...] = ()
    next_cursor: str | None = None


class _RpcError(msgspec.Struct, frozen=True):
    message: str = ""


class _RpcResponse(msgspec.Struct, frozen=True):
    result: _Result | None = None
    error: _RpcError | None = None


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""
    detail: str = ""


class DaemonMcp:
    """A worker's connection to the kernel's tools."""

    def __init__(self, url: str, token: str, waits: WorkerIO) -> None:
        self._waits = waits
        self._connection = McpConnection(
            url,
            (
                ("authorization", f"Bearer {token}"),
                ("content-type", "application/json"),
                ("accept", "application/json"),
                ("mcp-protocol-version", REVISION),
                (OFFERED_TO, TO_MODEL),
            ),
            waits,
        )
        self._id = 0
        self._tools: tuple[ToolSpec, ...] | None = None

    async def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that this worker may call, requested once. Raises Failed."""
        if self._tools is None:
            found: list[ToolSpec] = []
            cursor: str | None = None
            while True:
                answer = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
                if answer.result is None:
                    raise Failed("protocol", f"the kernel did not list its tools: {_reason(answer)}")
                found += answer.result.tools
                cursor = answer.result.next_cursor
                if cursor is None:
                    break
            self._tools = tuple(found)
        return self._tools

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Call a tool; a refusal by the kernel is also a result. Raises Failed if the kernel is unreachable."""
        if not _NAME.fullmatch(name):  # the name becomes a header
            return ToolOutcome("tool not found", True)
        answer = await self._request("tools/call", {"name": name, "arguments": args, "_meta": {CALL_KEY: key}}, name)
        if answer.result is None:
            return ToolOutcome(_reason(answer), True)
        result = answer.result
        texts = [part.text if part.type == "text" else f"[{part.type}]" for part in result.content]
        if not texts and result.structured_content != NULL:
            text = bytes(result.structured_content).decode()
        else:
            text = "\n".join(texts)
        return ToolOutcome(text, answer.result.is_error)

    async def aclose(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def _request(self, method: str, params: dict[str, Any], name: str | None = None) -> _RpcResponse:
        self._id += 1
        envelope = {
            **params.get("_meta", {}),
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "agent-worker", "version": VERSION},
        }
        body = encode_json(
            {"jsonrpc": "2.0", "id": self._id, "method": method, "params": {**params, "_meta": envelope}}
        )
        routing = (("mcp-method", method), *((("mcp-name", name),) if name else ()))
        status, content = await request_with_retry(self._connection, self._waits, body, routing)
        if status == 401:
            raise Failed("cancelled", "the kernel no longer accepts this attempt's token: the attempt is over")
        answer = decoded(content, _RpcResponse) or _RpcResponse()
        if answer.result is None and answer.error is None:
            return _RpcResponse(error=_RpcError(refusal(status, content)))
        return answer


def _reason(answer: _RpcResponse) -> str:
    return answer.error.message if answer.error else "no result"


def refusal(status: int, content: bytes) -> str:
    """Return the message in an error answer that is not JSON-RPC (problem+json, RFC 9457)."""
    problem = decoded(content, _Problem) or _Problem()
    return f"{problem.code or 'refused'}: {problem.detail or f'HTTP {status}'}"
