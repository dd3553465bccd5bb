"""What we say of ourselves in every revision of MCP, with and without the SDK: names, and the list of tools.

Plain requests of the revisions with a handshake, which most clients in the field speak: greet, ping, list, call.

There is no session: who asks is in the token of each request, so a greeting is answered and nothing is kept of it.

Plain requests of revision 2026-07-28: call, list, discover. Each is one self-contained POST.

Plain requests: those in shape to the letter, which every client in the field sends, answered without the SDK.

Each revision has a reader that takes what it knows whole and leaves the rest to the SDK: importing that takes more
than half a second, and its layers cost each call as much as all else. Both ways give the same answer (a test
compares them).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from kernel.api.asgi import Fields
from kernel.api.mcp.calls import Answer, call_key, find
from kernel.api.mcp.tool import Tool, schema_of
from kernel.api.mcp.tools import ATTEMPT_SCOPES, visible
from kernel.api.responses import Response
from protocol.text import encode_json
from protocol.tools import AUTH_REQUEST, OFFERED_TO, TO_MODEL
from protocol.version import VERSION

NAME: Final = "agent-worker"
INSTRUCTIONS: Final = "Talk to your team: read and write the channel of your workspace, and see who is there."
CALL_KEY: Final = "agent-worker/call"
"""Key of ``_meta``: names one call, so that repeating it does not do it twice."""
IDENTITY: Final = "agent_worker.identity"
"""Key of the ASGI scope under which the SDK's way finds who asks."""
CAPABILITIES: Final = {"tools": {"listChanged": False}}


def described(tool: Tool) -> dict[str, Any]:
    """``tool`` as MCP lists it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": schema_of(tool.asks),
        **({} if tool.words else {"outputSchema": schema_of(tool.gives)}),
        "annotations": {
            "readOnlyHint": not tool.mutating,
            "destructiveHint": False,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


LISTED: Final = tuple(described(tool) for tool in visible(ATTEMPT_SCOPES))
"""What the token of an attempt opens."""
OFFERED: Final = tuple(tool for tool in LISTED if tool["name"] != AUTH_REQUEST)
"""What of it a model is shown: an approval is asked for by what runs the tool, in its own words."""
_HEADER: Final = OFFERED_TO.lower().encode()


def listed(header: str | None) -> tuple[dict[str, Any], ...]:
    """What is listed to who says so of whom it is for."""
    return OFFERED if header == TO_MODEL else LISTED


def listed_to(fields: Fields) -> tuple[dict[str, Any], ...]:
    """The same, by the header fields of a request."""
    return listed(fields.get(_HEADER, b"").decode("latin-1"))


_INVALID_PARAMS: Final = -32602


@dataclass(frozen=True, slots=True)
class DirectCall:
    """A call that needs nothing of the SDK. ``extra`` is what the revision adds to every result."""

    id: int | str
    tool: Tool
    arguments: dict[str, Any]
    call_key: str | None
    extra: Mapping[str, Any] = field(default_factory=dict)


def wants_json(fields: Fields) -> bool:
    """Whether the client says that it reads JSON, and asks for nothing of a tool's schema to be in headers."""
    plain_accept = b"application/json" in fields.get(b"accept", b"")
    return plain_accept and not any(name.startswith(b"mcp-param-") for name in fields)


def result_reply(id_: int | str, result: Mapping[str, Any]) -> Response:
    """The JSON-RPC response that carries ``result``."""
    return Response(200, encode_json({"jsonrpc": "2.0", "id": id_, "result": result}))


def unknown_tool(id_: int | str, name: str, status: int) -> Response:
    """The error of the protocol for a tool that is not listed; the revisions differ in the ``status`` it has."""
    error = {"code": _INVALID_PARAMS, "message": f"Unknown tool: {name[:100]}"}
    return Response(status, encode_json({"jsonrpc": "2.0", "id": id_, "error": error}))


def reply_to(call: DirectCall, answer: Answer) -> Response:
    """The JSON-RPC response that carries the ``answer`` to ``call``."""
    result = {
        **call.extra,
        "content": [{"type": "text", "text": answer.text}],
        **({} if answer.words else {"structuredContent": msgspec.Raw(answer.body)}),
        "isError": answer.is_error,
    }
    return result_reply(call.id, result)


