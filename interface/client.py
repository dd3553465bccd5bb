"""Requests to one kernel: JSON in, JSON out, streams of server-sent events, and refusals as Failure.

The server proves its identity on each connection before the token is sent. The module handles idempotency keys and
errors (problem+json) of all routes; it returns the bodies of answers unparsed.
"""

import json
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from interface.discovery import KernelEndpoint, prove
from interface.failure import Failure, Place, Unreachable
from interface.http_client import Connection, Response


class ServerEvent(NamedTuple):
    """Event of a stream; ``data`` is JSON. A comment (server ping) has type ``""`` and no data."""

    type: str
    data: str
    id: str = ""


PING = ServerEvent("", "")


def server_events(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events in ``pieces`` (WHATWG HTML 9.2.6) as they complete; pings prove liveness."""
    lines: list[str] = []
    for line in _lines(pieces):
        if line:
            lines.append(line)
            continue
        event: ServerEvent | None
        fields: dict[str, str] = {}
        for event_line in lines:
            name, _, value = event_line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
        if "data" in fields or "event" in fields:
            event = ServerEvent(fields.get("event", "message"), fields.get("data", ""), fields.get("id", ""))
        else:
            event = PING if lines else None
        lines = []
        if event is not None:
            yield event


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    buffer, mark = bytearray(), BOM_UTF8
    for piece in pieces:
        buffer += piece
        if b"\n" not in piece:
            continue
        *whole, rest = buffer.removeprefix(mark).split(b"\n")
        buffer, mark = bytearray(rest), b""
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


REQUEST_SECONDS: Final = 60.0
"""Timeout of an ordinary answer. The kernel commits in milliseconds."""
SILENCE_SECONDS: Final = 60.0
"""Time without data after which an event stream counts as broken: the kernel pings every 15 s."""
BYE: Final = "bye"
"""Last event of a stream that a stopping kernel ends."""
_NOT_THERE: Final = frozenset({"starting", "stopping"})
"""Refusals of a starting or stopping kernel, which clients treat like a missing kernel."""


def new_key() -> str:
    """Return an Idempotency-Key, with which a repeated request has only one effect."""
    return os.urandom(16).hex()


class Client:
    """Client of a kernel that has proved its identity. One connection is reused; each stream has a separate one."""

    def __init__(self, endpoint: KernelEndpoint, connection: Connection | None = None) -> None:
        self.endpoint = endpoint
        self.was_stopped = False
        """Whether the kernel announced its exit. Such a kernel was stopped on request and must not be restarted."""
        self._kept = connection

    def get(
        self, path: str, query: Mapping[str, str] | None = None, *, wait_seconds: float | None = REQUEST_SECONDS
    ) -> bytes:
        """GET ``path``. Raises Failure if the kernel refuses, Unreachable if it is not running."""
        return self._ask("GET", path + query_text(query), {}, b"", wait_seconds)

    def post(self, path: str, body: object, *, key: str, wait_seconds: float | None = REQUEST_SECONDS) -> bytes:
        """POST ``body`` and return the answer. Safe to repeat with the same ``key``. Raises as ``get``."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._ask("POST", path, headers, _encoded(body), wait_seconds)

    def put(self, path: str, body: object, query: Mapping[str, str], match: Mapping[str, str]) -> bytes:
        """PUT and return the answer. ``match``: If-Match or If-None-Match. Raises as ``get``."""
        headers = {"Content-Type": "application/json", **match}
        return self._ask("PUT", path + query_text(query), headers, _encoded(body), REQUEST_SECONDS)

    def delete(
        self, path: str, query: Mapping[str, str] | None = None, match: Mapping[str, str] | None = None
    ) -> bytes:
        """DELETE and return the answer. ``match``: If-Match. Raises as ``get``."""
        headers = {"Idempotency-Key": new_key(), **(match or {})}
        return self._ask("DELETE", path + query_text(query), headers, b"", REQUEST_SECONDS)

    def events(self, query: Mapping[str, str], last_id: str = "") -> "Stream":
        """Open the stream of events, after ``last_id`` if given. Raises as ``get``."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        return self._stream("GET", "/events" + query_text(query), headers, b"", SILENCE_SECONDS)

    def stream(self, path: str, body: object, *, key: str) -> "Stream":
        """POST ``body`` and open the stream of events that answers it. A setup step may delay events for minutes."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Idempotency-Key": key}
        return self._stream("POST", path, headers, _encoded(body), None)

    def pieces(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the body at ``path`` in pieces, over a separate connection. Raises as ``get``."""
        connection = prove(self.endpoint).connection
        try:
            connection.wait_at_most(SILENCE_SECONDS)
            answer = connection.request("GET", path + query_text(query), self._credentials())
            if answer.status >= 400:
                raise_for_refusal(answer, answer.body())
            yield from answer.pieces()
        finally:
            connection.close()

    def close(self) -> None:
        """Close the reused connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _ask(self, method: str, path: str, headers: dict[str, str], body: bytes, wait: float | None) -> bytes:
        reused = self._kept
        if reused is not None and not reused.closed:
            try:
                return self._exchange(reused, method, path, headers, body, wait)
            except Unreachable:
                # The server may close an idle connection at the same moment (RFC 9112 9.3.1). A retry is safe for all
                # requests: reads, deletions, and POSTs with a key.
                self.close()
        self._kept = prove(self.endpoint).connection
        return self._exchange(self._kept, method, path, headers, body, wait)

    def _exchange(
        self, connection: Connection, method: str, path: str, headers: dict[str, str], body: bytes, wait: float | None
    ) -> bytes:
        connection.wait_at_most(wait)
        answer = connection.request(method, path, {**self._credentials(), **headers}, body)
        content = answer.body()
        raise_for_refusal(answer, content)
        return content

    def _stream(self, method: str, path: str, headers: dict[str, str], body: bytes, silence: float | None) -> "Stream":
        connection = prove(self.endpoint).connection
        connection.wait_at_most(silence)
        answer = connection.request(method, path, {**self._credentials(), **headers}, body)
        if answer.status >= 400:
            content = answer.body()
            connection.close()
            raise_for_refusal(answer, content)

        def goodbye() -> None:
            self.was_stopped = True

        return Stream(connection, answer, goodbye)

    def _credentials(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.endpoint.token}"}


class Stream:
    """Open event stream. Iteration ends when the kernel ends it, and raises Unreachable when it breaks."""

    def __init__(self, connection: Connection, answer: Response, goodbye: Callable[[], None]) -> None:
        self._connection = connection
        self._goodbye = goodbye
        self._events = server_events(answer.pieces())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ServerEvent]:
        for event in self._events:
            if event.type == BYE:
                self._goodbye()
                return
            yield event

    def wait_at_most(self, seconds: float | None) -> None:
        """Set the timeout for further events."""
        self._connection.wait_at_most(seconds)

    def close(self) -> None:
        """Close the stream; running work of the kernel continues."""
        self._connection.close()


