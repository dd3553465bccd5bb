"""``codex exec --json``: one JSON object a line, as version 0.169 writes it. Sans I/O.

A reply of its model is told in pieces (``item``s) and its end not at all: calls that start before one of them has
ended are one reply's. What was spent comes once, at the end, and counts the whole thread; who is asked for it knows it
after each reply.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from protocol.instruction import Usage
from protocol.ipc import Json, ToolCall
from worker.backends.backend import (
    ActivityChanged,
    DaemonConnected,
    Event,
    LastEvent,
    ReplyText,
    SessionStarted,
    Spent,
    ToolEnded,
    Turn,
)
from worker.backends.codex_session import Count


class Trouble(msgspec.Struct, frozen=True):
    """Words for people."""

    message: str = ""


class Content(msgspec.Struct, frozen=True):
    """A part of a tool's result."""

    type: str = ""
    text: str = ""


class Returned(msgspec.Struct, frozen=True):
    """The result of an MCP tool."""

    content: tuple[Content, ...] = ()


class Item(msgspec.Struct, frozen=True):
    """Something it said or did: the fields of all kinds that we read."""

    id: str
    type: str
    text: str = ""
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: Returned | None = None
    error: Trouble | None = None
    status: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    changes: Any = None
    query: str = ""


class Line(msgspec.Struct, frozen=True):
    """Any line."""

    type: str
    thread_id: str = ""
    item: Item | None = None
    usage: Count = Count()
    error: Trouble = Trouble()


_decode: Final = msgspec.json.Decoder(Line).decode
_NOTHING: Final = Usage()
_TOOLS: Final = frozenset({"mcp_tool_call", "command_execution", "file_change", "web_search"})


def parse(line: bytes) -> Line | None:
    """One line; None where it is none of this format."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Thread:
    """Puts one process's part of a thread together. ``booked`` is what earlier ones spent, as far as it was told.

    ``counted``: what a thread has spent by now, if that is known.
    """

    def __init__(self, booked: Usage, counted: Callable[[str], Count | None] = lambda _thread: None) -> None:
        self._booked = booked
        self._counted = counted
        self._texts: list[str] = []
        self._started: list[ToolCall] = []
        self._told: set[str] = set()
        self.id: str | None = None
        self.text = ""
        """The last thing it said."""
        self.completed = False
        self.failure: str | None = None
        """What it says about its own failure."""

    def take(self, line: Line) -> Iterable[Event]:
        """Translate a line into events."""
        match line.type:
            case "thread.started" if line.thread_id:
                self.id = line.thread_id
                # It starts no thread before all required servers are connected.
                return SessionStarted(line.thread_id), DaemonConnected()
            case "item.started" if line.item is not None:
                return self._begun(line.item)
            case "item.completed" if line.item is not None:
                return self._done(line.item)
            case "turn.completed":
                self.completed = True
                return self._turn(usage=self._spend(line.usage)), LastEvent()
            case "turn.failed":
                self.failure = line.error.message
                spent = self._spend_counted()
                return (LastEvent(),) if spent is None else (Spent(spent), LastEvent())
            case _:
                return ()

    def _begun(self, item: Item) -> Iterator[Event]:
        if item.type in _TOOLS:
            self._started.append(_call(item))
            yield ActivityChanged(f"tool {_name(item)}", tool=True)

    def _done(self, item: Item) -> Iterator[Event]:
        if item.type == "agent_message":
            self.text = item.text
            self._texts.append(item.text)
            yield ReplyText(item.text)
        elif item.type in _TOOLS:
            if item.id not in self._told:
                calls = (
                    self._started
                    if any(call.id == item.id for call in self._started)
                    else [*self._started, _call(item)]
                )
                self._started = []
                self._told.update(call.id for call in calls)
                yield self._turn(tuple(calls), self._spend_counted())
            if item.error is not None:
                output = item.error.message
            elif item.result is not None:
                output = "\n".join(
                    part.text if part.type == "text" else f"[{part.type}]" for part in item.result.content
                )
            else:
                output = item.aggregated_output
            yield ToolEnded(
                call_id=item.id,
                name=_name(item),
                text=output,
                is_error=item.status in ("failed", "declined") or item.error is not None or bool(item.exit_code),
            )

    def _turn(self, calls: tuple[ToolCall, ...] = (), usage: Usage | None = None) -> Turn:
        text, self._texts = "\n\n".join(self._texts), []
        return Turn(text=text, calls=calls, usage=usage)

    def _spend(self, count: Count) -> Usage:
        """Return the usage that was not reported yet, and count it as reported."""
        usage = _since(self._booked, count)
        self._booked = self._booked.plus(usage)
        return usage

    def _spend_counted(self) -> Usage | None:
        """The same of what is known by now; None where that is nothing."""
        count = None if self.id is None else self._counted(self.id)
        usage = _NOTHING if count is None else self._spend(count)
        return None if usage == _NOTHING else usage


def _since(booked: Usage, count: Count) -> Usage:
    """Return the usage beyond ``booked``. Input that came from a cache is counted apart."""
    return Usage(
        input_tokens=max(0, count.input_tokens - count.cached_input_tokens - booked.input_tokens),
        output_tokens=max(0, count.output_tokens - booked.output_tokens),
        cache_read_tokens=max(0, count.cached_input_tokens - booked.cache_read_tokens),
    )


def _name(item: Item) -> str:
    return f"{item.server}.{item.tool}" if item.type == "mcp_tool_call" else item.type


def _call(item: Item) -> ToolCall:
    said: dict[str, object] = {
        "mcp_tool_call": item.arguments,
        "command_execution": {"command": item.command},
        "file_change": {"changes": item.changes},
        "web_search": {"query": item.query},
    }
    return ToolCall(id=item.id, name=_name(item), args=Json(msgspec.json.encode(said[item.type])))
