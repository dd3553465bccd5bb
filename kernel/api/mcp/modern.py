"""The plain tools/call of revision 2026-07-28, answered without the SDK's layers of validation.

Agents make thousands of these, and each is one self-contained POST. Only what is exactly in shape is taken here;
whatever has one field more or a header less is left to the SDK, which knows the revision in full. Both ways give
the same answer, byte for byte in meaning (a test compares them).
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from kernel.api.asgi import Fields
from kernel.api.mcp.calls import Answer, call_key, find
from kernel.api.mcp.server import CALL_KEY, NAME
from kernel.api.mcp.tool import Tool
from kernel.api.reply import Reply
from protocol.version import VERSION

REVISION: Final = "2026-07-28"
_SERVER_INFO: Final = {"io.modelcontextprotocol/serverInfo": {"name": NAME, "version": VERSION}}


class _Meta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal["2026-07-28"] = msgspec.field(name="io.modelcontextprotocol/protocolVersion")
    capabilities: dict[str, Any] = msgspec.field(name="io.modelcontextprotocol/clientCapabilities")
    client: dict[str, Any] | None = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=None)
    call_key: str | None = msgspec.field(name=CALL_KEY, default=None)


class _Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    meta: _Meta = msgspec.field(name="_meta")
    arguments: dict[str, Any] = {}


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


_request: Final = msgspec.json.Decoder(_Request)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A call that needs nothing of the SDK."""

    id: int | str
    tool: Tool
    arguments: dict[str, Any]
    call_key: str | None


def plain_call(fields: Fields, body: bytes) -> PlainCall | None:
    """The call in ``body``, or None where it is anything but plain."""
    if fields.get(b"mcp-protocol-version") != b"2026-07-28" or fields.get(b"mcp-method") != b"tools/call":
        return None
    if b"application/json" not in fields.get(b"accept", b"") or any(name.startswith(b"mcp-param-") for name in fields):
        return None
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    params = request.params
    tool = find(params.name)
    if tool is None or fields.get(b"mcp-name") != params.name.encode():
        return None
    return PlainCall(request.id, tool, params.arguments, call_key(params.meta.call_key))


def reply_to(call: PlainCall, answer: Answer) -> Reply:
    """The JSON-RPC response that carries ``answer``."""
    result = {
        "_meta": _SERVER_INFO,
        "resultType": "complete",
        "content": [{"type": "text", "text": answer.body.decode()}],
        "structuredContent": msgspec.Raw(answer.body),
        "isError": answer.is_error,
    }
    return Reply(200, _encode({"jsonrpc": "2.0", "id": call.id, "result": result}))
