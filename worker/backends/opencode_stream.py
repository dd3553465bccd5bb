"""Parser of ``opencode run --format json``: one JSON object per line, as written by version 1.18. Sans I/O.

Each line is a complete part of a reply: a text, a call with its result, and at the end the usage. The end of the work
has no event: it follows from the reason of the last reply and the exit code. Retries of provider requests have no event
either: they appear only in the log (``--print-logs``), without the status code.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from protocol.instruction import LARGEST, Usage
from protocol.ipc import NULL, Json, ToolCall
from protocol.text import decoded
from worker.backends import backend
from worker.models.model import Failed, cause_in, codes_in, message_in, retry_after

TITLE: Final = "opencode"
NEXT_REPLY: Final = "tool-calls"
"""Finish reason of a reply after which another reply follows."""

LOG: Final = re.compile(
    rb'timestamp=\S+ level=\w+ (?:.*?message="(?P<event>stream error|llm runtime selected|server unavailable)"'
    rb'(?: key=(?P<server>\S+))?(?:.*?error\.error="(?P<why>(?:[^"\\]|\\.)*))?)?',
    re.DOTALL,
)
"""Format of a log line. Group ``event``: a provider request starts or fails, or an MCP server is unavailable."""
_UNSERVED: Final = b"server unavailable"
_FAILED: Final = b"stream error"
PAUSE_SECONDS: Final = 90.0
"""Maximum silence during retries: opencode waits half a minute at most, unless Retry-After asks for more."""


class _Span(msgspec.Struct, frozen=True):
    start: float | None = None
    end: float | None = None

    @property
    def milliseconds(self) -> int | None:
        """Return the duration; None if it is unknown."""
        if self.start is None or self.end is None:
            return None
        return round(min(max(0.0, self.end - self.start), LARGEST))


class _State(msgspec.Struct, frozen=True):
    status: str = ""
    input: Json = NULL
    output: str = ""
    error: str = ""
    time: _Span = _Span()


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, frozen=True):
    """Tokens of one reply. ``reasoning`` is not included in ``output``."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _Part(msgspec.Struct, frozen=True, rename={"call_id": "callID"}):
    text: str = ""
    call_id: str = ""
    tool: str = ""
    state: _State = _State()
    reason: str = ""
    tokens: _Tokens = _Tokens()


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    """Details of an error. ``response_body`` is the provider's raw response."""

    message: str = ""
    status_code: int | None = None
    response_headers: dict[str, str] = {}
    response_body: str = ""


class _OpencodeError(msgspec.Struct, frozen=True):
    name: str = ""
    data: _Details = _Details()


class OpencodeLine(msgspec.Struct, frozen=True, rename={"session": "sessionID"}):
    """Line of the output of opencode."""

    type: str
    session: str = ""
    part: _Part = _Part()
    error: _OpencodeError | None = None


_NAMED: Final[Mapping[str, str]] = {
    "ContextOverflowError": "context_length_exceeded",
    "ContentFilterError": "content_filter",
    "ProviderAuthError": "invalid_api_key",
    "ProviderModelNotFoundError": "not_found_error",
    "UnknownError": "invalid_request_error",
}
"""Error name -> equivalent code of a provider. Other names are errors in opencode's own setup."""


class OpencodeReplies:
    """Assembler of replies."""

    def __init__(self) -> None:
        self._session = ""
        self._reply = backend.OpenReply()
        self._ended: list[backend.ToolEnded] = []
        self.text = ""
        """Text of the last message."""
        self.reason = ""
        """Reason why the last reply ended; empty before the first one."""
        self.failure: Failed | None = None

    def take(self, line: OpencodeLine) -> Iterator[backend.Event]:
        """Translate a line into events."""
        if line.session and line.session != self._session:
            self._session = line.session
            yield backend.SessionStarted(line.session)
        match line.type:
            case "text":
                self.text = line.part.text
                self._reply.texts.append(self.text)
                yield backend.ReplyText(self.text)
            case "tool_use":
                part = line.part
                state = part.state
                self._reply.calls.append(ToolCall(id=part.call_id, name=part.tool, args=state.input))
                is_error = state.status == "error"
                text = state.error if is_error else state.output
                took = state.time.milliseconds
                self._ended.append(
                    backend.ToolEnded(
                        call_id=part.call_id, name=part.tool, text=text, is_error=is_error, duration_ms=took
                    )
                )
            case "step_finish":
                part = line.part
                self.reason = part.reason
                spent = Usage(
                    input_tokens=part.tokens.input,
                    output_tokens=part.tokens.output + part.tokens.reasoning,
                    cache_read_tokens=part.tokens.cache.read,
                    cache_write_tokens=part.tokens.cache.write,
                )
                yield self._reply.turn(spent, between="\n\n")
                yield from self._ended
                self._ended = []
                if part.reason != NEXT_REPLY:
                    yield backend.LastEvent()
            case "error" if line.error is not None:
                self.failure = failed(line.error)
                yield backend.LastEvent()
            case _:
                pass


def retried(line: bytes) -> Iterable[backend.Event] | None:
    """Return the events of a log line; None if ``line`` is not a log line."""
    found = LOG.match(line)
    if found is None or found["event"] is None:
        return None
    if found["event"] == _UNSERVED:
        server = (found["server"] or b"").decode("utf-8", "replace")
        return (backend.EndEarly(backend.unserved(TITLE, server, "the server did not start")),)
    if found["event"] != _FAILED:
        return (backend.ActivityChanged("asking the model"),)
    words = (found["why"] or b"").decode("utf-8", "replace")
    text = f"opencode: the provider refused the request, and the pause exceeds {PAUSE_SECONDS:g} s: {words[:1000]}"
    pause = backend.BackingOff(PAUSE_SECONDS, Failed("rate_limited", text))
    return backend.ActivityChanged("waiting to retry the model request"), pause


def failed(error: _OpencodeError) -> Failed:
    """Return the failure for ``error``, classified by the provider's codes in it."""
    data = error.data
    body = decoded(data.response_body, object)
    codes = [*codes_in(body), *([_NAMED[error.name]] if error.name in _NAMED else [])]
    message = message_in(body) or data.message or error.name
    return Failed(
        cause_in(data.status_code, codes, message),
        f"opencode: {message}",
        http_status=data.status_code,
        retry_after_seconds=retry_after(data.response_headers),
        code=codes[0][:100] if codes else None,
    )
