"""Fast path for initialize, ping, tools/list, tools/call and server/discover of all revisions. The
SDK answers all other requests.

A POST is answered here only in the exact form: one JSON-RPC message without further fields than
those below, from a client that reads JSON, with headers that agree with the body. The SDK gets
unknown methods, batches, malformed messages, unknown revisions and parameters in headers. Importing
it takes more than half a second, and its layers double the cost of a call; a test compares both
answers. There is no session: each request's token identifies the caller, and nothing is stored.

``read`` parses the handshake revisions (up to 2025-11-25), ``modern_read`` revision 2026-07-28 and
``subscriptions/listen``, which kernel.api.mcp.pushed serves.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from kernel.api.mcp.calls import Answer, call_key
from kernel.api.mcp.pushed import Filter, Listening
from kernel.api.mcp.tools import TOOLS, Tool, find_tool
from kernel.api.requests import Fields
from kernel.operations.answers import Response
from protocol.discovery import VERSION
from protocol.text import encode_json
from protocol.tools import AUTH_REQUEST, OFFERED_TO, TO_MODEL

NAME: Final = "agent-worker"
TEAM_INSTRUCTIONS: Final = "Talk to your team: read and write the channel of your workspace, and see who is there."
CALL_KEY: Final = "agent-worker/call"
"""Key of ``_meta`` that identifies a call, so that a repeated call takes effect once."""
OFFERED: Final = "agent_worker.offered"
"""Key of the ASGI scope with the tools for the caller, which the SDK's server reads."""
CAPABILITIES: Final = {"tools": {"listChanged": False}}


class OfferedTools(msgspec.Struct, frozen=True):
    """Daemon MCP for one caller: an attempt, or a program of a person."""

    tools: Mapping[str, Tool]
    """Tools for this kind of caller, including those outside its scopes."""
    listed: Callable[[str | None], tuple[dict[str, Any], ...]]
    """Function that returns the listed tools; its argument is the header with the audience."""
    call: Callable[[Tool, str | None, object], Awaitable[Answer]]
    """Function that runs a call; it receives the tool, the key of the call and the arguments."""
    instructions: str
    pushes: bool = False
    """Whether the caller may listen for notifications."""


_HEADER: Final = OFFERED_TO.lower().encode()


@lru_cache(maxsize=64)
def listed(header: str | None, names: frozenset[str]) -> tuple[dict[str, Any], ...]:
    """Return the tools ``names`` as MCP lists them, plus auth_request unless ``header`` is TO_MODEL.

    No model needs auth_request: the program around it asks. The result is built on demand, because
    the schemas of all tools take 14 ms.
    """
    shown = names if header == TO_MODEL else names | {AUTH_REQUEST}
    return tuple(tool.described for tool in TOOLS.values() if tool.name in shown)


def listed_to(fields: Fields, offered: OfferedTools) -> tuple[dict[str, Any], ...]:
    """Return the tools of ``offered`` that a request with these header fields may list."""
    return offered.listed(TO_MODEL if fields.get(_HEADER) == TO_MODEL.encode() else None)


_INVALID_PARAMS: Final = -32602


class DirectCall(msgspec.Struct, frozen=True):
    """Tool call that needs no SDK. ``extra``: fields that the revision adds to each result."""

    id: int | str
    tool: Tool
    arguments: dict[str, Any]
    call_key: str | None
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


def wants_json(fields: Fields) -> bool:
    """Return whether the client reads JSON and sends no tool arguments in headers."""
    plain_accept = b"application/json" in fields.get(b"accept", b"")
    return plain_accept and not any(name.startswith(b"mcp-param-") for name in fields)


def result_reply(id_: int | str, result: Mapping[str, Any]) -> Response:
    """Return the JSON-RPC response with ``result``."""
    return Response(200, encode_json({"jsonrpc": "2.0", "id": id_, "result": result}))


def unknown_tool(id_: int | str, name: str, status: int) -> Response:
    """Return the protocol error for an unknown tool. The ``status`` depends on the revision."""
    error = {"code": _INVALID_PARAMS, "message": f"Unknown tool: {name[:100]}"}
    return Response(status, encode_json({"jsonrpc": "2.0", "id": id_, "error": error}))


