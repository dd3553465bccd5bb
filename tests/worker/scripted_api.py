"""A provider that says what it is told to: the streaming APIs of Anthropic, OpenAI (both) and Gemini, on loopback.

For tests of the worker, end-to-end tests and benchmarks: ``with ScriptedApi([...]) as api``, then point a
provider at ``api.anthropic_url`` or ``api.openai_url``. Moves are played in order, one a request, whatever the
dialect; when they are used up, ``otherwise`` answers. Requests are kept with the time they arrived.
"""

import json
import socket
import threading
import time
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.worker.scripted_gemini import gemini
from tests.worker.scripted_responses import responses


@dataclass(frozen=True)
class Call:
    """One tool call the model makes. ``args`` is the text of the arguments, so that it may be no JSON."""

    name: str
    args: str = "{}"
    id: str = ""


@dataclass(frozen=True)
class Say:
    """A reply. ``stop`` is the raw word of the dialect; left out, it is what the dialect would say."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str | None = None
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    thinking: str = ""
    chunk: int = 8
    """Characters of text in one event."""
    hold: threading.Event | None = None
    """Waited for after the first event."""


@dataclass(frozen=True)
class Fail:
    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Events:
    """A stream of exactly these events: ``(name or None, data)``; ``cut`` hangs up without ending it."""

    events: tuple[tuple[str | None, Any], ...]
    cut: bool = False


@dataclass(frozen=True)
class Marked:
    """A reply as a stream with a byte order mark, in pieces of ``size`` bytes."""

    say: Say
    size: int


@dataclass(frozen=True)
class Silence:
    """Takes the request and says nothing until ``release``."""

    release: threading.Event


Move = Say | Fail | Events | Silence | Marked


@dataclass(frozen=True)
class Request:
    """One request as it came. ``arrived_ns`` is ``time.monotonic_ns()``."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    arrived_ns: int


class ScriptedApi:
    """The server. ``requests`` grows as they arrive; ``asked`` is set by each."""

    def __init__(self, moves: Iterable[Move] = (), otherwise: Move | None = None) -> None:
        self._moves = deque(moves)
        self._otherwise = otherwise or Fail(500, {"error": {"message": "the script is over"}})
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self.requests: list[Request] = []
        self.asked = threading.Event()
        api = self

        class Handler(_Handler):
            script = api

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    def add(self, *moves: Move) -> None:
        """Have these played behind those that are left."""
        with self._lock:
            self._moves.extend(moves)

    def take(self, request: Request) -> Move:
        """Note ``request`` and say what answers it."""
        with self._lock:
            self.requests.append(request)
            self.asked.set()
            return self._moves.popleft() if self._moves else self._otherwise

    def enter(self, connection: socket.socket) -> None:
        self._connections.add(connection)

    def leave(self, connection: socket.socket) -> None:
        self._connections.discard(connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    script: ScriptedApi

    def setup(self) -> None:
        super().setup()
        self.script.enter(self.connection)

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.script.leave(self.connection)

    def do_POST(self) -> None:
        arrived = time.monotonic_ns()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {key.lower(): value for key, value in self.headers.items()}
        move = self.script.take(Request(self.path, headers, body, arrived))
        match move:
            case Fail():
                self._fail(move)
            case Silence():
                move.release.wait(30)
                self.close_connection = True
            case Events():
                self._stream(iter(move.events), cut=move.cut)
            case Marked():
                self._stream(_spoken(urlsplit(self.path).path, move.say), size=move.size)
            case Say():
                self._stream(_spoken(urlsplit(self.path).path, move), hold=move.hold)

    def _fail(self, move: Fail) -> None:
        content = json.dumps(move.body).encode() if not isinstance(move.body, str) else move.body.encode()
        self.send_response(move.status)
        for key, value in {"content-type": "application/json", **move.headers}.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _stream(
        self,
        events: Iterator[tuple[str | None, Any]],
        cut: bool = False,
        hold: threading.Event | None = None,
        size: int = 0,
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, (name, data) in enumerate(events):
            if hold is not None and number == 1:
                hold.wait(30)
            text = data if isinstance(data, str) else json.dumps(data)
            chunk = ((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode()
            chunk = BOM_UTF8 + chunk if size and not number else chunk
            for start in range(0, len(chunk), size or len(chunk)):
                piece = chunk[start : start + (size or len(chunk))]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
        if cut:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _spoken(path: str, say: Say) -> Iterator[tuple[str | None, Any]]:
    if path.endswith("/messages"):
        return iter(_anthropic(say))
    if path.endswith(":streamGenerateContent"):
        return iter(gemini(say))
    return iter(responses(say)) if path.endswith("/responses") else iter(_openai(say))


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _anthropic(say: Say) -> Iterator[tuple[str, Any]]:
    usage = {"input_tokens": say.input_tokens, "output_tokens": 1, "cache_read_input_tokens": say.cached_tokens}
    message = {"id": "msg", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    start = {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"type": "message_start", "message": start}
    for index, (block, deltas) in enumerate(_blocks(say)):
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": say.stop or ("tool_use" if say.calls else "end_turn"), "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": say.output_tokens}}
    yield "message_stop", {"type": "message_stop"}


def _blocks(say: Say) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if say.thinking:
        thought = [
            {"type": "thinking_delta", "thinking": say.thinking},
            {"type": "signature_delta", "signature": "sig"},
        ]
        yield {"type": "thinking", "thinking": "", "signature": ""}, thought
    if say.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(say.text, say.chunk)]
        yield {"type": "text", "text": ""}, deltas
    for number, call in enumerate(say.calls):
        block = {"type": "tool_use", "id": call.id or f"toolu_{number}", "name": call.name, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(call.args, 5)]


def _openai(say: Say) -> Iterator[tuple[None, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[None, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return None, {**_CHUNK, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if say.thinking:
        yield chunk({"reasoning_content": say.thinking})
    for piece in _pieces(say.text, say.chunk):
        yield chunk({"content": piece})
    for index, call in enumerate(say.calls):
        head = {"index": index, "id": call.id or f"call_{index}", "type": "function"}
        yield chunk({"tool_calls": [{**head, "function": {"name": call.name, "arguments": ""}}]})
        for piece in _pieces(call.args, 5):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, say.stop or ("tool_calls" if say.calls else "stop"))
    usage = {
        "prompt_tokens": say.input_tokens + say.cached_tokens,
        "completion_tokens": say.output_tokens,
        "total_tokens": say.input_tokens + say.cached_tokens + say.output_tokens,
        "prompt_tokens_details": {"cached_tokens": say.cached_tokens},
    }
    yield None, {**_CHUNK, "choices": [], "usage": usage}
    yield None, "[DONE]"


_CHUNK = {"id": "chatcmpl", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
