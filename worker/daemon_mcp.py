"""Daemon MCP, as a worker needs it: list the tools, call one. Protocol revision 2026-07-28, JSON answers.

Every request carries the attempt's token; no other field says who we are. A call that got no answer is sent
again with the same key: the kernel's ledger answers a mutating call it has seen, and reads are harmless.
"""

import re
from typing import Any, Final

import msgspec

from protocol.ipc import NULL, Json
from protocol.text import encode_json
from protocol.tools import OFFERED_TO, TO_MODEL
from protocol.version import VERSION
from worker.http_connection import Connection, request_with_retry
from worker.io.base import WorkerIO
from worker.models.errors import Failed
from worker.tool import Outcome, ToolSpec

REVISION: Final = "2026-07-28"
CALL_KEY: Final = "agent-worker/call"
"""Where in ``_meta`` a call's key rides."""
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)
"""Names that can travel in a header. No tool of ours is called anything else."""


class _Content(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    content: tuple[_Content, ...] = ()
    structured_content: Json = NULL
    is_error: bool = False
    tools: tuple[ToolSpec, ...] = ()
    next_cursor: str | None = None


class _Trouble(msgspec.Struct, frozen=True):
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    result: _Result | None = None
    error: _Trouble | None = None


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""
    detail: str = ""


_decode: Final = msgspec.json.Decoder(_Answer).decode


class DaemonMcp:
    """One worker's connection to the kernel's tools."""

    def __init__(self, url: str, token: str, waits: WorkerIO) -> None:
        self._waits = waits
        self._connection = Connection(
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
        """The tools this worker may call; asked for once. Raises Failed."""
        if self._tools is None:
            found: list[ToolSpec] = []
            cursor: str | None = None
            while True:
                answer = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
                if answer.result is None:
                    raise Failed("protocol", f"the kernel does not list its tools: {_reason(answer)}")
                found += answer.result.tools
                cursor = answer.result.next_cursor
                if cursor is None:
                    break
            self._tools = tuple(found)
        return self._tools

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Call a tool; what the kernel refuses is a result too. Raises Failed where the kernel is out of reach."""
        if not _NAME.fullmatch(name):
            return Outcome("there is no tool of that name", True)
        answer = await self._request("tools/call", {"name": name, "arguments": args, "_meta": {CALL_KEY: key}}, name)
        if answer.result is None:
            return Outcome(_reason(answer), True)
        result = answer.result
        texts = [part.text if part.type == "text" else f"[{part.type}]" for part in result.content]
        if not texts and result.structured_content != NULL:
            text = bytes(result.structured_content).decode()
        else:
            text = "\n".join(texts)
        return Outcome(text, answer.result.is_error)

    async def aclose(self) -> None:
        """Hang up."""
        self._connection.close()

    async def _request(self, method: str, params: dict[str, Any], name: str | None = None) -> _Answer:
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
        try:
            answer = _decode(content)
        except (msgspec.DecodeError, RecursionError):
            answer = _Answer()
        if answer.result is None and answer.error is None:
            return _Answer(error=_Trouble(refusal(status, content)))
        return answer


def _reason(answer: _Answer) -> str:
    return answer.error.message if answer.error else "no result"


def refusal(status: int, content: bytes) -> str:
    """Return the text of an answer that is no JSON-RPC (problem+json, RFC 9457)."""
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except (msgspec.DecodeError, RecursionError):
        problem = _Problem()
    return f"{problem.code or 'refused'}: {problem.detail or f'HTTP {status}'}"
