"""Plain requests: those in shape to the letter, which every client in the field sends, answered without the SDK.

Each revision has a reader that takes what it knows whole and leaves the rest to the SDK: importing that takes more
than half a second, and its layers cost each call as much as all else. Both ways give the same answer (a test
compares them).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kernel.api.asgi import Fields
from kernel.api.mcp.calls import Answer
from kernel.api.mcp.tool import Tool
from kernel.api.reply import Reply
from protocol.text import encode_json

_INVALID_PARAMS: Final = -32602


@dataclass(frozen=True, slots=True)
class PlainCall:
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


def result_reply(id_: int | str, result: Mapping[str, Any]) -> Reply:
    """The JSON-RPC response that carries ``result``."""
    return Reply(200, encode_json({"jsonrpc": "2.0", "id": id_, "result": result}))


def unknown_tool(id_: int | str, name: str, status: int) -> Reply:
    """The error of the protocol for a tool that is not listed; the revisions differ in the ``status`` it has."""
    error = {"code": _INVALID_PARAMS, "message": f"Unknown tool: {name[:100]}"}
    return Reply(status, encode_json({"jsonrpc": "2.0", "id": id_, "error": error}))


def reply_to(call: PlainCall, answer: Answer) -> Reply:
    """The JSON-RPC response that carries the ``answer`` to ``call``."""
    result = {
        **call.extra,
        "content": [{"type": "text", "text": answer.text}],
        **({} if answer.words else {"structuredContent": msgspec.Raw(answer.body)}),
        "isError": answer.is_error,
    }
    return result_reply(call.id, result)
