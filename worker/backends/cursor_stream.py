"""Parses the output of cursor-agent (``--output-format stream-json``), one JSON object a line. Pure.

It says nothing of replies as such: there is text, and there are calls that begin and come back. A reply is taken to be
what lies between two returns. Its usage comes once, at the end, for all of them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from protocol.instruction import Usage
from protocol.ipc import NULL, Json, ToolCall
from protocol.text import decoded
from worker.backends import backend

DAEMON: Final = "daemon"
"""What our MCP server is called there."""
_KIND: Final = "ToolCall"
"""A call is an object with one key that ends so and says which tool it is: ``readToolCall``, ``mcpToolCall``."""
_MCP: Final = f"mcp{_KIND}"
_FUNCTION: Final = "function"
"""The key of a call to a tool that has no kind of its own."""
_ID: Final = "toolCallId"
"""Beside that key, where the event itself names no call."""


class _Block(msgspec.Struct, frozen=True):
    """A part of a message. Within a tool's result the text lies one level deeper."""

    type: str = ""
    text: "str | _Block" = ""


class _Message(msgspec.Struct, frozen=True):
    content: tuple[_Block, ...] = ()


class _Count(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of a whole run. Those read from a cache are not part of the input."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class Line(backend.StreamLine, frozen=True):
    """An event, as far as it matters here."""

    type: str = ""
    message: _Message = _Message()
    call_id: str = ""
    tool_call: dict[str, Json] = {}
    usage: _Count | None = None


class _Call(msgspec.Struct, frozen=True):
    args: Json = Json(b"{}")
    name: str = ""
    arguments: Json = Json(b"{}")
    result: "_Outcome | None" = None


class _Outcome(msgspec.Struct, frozen=True):
    success: Json = NULL
    error: Json = NULL
    rejected: Json = NULL


class _Returned(msgspec.Struct, frozen=True, rename="camel"):
    content: tuple[_Block, ...] = ()
    is_error: bool = False


class _McpArgs(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    provider_identifier: str = ""
    server_identifier: str = ""
    tool_name: str = ""
    args: Json = Json(b"{}")


def parse(line: bytes) -> Line | None:
    """The event that a line is; None where it is none. Older versions put the usage beside the result."""
    found = decoded(line, Line)
    if found is not None and found.type == "result" and found.usage is None:
        return msgspec.structs.replace(found, usage=decoded(line, _Count))
    return found


class Replies:
    """Puts replies together from what comes one by one."""

    def __init__(self) -> None:
        self._reply = backend.OpenReply()

    def take(self, line: Line) -> Iterable[backend.Event]:
        """Translate a line of the conversation into events."""
        match line.type, line.subtype:
            case "thinking", _:
                return (backend.ActivityChanged("thinking"),)
            case "assistant", _:
                text = "".join(map(_text, line.message.content))
                self._reply.texts.append(text)
                return (backend.ReplyText(text),)
            case "tool_call", "started":
                # A call that runs now; others of the same reply may follow.
                call, _body = _called(line)
                self._reply.calls.append(call)
                return (backend.ActivityChanged(f"tool {call.name}", tool=True),)
            case "tool_call", "completed":
                return self._returned(line)
            case _:
                return ()

    def last(self, line: Line) -> backend.Turn:
        """The reply that ends the work, with what all of them cost. A call that never came back is passed over."""
        self._reply.calls = []
        turn = self._reply.turn(_usage(line.usage))
        return turn if turn.text else msgspec.structs.replace(turn, text=line.result or "")

    def broke(self, line: Line) -> Iterator[backend.Event]:
        """The end of a run that failed: what it cost all the same."""
        if (usage := _usage(line.usage)) is not None:
            yield backend.Spent(usage)

    def _returned(self, line: Line) -> Iterator[backend.Event]:
        call, body = _called(line)
        if self._reply.calls:
            yield self._reply.turn()
        outcome = body.result or _Outcome()
        bad = next((said for said in (outcome.error, outcome.rejected) if said != NULL), None)
        good = decoded(outcome.success, _Returned) or _Returned()
        shown = outcome.success if bad is None else bad
        text = "\n".join(map(_text, good.content)) or bytes(shown).decode("utf-8", "replace")
        ended = backend.ToolEnded(call_id=call.id, name=call.name, text=text, is_error=bad is not None or good.is_error)
        # Whether a tool of the kernel's was called. What a plugin brings is called plugin:server.
        args = decoded(body.args, _McpArgs) or _McpArgs()
        if (DAEMON in (args.provider_identifier, args.server_identifier.rpartition(":")[2])) and not ended.is_error:
            yield backend.DaemonConnected()
        yield ended


def _usage(count: _Count | None) -> Usage | None:
    if count is None or count == _Count():
        return None
    return Usage(
        input_tokens=count.input_tokens,
        output_tokens=count.output_tokens,
        cache_read_tokens=count.cache_read_tokens,
        cache_write_tokens=count.cache_write_tokens,
    )


def _called(line: Line) -> tuple[ToolCall, _Call]:
    found = ((key, raw) for key, raw in line.tool_call.items() if key.endswith(_KIND) or key == _FUNCTION)
    kind, raw = next(found, ("?", NULL))
    body = decoded(raw, _Call) or _Call()
    name, args = kind.removesuffix(_KIND), body.args
    if kind == _FUNCTION:
        name, args = body.name, body.arguments
    elif kind == _MCP:
        mcp = decoded(body.args, _McpArgs) or _McpArgs()
        name, args = mcp.name or f"{mcp.provider_identifier}-{mcp.tool_name}", mcp.args
    return ToolCall(id=line.call_id or decoded(line.tool_call.get(_ID, NULL), str) or "", name=name, args=args), body


def _text(block: _Block) -> str:
    return block.text if isinstance(block.text, str) else _text(block.text)
