"""Claude Code's ``stream-json``: one JSON object per line, as written by version 2.1. Sans I/O.

Only the raw stream events report the exact usage of a reply: the input in ``message_start``, the output in
``message_delta``. A tool result may arrive before its reply ends, so results are delayed until the end of the reply.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from protocol.instruction import Usage
from protocol.ipc import NULL, Json, ToolCall
from worker.backends.backend import ActivityChanged, Event, OpenReply, ReplyText, StreamLine, ToolEnded


class _Server(msgspec.Struct, frozen=True):
    name: str = ""
    status: str = ""


class _ClaudeUsage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _ModelCount(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class _ClaudeBlock(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Json = NULL
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class _ClaudeMessage(msgspec.Struct, frozen=True):
    content: tuple[_ClaudeBlock, ...] | str = ()
    usage: _ClaudeUsage = _ClaudeUsage()


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Raw(msgspec.Struct, frozen=True):
    type: str = ""
    message: _ClaudeMessage = _ClaudeMessage()
    delta: _Delta = _Delta()
    usage: _ClaudeUsage = _ClaudeUsage()


class ClaudeLine(StreamLine, frozen=True, kw_only=True):
    """A line of any type, with the fields of all types that this module reads."""

    type: str
    parent_tool_use_id: str | None = None
    mcp_servers: tuple[_Server, ...] = ()
    message: _ClaudeMessage | str = _ClaudeMessage()
    event: _Raw = _Raw()
    error: str | None = None
    error_status: int | None = None
    api_error: str | None = None
    api_error_type: str | None = None
    api_error_status: int | None = None
    terminal_reason: str | None = None
    errors: tuple[str, ...] = ()
    tool_name: str = ""
    model_usage_since_last_result: dict[str, _ModelCount] = {}


class ClaudeReplies:
    """Assembler of replies. Replies of subagents (``parent_tool_use_id``) are ignored."""

    def __init__(self) -> None:
        self._open = False
        self._reply = OpenReply()
        self._input = _ClaudeUsage()
        self._waiting: list[ToolEnded] = []
        self._names: dict[str, str] = {}
        self.told = Usage()
        """Usage of all turns so far."""

    def take(self, line: ClaudeLine) -> Iterable[Event]:
        """Translate a line of a conversation into events."""
        if line.parent_tool_use_id is not None:
            return (ActivityChanged("a subagent is working", tool=True),)
        match line.type:
            case "stream_event":
                return self._streamed(line.event)
            case "assistant" if isinstance(line.message, _ClaudeMessage) and line.error is None:
                # A complete block; the reply may contain more.
                for block in _blocks(line.message):
                    if block.type == "tool_use":
                        self._reply.calls.append(ToolCall(id=block.id, name=block.name, args=block.input))
                        self._names[block.id] = block.name
                    elif block.type == "text":
                        self._reply.texts.append(block.text)
                return ()
            case "user" if isinstance(line.message, _ClaudeMessage):
                ended = [
                    ToolEnded(
                        call_id=block.tool_use_id,
                        name=self._names.pop(block.tool_use_id, ""),
                        text=_text(block.content),
                        is_error=bool(block.is_error),
                    )
                    for block in _blocks(line.message)
                    if block.type == "tool_result"
                ]
                if not self._open:
                    return ended
                self._waiting += ended
                return ()
            case _:
                return ()

    def _streamed(self, event: _Raw) -> Iterator[Event]:
        match event.type:
            case "message_start":
                self._open, self._input = True, event.message.usage
                self._reply = OpenReply()
            case "content_block_delta" if event.delta.type == "text_delta":
                yield ReplyText(event.delta.text)
            case "message_delta":
                usage = _usage(self._input, event.usage)
                self.told = self.told.plus(usage)
                yield self._reply.turn(usage)
            case "message_stop":
                self._open = False
                yield from self._waiting
                self._waiting = []
            case _:
                pass


def spent(models: Iterable[_ModelCount], told: Usage) -> Usage | None:
    """Return the usage in ``models`` that ``told``, the usage of all replies, lacks; None if nothing is missing."""
    total = Usage()
    for model in models:
        total = total.plus(
            Usage(
                input_tokens=model.input_tokens,
                output_tokens=model.output_tokens,
                cache_read_tokens=model.cache_read_input_tokens,
                cache_write_tokens=model.cache_creation_input_tokens,
            )
        )
    rest = total.beyond(told)
    return rest if rest.tokens else None


def _usage(start: _ClaudeUsage, end: _ClaudeUsage) -> Usage:

    def last(name: str) -> int:
        later = getattr(end, name)
        return later if later is not None else getattr(start, name) or 0

    return Usage(
        input_tokens=last("input_tokens"),
        output_tokens=last("output_tokens"),
        cache_read_tokens=last("cache_read_input_tokens"),
        cache_write_tokens=last("cache_creation_input_tokens"),
    )


def _blocks(message: _ClaudeMessage) -> tuple[_ClaudeBlock, ...]:
    return message.content if isinstance(message.content, tuple) else ()


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", f"[{part.get('type', '?')}]")) for part in parts if isinstance(part, dict))