_REVISIONS: Final = (None, b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25")
"""What a client may name in the header; before the greeting, and in the oldest ones, it names none."""


class _Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    version: str
    title: str | None = None


class _Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    protocol_version: Literal["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
    capabilities: dict[str, dict[str, Any]]
    client_info: _Client


class _Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class _CallParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="method"):
    jsonrpc: Literal["2.0"]


class _Initialize(_Message, frozen=True, kw_only=True, tag="initialize"):
    id: int | str
    params: _Hello


class _Initialized(_Message, frozen=True, kw_only=True, tag="notifications/initialized"):
    pass


class _Ping(_Message, frozen=True, kw_only=True, tag="ping"):
    id: int | str


class _List(_Message, frozen=True, kw_only=True, tag="tools/list"):
    id: int | str
    params: _Nothing = _Nothing()


class _Call(_Message, frozen=True, kw_only=True, tag="tools/call"):
    id: int | str
    params: _CallParams


_message: Final = msgspec.json.Decoder(_Initialize | _Initialized | _Ping | _List | _Call)


def read(fields: Fields, body: bytes) -> DirectCall | Response | None:
    """The call in ``body``, or the answer where that is known at once; None where it is anything but plain."""
    if fields.get(b"mcp-protocol-version") not in _REVISIONS or not wants_json(fields):
        return None
    try:
        return _answer(_message.decode(body), fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _answer(
    message: _Initialize | _Initialized | _Ping | _List | _Call, fields: Fields
) -> DirectCall | Response | None:
    match message:
        case _Initialize(params=hello):
            return result_reply(
                message.id,
                {
                    "protocolVersion": hello.protocol_version,
                    "capabilities": CAPABILITIES,
                    "serverInfo": {"name": NAME, "version": VERSION},
                    "instructions": INSTRUCTIONS,
                },
            )
        case _Initialized():
            return Response(202, b"")
        case _Ping():
            return result_reply(message.id, {})
        case _List():
            return result_reply(message.id, {"tools": listed_to(fields)})
        case _Call(params=params):
            tool = find(params.name)
            if tool is None:
                return unknown_tool(message.id, params.name, 200)
            return DirectCall(message.id, tool, params.arguments, call_key(params.meta.get(CALL_KEY)))


REVISION: Final = "2026-07-28"
_EXTRA: Final = {
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": NAME, "version": VERSION}},
    "resultType": "complete",
}
_UNCACHED: Final = {"cacheScope": "private", "ttlMs": 0}
_DISCOVERY: Final = {
    **_EXTRA,
    **_UNCACHED,
    "supportedVersions": [REVISION],
    "capabilities": CAPABILITIES,
    "instructions": INSTRUCTIONS,
}


class _Meta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal["2026-07-28"] = msgspec.field(name="io.modelcontextprotocol/protocolVersion")
    capabilities: dict[str, Any] = msgspec.field(name="io.modelcontextprotocol/clientCapabilities")
    client: dict[str, Any] | None = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=None)
    call_key: str | None = msgspec.field(name=CALL_KEY, default=None)


class _Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    meta: _Meta = msgspec.field(name="_meta")


class _ModernCallParams(_Params, frozen=True, kw_only=True):
    name: str
    arguments: dict[str, Any] = {}


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="method"):
    jsonrpc: Literal["2.0"]
    id: int | str


class _ModernCall(_Request, frozen=True, kw_only=True, tag="tools/call"):
    params: _ModernCallParams


class _ModernList(_Request, frozen=True, kw_only=True, tag="tools/list"):
    params: _Params


class _Discover(_Request, frozen=True, kw_only=True, tag="server/discover"):
    params: _Params


_request: Final = msgspec.json.Decoder(_ModernCall | _ModernList | _Discover)


def modern_read(fields: Fields, body: bytes) -> DirectCall | Response | None:
    """The call in ``body``, or the answer where that is known at once; None where it is anything but plain."""
    if fields.get(b"mcp-protocol-version") != b"2026-07-28" or not wants_json(fields):
        return None
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _modern_answer(fields, request)


def _modern_answer(fields: Fields, request: _ModernCall | _ModernList | _Discover) -> DirectCall | Response | None:
    name = request.params.name if isinstance(request, _ModernCall) else None
    if not _agree(fields, request.__struct_config__.tag, name):
        return None
    match request:
        case _ModernCall(params=params):
            return _modern_call(request.id, params)
        case _ModernList():
            return result_reply(request.id, {**_EXTRA, **_UNCACHED, "tools": listed_to(fields)})
        case _Discover():
            return result_reply(request.id, _DISCOVERY)


def _agree(fields: Fields, method: object, name: str | None) -> bool:
    """Whether the headers say what the body says: two readers of one request must not see two requests."""
    said = fields.get(b"mcp-method", b"").decode("latin-1"), fields.get(b"mcp-name", b"").decode("latin-1")
    return said == (method, name or "")


def _modern_call(id_: int | str, params: _ModernCallParams) -> DirectCall | Response:
    tool = find(params.name)
    if tool is None:
        return unknown_tool(id_, params.name, 400)
    return DirectCall(id_, tool, params.arguments, call_key(params.meta.call_key), _EXTRA)
