"""Frames of the Agent Client Protocol (JSON-RPC 2.0, one a line, version 1): those we read, and those we say. Pure.

Whatever a program sends is data: a field of another kind than the protocol says makes the frame none that we know, and
texts are bounded where they are used.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec

from protocol.ipc import NULL, Json
from protocol.text import encode_json
from protocol.version import VERSION

PROTOCOL: Final = 1
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
AUTH_REQUIRED: Final = -32000

GREETING: Final[Mapping[str, Any]] = {
    "protocolVersion": PROTOCOL,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "agent-worker", "title": "agent-worker", "version": VERSION},
}
"""Our side of ``initialize``. No files and no terminals: those of a program are its own, in its sandbox."""
Id = int | str
T = TypeVar("T")


class Trouble(msgspec.Struct, frozen=True):
    """The error of an answer. Some programs have the HTTP status of their provider as ``code``."""

    code: int = 0
    message: str = ""
    data: Any = None


class Frame(msgspec.Struct, frozen=True):
    """A request has an id and a method, a notification no id, an answer no method."""

    jsonrpc: str
    method: str = ""
    id: Id | None = None
    params: Json = NULL
    result: Json | msgspec.UnsetType = msgspec.UNSET
    error: Trouble | None = None


class McpAbilities(msgspec.Struct, frozen=True):
    """The kinds of MCP server that it can reach, beside those that it starts itself."""

    http: bool = False


class SessionAbilities(msgspec.Struct, frozen=True):
    """The methods for a session that not all have."""

    resume: dict[str, Any] | None = None


class Abilities(msgspec.Struct, frozen=True, rename="camel"):
    """The abilities of a program, as it tells them."""

    load_session: bool = False
    mcp_capabilities: McpAbilities = McpAbilities()
    session_capabilities: SessionAbilities = SessionAbilities()


class Greeting(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to ``initialize``."""

    protocol_version: int = 0
    agent_capabilities: Abilities = Abilities()


class Option(msgspec.Struct, frozen=True, rename="camel"):
    """A setting of a session. Its choices are not read: whether a value is one of them, its program says."""

    id: str = ""
    category: str | None = None
    current_value: Json = NULL

    @property
    def names(self) -> tuple[str | None, str]:
        """The names by which its purpose is known."""
        return self.category, self.id


class Mode(msgspec.Struct, frozen=True):
    """A way in which a session works: whether it asks, or plans only."""

    id: str = ""


class Modes(msgspec.Struct, frozen=True, rename="camel"):
    """The modes that a session offers."""

    current_mode_id: str = ""
    available_modes: tuple[Mode, ...] = ()


class Session(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to ``session/new``, ``session/load`` and ``session/resume``; only the first one names it."""

    session_id: str = ""
    config_options: tuple[Option, ...] | None = None
    modes: Modes | None = None
    models: Json = NULL
    """Settings by an older word, before there were any other."""


class Spending(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of one prompt, in the protocol's own words. Those of a cache are not part of the input."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class Ending(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to ``session/prompt``."""

    stop_reason: str = ""
    usage: Spending | None = None
    meta: Json = msgspec.field(name="_meta", default=NULL)


class Money(msgspec.Struct, frozen=True):
    """A price."""

    amount: float = 0.0
    currency: str = ""


class Block(msgspec.Struct, frozen=True):
    """A part of a message: text, or something that is shown by its kind alone."""

    type: str = ""
    text: str = ""


class Piece(msgspec.Struct, frozen=True, rename="camel"):
    """A part of what a call gave: a block, a change to a file, or a terminal."""

    type: str = ""
    content: Block | None = None
    path: str = ""
    old_text: str | None = None
    new_text: str = ""


class Place(msgspec.Struct, frozen=True):
    """A file that a call is about."""

    path: str = ""


class ToolMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The part of ``_meta`` in which claude-agent-acp names a tool as its SDK calls it."""

    tool_name: str = ""


class CallMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The ``_meta`` of a call."""

    claude_code: ToolMeta = ToolMeta()


class Update(msgspec.Struct, frozen=True, rename="camel"):
    """One event of ``session/update``; and the call that ``session/request_permission`` is about."""

    session_update: str = ""
    content: Block | tuple[Piece, ...] | None = None
    tool_call_id: str = ""
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    locations: tuple[Place, ...] | None = None
    raw_input: Json = NULL
    raw_output: Json = NULL
    cost: Money | None = None
    current_mode_id: str = ""
    config_options: tuple[Option, ...] | None = None
    meta: Json = msgspec.field(name="_meta", default=NULL)


class SessionUpdate(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of ``session/update``."""

    session_id: str
    update: Update


class Choice(msgspec.Struct, frozen=True, rename="camel"):
    """One answer that a request for permission can have."""

    option_id: str
    kind: str = ""


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of ``session/request_permission``."""

    session_id: str
    tool_call: Update
    options: Annotated[tuple[Choice, ...], msgspec.Meta(max_length=100)] = ()


_decode: Final = msgspec.json.Decoder(Frame).decode


def parse(line: bytes) -> Frame | None:
    """The frame that a line is; None where it is none."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_broken(line: bytes) -> bool:
    """Return whether ``line`` is a frame that broke off, or was cut as too large; not one of an unknown kind."""
    if b'"jsonrpc"' not in line:
        return False
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False


def decoded(raw: Json | msgspec.UnsetType, kind: type[T]) -> T | None:
    """``raw`` as a ``kind``; None where it is something else."""
    if isinstance(raw, msgspec.UnsetType):
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def request(id_: Id, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of ours."""
    return _line({"id": id_, "method": method, "params": params})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification of ours."""
    return _line({"method": method, "params": params})


def answer(id_: Id, result: Mapping[str, Any]) -> bytes:
    """The answer to a request of the program's."""
    return _line({"id": id_, "result": result})


def refusal(id_: Id, code: int, message: str) -> bytes:
    """The answer to a request that is not served."""
    return _line({"id": id_, "error": {"code": code, "message": message}})


def _line(fields: Mapping[str, Any]) -> bytes:
    return encode_json({"jsonrpc": "2.0", **fields}) + b"\n"
