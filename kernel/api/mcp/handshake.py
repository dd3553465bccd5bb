"""Plain requests of the revisions with a handshake, which most clients in the field speak: greet, ping, list, call.

There is no session: who asks is in the token of each request, so a greeting is answered and nothing is kept of it.
"""

from typing import Any, Final, Literal

import msgspec

from kernel.api.asgi import Fields
from kernel.api.mcp.about import CALL_KEY, CAPABILITIES, INSTRUCTIONS, NAME, listed_to
from kernel.api.mcp.calls import call_key, find
from kernel.api.mcp.plain import PlainCall, result_reply, unknown_tool, wants_json
from kernel.api.reply import Reply
from protocol.version import VERSION

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


def read(fields: Fields, body: bytes) -> PlainCall | Reply | None:
    """The call in ``body``, or the answer where that is known at once; None where it is anything but plain."""
    if fields.get(b"mcp-protocol-version") not in _REVISIONS or not wants_json(fields):
        return None
    try:
        return _answer(_message.decode(body), fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _answer(message: _Initialize | _Initialized | _Ping | _List | _Call, fields: Fields) -> PlainCall | Reply | None:
    match message:
        case _Initialize(params=hello):
            return result_reply(message.id, _greeting(hello))
        case _Initialized():
            return Reply(202, b"")
        case _Ping():
            return result_reply(message.id, {})
        case _List():
            return result_reply(message.id, {"tools": listed_to(fields)})
        case _Call(params=params):
            return _call(message.id, params)


def _greeting(hello: _Hello) -> dict[str, Any]:
    return {
        "protocolVersion": hello.protocol_version,
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": NAME, "version": VERSION},
        "instructions": INSTRUCTIONS,
    }


def _call(id_: int | str, params: _CallParams) -> PlainCall | Reply:
    tool = find(params.name)
    if tool is None:
        return unknown_tool(id_, params.name, 200)
    return PlainCall(id_, tool, params.arguments, call_key(params.meta.get(CALL_KEY)))
