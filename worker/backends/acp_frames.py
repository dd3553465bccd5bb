"""Frames of the Agent Client Protocol (JSON-RPC 2.0, one per line, version 1) for both directions. Pure.

All input is untrusted: a frame with a field of the wrong type counts as unknown, and the readers of a
text limit its length.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from protocol.discovery import VERSION
from protocol.ipc import NULL, Json
from protocol.text import encode_json

PROTOCOL: Final = 1
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
AUTH_REQUIRED: Final = -32000

GREETING: Final[Mapping[str, Any]] = {
    "protocolVersion": PROTOCOL,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "agent-worker", "title": "agent-worker", "version": VERSION},
}
"""Parameters of ``initialize``. File and terminal access are not offered: a program uses its own in its sandbox."""
Id = int | str


class Trouble(msgspec.Struct, frozen=True):
    """The error in a response. Some programs put the HTTP status of their provider into ``code``."""

    code: int = 0
    message: str = ""
    data: Any = None


class Frame(msgspec.Struct, frozen=True):
    """A frame: a request has an id and a method, a notification has no id, a response has no method."""

    jsonrpc: str
    method: str = ""
    id: Id | None = None
    params: Json = NULL
    result: Json = NULL
    error: Trouble | None = None


class _McpAbilities(msgspec.Struct, frozen=True):
    http: bool = False


class _SessionAbilities(msgspec.Struct, frozen=True):
    resume: dict[str, Any] | None = None


class _Abilities(msgspec.Struct, frozen=True, rename="camel"):
    load_session: bool = False
    mcp_capabilities: _McpAbilities = _McpAbilities()
    session_capabilities: _SessionAbilities = _SessionAbilities()


class Greeting(msgspec.Struct, frozen=True, rename="camel"):
    """Result of ``initialize``."""

    protocol_version: int = 0
    agent_capabilities: _Abilities = _Abilities()


class SessionOption(msgspec.Struct, frozen=True, rename="camel"):
    """A setting of a session. Its choices are not read, because the program checks each value."""

    id: str = ""
    category: str | None = None
    current_value: Json = NULL

    @property
    def names(self) -> tuple[str | None, str]:
        """Return the category (or None) and the id of the option, by which its purpose is recognized."""
        return self.category, self.id


class _Mode(msgspec.Struct, frozen=True):
    id: str = ""


class _Modes(msgspec.Struct, frozen=True, rename="camel"):
    current_mode_id: str = ""
    available_modes: tuple[_Mode, ...] = ()


class Session(msgspec.Struct, frozen=True, rename="camel"):
    """Result of ``session/new``, ``session/load`` and ``session/resume``; only ``session/new`` returns the id."""

    session_id: str = ""
    config_options: tuple[SessionOption, ...] | None = None
    modes: _Modes | None = None
    models: Json = NULL
    """Model settings of older protocol versions."""


class Spending(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of one prompt, as named by the protocol. ``input_tokens`` does not include cached tokens."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class PromptEnd(msgspec.Struct, frozen=True, rename="camel"):
    """Result of ``session/prompt``."""

    stop_reason: str = ""
    usage: Spending | None = None
    meta: Json = msgspec.field(name="_meta", default=NULL)


class _Money(msgspec.Struct, frozen=True):
    amount: float = 0.0
    currency: str = ""


class Block(msgspec.Struct, frozen=True):
    """A part of a message: text, or other content, of which only the type is shown."""

    type: str = ""
    text: str = ""


class _Piece(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    content: Block | None = None
    path: str = ""
    old_text: str | None = None
    new_text: str = ""


class _Location(msgspec.Struct, frozen=True):
    path: str = ""


class _ToolMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ``_meta`` in which claude-agent-acp stores the tool name of its SDK."""

    tool_name: str = ""


class CallMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The ``_meta`` object of a tool call."""

    claude_code: _ToolMeta = _ToolMeta()


class Update(msgspec.Struct, frozen=True, rename="camel"):
    """Event of ``session/update``, or the call of a ``session/request_permission``."""

    session_update: str = ""
    content: Block | tuple[_Piece, ...] | None = None
    tool_call_id: str = ""
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    locations: tuple[_Location, ...] | None = None
    raw_input: Json = NULL
    raw_output: Json = NULL
    cost: _Money | None = None
    current_mode_id: str = ""
    config_options: tuple[SessionOption, ...] | None = None
    meta: Json = msgspec.field(name="_meta", default=NULL)


class SessionUpdate(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of ``session/update``."""

    session_id: str
    update: Update


class _Choice(msgspec.Struct, frozen=True, rename="camel"):
    option_id: str
    kind: str = ""


class PermissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Parameters of ``session/request_permission``."""

    session_id: str
    tool_call: Update
    options: Annotated[tuple[_Choice, ...], msgspec.Meta(max_length=100)] = ()


def request(id_: Id, method: str, params: Mapping[str, Any]) -> bytes:
    """Return an encoded request."""
    return _line({"id": id_, "method": method, "params": params})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Return an encoded notification."""
    return _line({"method": method, "params": params})


def answer(id_: Id, result: Mapping[str, Any]) -> bytes:
    """Return an encoded response to a request of the program."""
    return _line({"id": id_, "result": result})


def refusal(id_: Id, code: int, message: str) -> bytes:
    """Return an encoded error response."""
    return _line({"id": id_, "error": {"code": code, "message": message}})


def _line(fields: Mapping[str, Any]) -> bytes:
    return encode_json({"jsonrpc": "2.0", **fields}) + b"\n"
