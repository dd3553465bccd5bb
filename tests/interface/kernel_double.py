"""A kernel that answers what a test tells it to: a real HTTP server on loopback, with proof, JSON and event streams."""

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from protocol.discovery import VERSION, project_state

TOKEN: Final = "token-of-the-test"


@dataclass
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Stream:
    """An answer that is an event stream: the pieces, then the connection ends (``cut``: in the middle of a chunk)."""

    pieces: Iterator[bytes] | list[bytes]
    cut: bool = False


Answer = msgspec.Struct | dict[str, Any] | Stream | tuple[int, dict[str, Any]] | None
"""None: the connection is closed without a word."""
Handler = Callable[[Asked], Answer]
PING: Final = b": ping\n\n"


def sse(kind: str, data: object, seq: int | None = None) -> bytes:
    """One event on the wire."""
    head = f"id: {seq}\n" if seq is not None else ""
    return f"{head}event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def in_turn(*answers: Answer | Handler) -> Handler:
    """Answers one after the other, the last one again and again."""
    left = list(answers)

    def answer(asked: Asked) -> Answer:
        now = left.pop(0) if len(left) > 1 else left[0]
        return now(asked) if callable(now) else now

    return answer


@dataclass
class KernelDouble:
    """The server and what it was asked. ``answers`` maps ``GET /ps`` to an answer or a handler."""

    answers: dict[str, Answer | Handler] = field(default_factory=dict)
    token: str = TOKEN
    proves: bool = True
    status: str = "ok"
    asked: list[Asked] = field(default_factory=list)
    arrived: "queue.Queue[Asked]" = field(default_factory=queue.Queue)
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def tokens_seen(self) -> list[str]:
        """Every credential that was shown."""
        return [asked.headers["authorization"] for asked in self.asked if "authorization" in asked.headers]

    def of(self, method: str, path: str) -> list[Asked]:
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]

    def publish(self, home: Path, root: Path, **changes: object) -> Path:
        """Leave the discovery record for ``root``, as a kernel does."""
        state = Path(project_state(str(home), str(root)))
        state.mkdir(parents=True, exist_ok=True)
        record = {
            "pid": 0,
            "url": self.url if self.server else "",
            "token": self.token,
            "project": str(root),
            **changes,
        }
        path = state / "daemon.json"
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_text(json.dumps(record))
        return path

    @contextmanager
    def running(self) -> Generator["KernelDouble"]:
        self.server = _Server(("127.0.0.1", 0), type("Handle", (_Handle,), {"kernel": self}))
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


class _Handle(BaseHTTPRequestHandler):
    """One connection. ``kernel`` is set by the class made for it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    kernel: KernelDouble

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self) -> None:
        asked = self._asked()
        self.kernel.asked.append(asked)
        if asked.path == "/health":
            self._json(200, self._health(asked.query))
            return
        self.kernel.arrived.put(asked)
        if asked.headers.get("authorization") == f"Bearer {self.kernel.token}":
            self._answer(asked)
        else:
            self._json(401, {"title": "Unauthorized", "status": 401, "code": "unauthorized", "detail": "?"})

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  (the names it looks for)

    def _asked(self) -> Asked:
        address = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Asked(self.command, unquote(address.path), dict(parse_qsl(address.query)), headers, body)

    def _health(self, query: dict[str, str]) -> dict[str, str]:
        health = {"status": self.kernel.status, "version": VERSION}
        if "nonce" in query and self.kernel.proves:
            proof = hmac.new(self.kernel.token.encode(), query["nonce"].encode(), hashlib.sha256)
            health["proof"] = proof.hexdigest()
        return health

    def _answer(self, asked: Asked) -> None:
        answer = self.kernel.answers.get(f"{asked.method} {asked.path}", _missing(asked))
        if callable(answer):
            answer = answer(asked)
        match answer:
            case None:
                self.close_connection = True
            case Stream():
                self._stream(answer)
            case (int(status), body):
                self._json(status, body)
            case body:
                self._json(200, body)

    def _json(self, status: int, body: object) -> None:
        content = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, stream: Stream) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for piece in stream.pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"5\r\nab" if stream.cut else b"0\r\n\r\n")
        self.close_connection = stream.cut


def _missing(asked: Asked) -> Answer:
    detail = f"no route {asked.method} {asked.path}"
    return 404, {"title": "Not Found", "status": 404, "code": "not_found", "detail": detail}


def problem(status: int, code: str, detail: str, **more: object) -> tuple[int, dict[str, Any]]:
    return status, {"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail, **more}
