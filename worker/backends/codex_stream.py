"""Parser of ``codex exec --json`` (one JSON object per line) and of codex's own thread record (version
0.169).

A reply of the model arrives in pieces (``item``s) without an end event. Calls that start before an
earlier call has ended belong to the same reply. Failure messages are prose, often that of the provider.

The thread record (``sessions/**/rollout-*-<thread>.jsonl`` in codex's home) adds an error code, and the
usage after each reply. A later version may have no such record: then the status is taken from the two
sentences that name it, and the usage only from the end of the output, where it covers the whole thread.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.ipc import Json, ToolCall
from protocol.text import decoded
from worker.backends import backend, private_files
from worker.backends.process import LineSplitter
from worker.models.model import cause_of, codes_in

CAUSES: Final[Mapping[str, Cause]] = {
    "context_window_exceeded": "context_overflow",
    "session_budget_exceeded": "budget",
    "usage_limit_exceeded": "quota",
    "rate_limit_exceeded": "rate_limited",
    "server_overloaded": "overloaded",
    "internal_server_error": "overloaded",
    "model_not_found": "invalid",
    "bad_request": "invalid",
    "unauthorized": "auth",
    "cyber_policy": "refusal",
    "sandbox_error": "crash",
}
"""Error codes without an HTTP status."""
_CONNECTIONS: Final = frozenset(
    {
        "http_connection_failed",
        "response_stream_connection_failed",
        "response_stream_disconnected",
        "response_too_many_failed_attempts",
    }
)
"""Error codes of failed requests. They come without an HTTP status if there was no response."""
_STATUS: Final = re.compile(r"(?:unexpected|last) status:? (\d{3})\b", re.ASCII)
_PROSE: Final[tuple[tuple[str, Cause], ...]] = (
    ("stream disconnected before completion", "network"),
    ("Incomplete response returned, reason: max_output_tokens", "max_tokens"),
    ("Incomplete response returned, reason: content_filter", "refusal"),
)
"""Fixed sentences for errors with the code ``other``."""


class TurnFailure(msgspec.Struct, frozen=True):
    """The cause of a failed turn, with the HTTP status if it is known."""

    cause: Cause
    status: int | None = None


class Count(msgspec.Struct, frozen=True):
    """Tokens that a thread has used so far, in all processes that continued it."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: Count = Count()


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    codex_error_info: str | dict[str, Any] | None = None


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    error: _Error | None = None
    info: _Info | None = None


