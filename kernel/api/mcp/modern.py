"""Plain requests of revision 2026-07-28: call, list, discover. Each is one self-contained POST."""

from typing import Any, Final, Literal

import msgspec

from kernel.api.asgi import Fields
from kernel.api.mcp.about import CALL_KEY, CAPABILITIES, INSTRUCTIONS, NAME, listed_to
from kernel.api.mcp.calls import call_key, find
from kernel.api.mcp.plain import PlainCall, result_reply, unknown_tool, wants_json
from kernel.api.reply import Reply
from protocol.version import VERSION

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


class _CallParams(_Params, frozen=True, kw_only=True):
    name: str
    arguments: dict[str, Any] = {}


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="method"):
    jsonrpc: Literal["2.0"]
    id: int | str


class _Call(_Request, frozen=True, kw_only=True, tag="tools/call"):
    params: _CallParams


class _List(_Request, frozen=True, kw_only=True, tag="tools/list"):
    params: _Params


class _Discover(_Request, frozen=True, kw_only=True, tag="server/discover"):
    params: _Params


_request: Final = msgspec.json.Decoder(_Call | _List | _Discover)


def read(fields: Fields, body: bytes) -> PlainCall | Reply | None:
    """The call in ``body``, or the answer where that is known at once; None where it is anything but plain."""
    if fields.get(b"mcp-protocol-version") != b"2026-07-28" or not wants_json(fields):
        return None
    try:
        request = _request.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _answer(fields, request)


def _answer(fields: Fields, request: _Call | _List | _Discover) -> PlainCall | Reply | None:
    name = request.params.name if isinstance(request, _Call) else None
    if not _agree(fields, request.__struct_config__.tag, name):
        return None
    match request:
        case _Call(params=params):
            return _call(request.id, params)
        case _List():
            return result_reply(request.id, {**_EXTRA, **_UNCACHED, "tools": listed_to(fields)})
        case _Discover():
            return result_reply(request.id, _DISCOVERY)


def _agree(fields: Fields, method: object, name: str | None) -> bool:
    """Whether the headers say what the body says: two readers of one request must not see two requests."""
    said = fields.get(b"mcp-method", b"").decode("latin-1"), fields.get(b"mcp-name", b"").decode("latin-1")
    return said == (method, name or "")


def _call(id_: int | str, params: _CallParams) -> PlainCall | Reply:
    tool = find(params.name)
    if tool is None:
        return unknown_tool(id_, params.name, 400)
    return PlainCall(id_, tool, params.arguments, call_key(params.meta.call_key), _EXTRA)
