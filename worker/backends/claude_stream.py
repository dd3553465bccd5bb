"""Claude Code's ``stream-json``: one JSON object a line, as version 2.1 writes it. Sans I/O.

What a reply cost is exact in the raw events of its stream alone: its input with ``message_start``, its output with
``message_delta``. A tool may come back before the reply that called it is over, so results wait for that.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from protocol.instruction import Usage
from protocol.ipc import NULL, Json, ToolCall
from worker.backends.backend import ActivityChanged, Event, ReplyText, StreamLine, ToolEnded, Turn


class Server(msgspec.Struct, frozen=True):
    """An MCP server, as ``system/init`` has it."""

    name: str = ""
    status: str = ""


class Count(msgspec.Struct, frozen=True):
    """Tokens, in the words of the API."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class ModelCount(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens of all calls to one model, agents below it included."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class Block(msgspec.Struct, frozen=True):
    """A part of a message: ``text``, ``tool_use`` or ``tool_result``."""

    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Json = NULL
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class Message(msgspec.Struct, frozen=True):
    """A message of either side. ``content`` is a text in those that people write."""

    content: tuple[Block, ...] | str = ()
    usage: Count = Count()


class Delta(msgspec.Struct, frozen=True):
    """A piece of a block."""

    type: str = ""
    text: str = ""


class Raw(msgspec.Struct, frozen=True):
    """An event of the API's own stream."""

    type: str = ""
    message: Message = Message()
    delta: Delta = Delta()
    usage: Count = Count()


class Line(StreamLine, frozen=True, kw_only=True):
    """Any line: the fields of all kinds that we read."""

    type: str
    parent_tool_use_id: str | None = None
    mcp_servers: tuple[Server, ...] = ()
    message: Message | str = Message()
    event: Raw = Raw()
    error: str | None = None
    error_status: int | None = None
    api_error: str | None = None
    api_error_type: str | None = None
    api_error_status: int | None = None
    terminal_reason: str | None = None
    errors: tuple[str, ...] = ()
    tool_name: str = ""
    model_usage_since_last_result: dict[str, ModelCount] = {}


_decode: Final = msgspec.json.Decoder(Line).decode


def parse(line: bytes) -> Line | None:
    """One line; None where it is none of this format."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Replies:
    """Puts replies together. Those of agents below it (``parent_tool_use_id``) are not its own, and not told."""

    def __init__(self) -> None:
        self._open = False
        self._calls: list[ToolCall] = []
        self._texts: list[str] = []
        self._input = Count()
        self._waiting: list[ToolEnded] = []
        self._names: dict[str, str] = {}
        self.told = Usage()
        """What all turns so far cost."""

    def take(self, line: Line) -> Iterable[Event]:
        """Translate a line of a conversation into events."""
        if line.parent_tool_use_id is not None:
            return (ActivityChanged("an agent of its own works", tool=True),)
        match line.type:
            case "stream_event":
                return self._streamed(line.event)
            case "assistant" if isinstance(line.message, Message) and line.error is None:
                # A block that is whole; its reply may have more of them.
                for block in _blocks(line.message):
                    if block.type == "tool_use":
                        self._calls.append(ToolCall(id=block.id, name=block.name, args=block.input))
                        self._names[block.id] = block.name
                    elif block.type == "text":
                        self._texts.append(block.text)
                return ()
            case "user" if isinstance(line.message, Message):
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

    def _streamed(self, event: Raw) -> Iterator[Event]:
        match event.type:
            case "message_start":
                self._open, self._input = True, event.message.usage
                self._texts, self._calls = [], []
            case "content_block_delta" if event.delta.type == "text_delta":
                yield ReplyText(event.delta.text)
            case "message_delta":
                usage = _usage(self._input, event.usage)
                self.told = self.told.plus(usage)
                turn = Turn(text="".join(self._texts), calls=tuple(self._calls), usage=usage)
                self._texts, self._calls = [], []
                yield turn
            case "message_stop":
                self._open = False
                yield from self._waiting
                self._waiting = []
            case _:
                pass


def spent(models: Iterable[ModelCount], told: Usage) -> Usage | None:
    """Return the usage beside the turns that were reported; None where that is nothing."""
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
    rest = Usage(
        input_tokens=max(0, total.input_tokens - told.input_tokens),
        output_tokens=max(0, total.output_tokens - told.output_tokens),
        cache_read_tokens=max(0, total.cache_read_tokens - told.cache_read_tokens),
        cache_write_tokens=max(0, total.cache_write_tokens - told.cache_write_tokens),
    )
    return rest if rest != Usage() else None


def _usage(start: Count, end: Count) -> Usage:

    def last(name: str) -> int:
        later = getattr(end, name)
        return later if later is not None else getattr(start, name) or 0

    return Usage(
        input_tokens=last("input_tokens"),
        output_tokens=last("output_tokens"),
        cache_read_tokens=last("cache_read_input_tokens"),
        cache_write_tokens=last("cache_creation_input_tokens"),
    )


def _blocks(message: Message) -> tuple[Block, ...]:
    return message.content if isinstance(message.content, tuple) else ()


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", f"[{part.get('type', '?')}]")) for part in parts if isinstance(part, dict))