class _Event(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


def turn_failure(home: Path, thread: str | None, message: str) -> TurnFailure:
    """Return the cause of the failed last turn of ``thread``, which codex reported as ``message``."""
    info = _recorded(home, thread) if thread is not None else None
    if isinstance(info, str) and info in CAUSES:
        return TurnFailure(CAUSES[info])
    if isinstance(info, dict):
        for code in _CONNECTIONS & info.keys():
            detail = info[code]
            status = detail.get("http_status_code") if isinstance(detail, dict) else None
            return TurnFailure(cause_of(status, ()), status) if isinstance(status, int) else TurnFailure("network")
    if (found := _STATUS.search(message)) is not None:
        status = int(found[1])
        return TurnFailure(cause_of(status, ()), status)
    for words, cause in _PROSE:
        if message.startswith(words):
            return TurnFailure(cause)
    if not message.startswith("{"):
        return TurnFailure("overloaded")  # unknown: retried
    # The body of a 400 is passed through unchanged.
    return TurnFailure(cause_of(400, codes_in(decoded(message, object))), 400)


def _recorded(home: Path, thread: str) -> str | dict[str, Any] | None:
    found: str | dict[str, Any] | None = None
    for path in home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"):
        with suppress(OSError), private_files.opened(path) as lines:
            for line in lines:
                if b'"task_complete"' in line:
                    record = decoded(line, _Event)
                    error = None if record is None else record.payload.error
                    found = error.codex_error_info if error is not None else None
    return found


_KIND: Final = "token_count"
_CHUNK_BYTES: Final = 1024 * 1024


class TokenCount:
    """Reader of the token counts in the records of one thread."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._read: dict[Path, tuple[int, LineSplitter]] = {}
        """Offset read so far, and the last incomplete line, for each file."""
        self._last: Count | None = None

    def count(self, thread: str) -> Count | None:
        """Return the tokens that ``thread`` has used according to its record; None without a record."""
        for path in sorted(self._home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl")):
            with suppress(OSError):
                behind, lines = self._read.get(path, (0, LineSplitter()))
                with private_files.opened(path) as file:
                    file.seek(behind)
                    while chunk := file.read(_CHUNK_BYTES):
                        for line in lines.feed(chunk):
                            self._last = _counted(line) or self._last
                    self._read[path] = file.tell(), lines
        return self._last


def _counted(line: bytes) -> Count | None:
    if _KIND.encode() not in line:
        return None
    payload = (decoded(line, _Event) or _Event()).payload
    return payload.info.total_token_usage if payload.type == _KIND and payload.info is not None else None


class _CodexError(msgspec.Struct, frozen=True):
    message: str = ""


class _Content(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Returned(msgspec.Struct, frozen=True):
    content: tuple[_Content, ...] = ()


class _Item(msgspec.Struct, frozen=True):
    id: str
    type: str
    text: str = ""
    server: str = ""
    tool: str = ""
    arguments: Any = None
    result: _Returned | None = None
    error: _CodexError | None = None
    status: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    changes: Any = None
    query: str = ""


class CodexLine(msgspec.Struct, frozen=True):
    """Line of the output of codex."""

    type: str
    thread_id: str = ""
    item: _Item | None = None
    usage: Count = Count()
    error: _CodexError = _CodexError()


_BETWEEN: Final = "\n\n"
_TOOLS: Final = frozenset({"mcp_tool_call", "command_execution", "file_change", "web_search"})


class Thread:
    """Assembler of the part of a thread that one process contributes.

    ``booked`` is the usage that earlier processes reported. ``counted`` returns a thread's current usage, if known.
    """

    def __init__(self, booked: Usage, counted: Callable[[str], Count | None] = lambda _thread: None) -> None:
        self._booked = booked
        self._counted = counted
        self._reply = backend.OpenReply()
        self._told: set[str] = set()
        self.id: str | None = None
        self.text = ""
        """Text of the last message."""
        self.completed = False
        self.failure: str | None = None
        """Message of its own failure."""

    def take(self, line: CodexLine) -> Iterable[backend.Event]:
        """Translate a line into events."""
        match line.type:
            case "thread.started" if line.thread_id:
                self.id = line.thread_id
                # Codex starts a thread only when all required servers are connected.
                return backend.SessionStarted(line.thread_id), backend.DaemonConnected()
            case "item.started" if line.item is not None:
                return self._begun(line.item)
            case "item.completed" if line.item is not None:
                return self._done(line.item)
            case "turn.completed":
                self.completed = True
                self._reply.calls = []  # calls without a result
                return self._reply.turn(self._spend(line.usage), between=_BETWEEN), backend.LastEvent()
            case "turn.failed":
                self.failure = line.error.message
                spent = self._spend_counted()
                return (backend.LastEvent(),) if spent is None else (backend.SubagentUsage(spent), backend.LastEvent())
            case _:
                return ()

    def _begun(self, item: _Item) -> Iterator[backend.Event]:
        if item.type in _TOOLS:
            self._reply.calls.append(_call(item))
            yield backend.ActivityChanged(f"tool {_name(item)}", tool=True)

    def _done(self, item: _Item) -> Iterator[backend.Event]:
        if item.type == "agent_message":
            self.text = item.text
            self._reply.texts.append(item.text)
            yield backend.ReplyText(item.text)
        elif item.type in _TOOLS:
            if item.id not in self._told:
                if all(call.id != item.id for call in self._reply.calls):
                    self._reply.calls.append(_call(item))
                self._told.update(call.id for call in self._reply.calls)
                yield self._reply.turn(self._spend_counted(), between=_BETWEEN)
            if item.error is not None:
                output = item.error.message
            elif item.result is not None:
                parts = item.result.content
                output = "\n".join(part.text if part.type == "text" else f"[{part.type}]" for part in parts)
            else:
                output = item.aggregated_output
            yield backend.ToolEnded(
                call_id=item.id,
                name=_name(item),
                text=output,
                is_error=item.status in ("failed", "declined") or item.error is not None or bool(item.exit_code),
            )

    def _spend(self, count: Count) -> Usage:
        usage = Usage(
            input_tokens=max(0, count.input_tokens - count.cached_input_tokens),
            output_tokens=count.output_tokens,
            cache_read_tokens=count.cached_input_tokens,
        ).beyond(self._booked)
        self._booked = self._booked.plus(usage)
        return usage

    def _spend_counted(self) -> Usage | None:
        count = None if self.id is None else self._counted(self.id)
        usage = None if count is None else self._spend(count)
        return usage if usage is not None and usage.tokens else None


def _name(item: _Item) -> str:
    return f"{item.server}.{item.tool}" if item.type == "mcp_tool_call" else item.type


def _call(item: _Item) -> ToolCall:
    said: dict[str, object] = {
        "mcp_tool_call": item.arguments,
        "command_execution": {"command": item.command},
        "file_change": {"changes": item.changes},
        "web_search": {"query": item.query},
    }
    return ToolCall(id=item.id, name=_name(item), args=Json(msgspec.json.encode(said[item.type])))