def _encoded(body: object) -> bytes:
    """Encode ``body`` as JSON in UTF-8. Escapes would take six bytes for a letter of two, and the kernel counts bytes.

    Raises Failure (usage) for input that is not text.
    """
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        raise Failure("usage", f"the input is not UTF-8 text: it contains {wrong!a}") from error


def quoted(segment: str) -> str:
    """Quote ``segment`` as a segment of a path."""
    from urllib.parse import quote  # noqa: PLC0415  (most requests need no quoting)

    return quote(segment, safe=":@", errors="surrogateescape")


def query_text(query: Mapping[str, str] | None) -> str:
    """Return ``query`` as the end of a request target."""
    if not query:
        return ""
    from urllib.parse import urlencode  # noqa: PLC0415  (as above)

    return "?" + urlencode(query)


def raise_for_refusal(answer: Response, content: bytes) -> None:
    """Raise Failure if the kernel refused, Unreachable if it is starting or stopping."""
    if answer.status < 400:
        return
    try:
        problem: dict[str, Any] = json.loads(content)
        text = str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, TypeError, AttributeError):
        problem, text = {}, f"the kernel answered {answer.status}"
    places = [
        Place(
            path=str(error.get("path", "")),
            line=int(error.get("line", 0)),
            column=int(error.get("column", 0)),
            where=str(error.get("where", "")),
            message=str(error.get("message", "")),
            hint=error.get("hint"),
            source=str(error.get("source", "")),
        )
        for error in problem.get("errors", ())
    ]
    code, hint = str(problem.get("code", "")), problem.get("hint")
    if code in _NOT_THERE:
        raise Unreachable(text)
    wants = problem.get("wants", ())
    raise Failure(code, text, hint, places=places, http_status=answer.status, wants=wants)