def reply_to(call: DirectCall, answer: Answer) -> Response:
    """Return the JSON-RPC response with the ``answer`` to ``call``."""
    result = {
        **call.extra,
        "content": [{"type": "text", "text": answer.text}],
        **({} if answer.words else {"structuredContent": msgspec.Raw(answer.body)}),
        "isError": answer.is_error,
    }
    return result_reply(call.id, result)


_REVISIONS: Final = (None, b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25")
"""Values of the revision header. It is missing before initialization, and in the oldest revisions."""


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


class _McpMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="method"):
    jsonrpc: Literal["2.0"]


class _Initialize(_McpMessage, frozen=True, kw_only=True, tag="initialize"):
    id: int | str
    params: _Hello


class _Initialized(_McpMessage, frozen=True, kw_only=True, tag="notifications/initialized"):
    pass


class _Ping(_McpMessage, frozen=True, kw_only=True, tag="ping"):
    id: int | str


class _List(_McpMessage, frozen=True, kw_only=True, tag="tools/list"):
    id: int | str
    params: _Nothing = _Nothing()


class _Call(_McpMessage, frozen=True, kw_only=True, tag="tools/call"):
    id: int | str
    params: _CallParams


_message: Final = msgspec.json.Decoder(_Initialize | _Initialized | _Ping | _List | _Call)


def read(fields: Fields, body: bytes, offered: OfferedTools) -> DirectCall | Response | None:
    """Return the tool call in ``body``, a response to another request, or None: the SDK answers."""
    if fields.get(b"mcp-protocol-version") not in _REVISIONS or not wants_json(fields):
        return None
    try:
        message = _message.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    result: dict[str, Any]
    match message:
        case _Initialized():
            return Response(202, b"")
        case _Call(params=params):
            tool = find_tool(offered.tools, params.name)
            if tool is None:
                return unknown_tool(message.id, params.name, 200)
            return DirectCall(message.id, tool, params.arguments, call_key(params.meta.get(CALL_KEY)))
        case _Initialize(params=hello):
            result = {
                "protocolVersion": hello.protocol_version,
                "capabilities": CAPABILITIES,
                "serverInfo": {"name": NAME, "version": VERSION},
                "instructions": offered.instructions,
            }
        case _Ping():
            result = {}
        case _:  # tools/list
            result = {"tools": listed_to(fields, offered)}
    return result_reply(message.id, result)


REVISION: Final = "2026-07-28"
_EXTRA: Final = {
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": NAME, "version": VERSION}},
    "resultType": "complete",
}
_UNCACHED: Final = {"cacheScope": "private", "ttlMs": 0}
_DISCOVERY: Final = {**_EXTRA, **_UNCACHED, "supportedVersions": [REVISION], "capabilities": CAPABILITIES}


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


class _ListenParams(_Params, frozen=True, kw_only=True):
    notifications: Filter


class _Listen(_Request, frozen=True, kw_only=True, tag="subscriptions/listen"):
    params: _ListenParams


_request: Final = msgspec.json.Decoder(_ModernCall | _ModernList | _Discover | _Listen)


def modern_read(fields: Fields, body: bytes, offered: OfferedTools) -> DirectCall | Listening | Response | None:
    """Parse a request of revision 2026-07-28 as ``read`` does, or a request for notifications."""
    if fields.get(b"mcp-protocol-version") != REVISION.encode() or not wants_json(fields):
        return None
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # The headers must match the body: two readers of one request must not see two requests.
    said = fields.get(b"mcp-method", b"").decode("latin-1"), fields.get(b"mcp-name", b"").decode("latin-1")
    name = request.params.name if isinstance(request, _ModernCall) else ""
    if said != (request.__struct_config__.tag, name):
        return None
    answer: DirectCall | Listening | Response | None
    match request:
        case _ModernCall(params=params):
            tool = find_tool(offered.tools, params.name)
            if tool is None:
                answer = unknown_tool(request.id, params.name, 400)
            else:
                answer = DirectCall(request.id, tool, params.arguments, call_key(params.meta.call_key), _EXTRA)
        case _Listen(params=listens):
            answer = Listening(listens.notifications.ours, request.id, _EXTRA) if offered.pushes else None
        case _ModernList():
            answer = result_reply(request.id, {**_EXTRA, **_UNCACHED, "tools": listed_to(fields, offered)})
        case _:  # server/discover
            answer = result_reply(request.id, {**_DISCOVERY, "instructions": offered.instructions})
    return answer
