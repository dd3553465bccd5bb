"""Strict HTTP/1.1, and nothing else: what two readers could take for different things is refused (promise P17).

h11 forgives what RFC 9112 lets a server forgive: a bare LF, a folded line, Content-Length beside Transfer-Encoding, any
version. Here each of these is answered 400, and the connection is closed. There are no upgrades: who asks for one gets
an ordinary answer.
"""

import re
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Literal, Protocol
from urllib.parse import unquote

import h11
import msgspec
import trio
from h11._receivebuffer import ReceiveBuffer

from kernel.api.asgi import Message, Scope
from kernel.api.responses import PROBLEM, Response, head_of
from protocol.api.document import Problem

FIELDS_LIMIT: Final = 128
"""Header lines of one request, and trailer lines of one body."""
LINE_LIMIT_BYTES: Final = 16 * 1024
_END: Final = b"\r\n\r\n"
_VISIBLE: Final = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)) + b"\t\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*[0-9]+[ \t]*\r\n")
_VERSIONS: Final = frozenset({b"1.0", b"1.1"})
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BODILESS: Final = frozenset({204, 304})
"""Statuses of answers that have no body."""

Address = tuple[str, int] | None


def flaw_of_lines(lines: bytes) -> str | None:
    """The flaw in the lines of a head or of trailers, or in as much of them as has come; None if they are right."""
    whole = lines.removesuffix(b"\r")  # its LF may be on the way
    if lines.translate(None, _VISIBLE):
        return "a control character in the head"
    if not whole.count(b"\r\n") == whole.count(b"\n") == whole.count(b"\r"):
        return "a line that does not end in CR LF"
    if b"\r\n " in lines or b"\r\n\t" in lines:
        return "a folded header line"
    if lines.count(b"\n") > FIELDS_LIMIT:
        return f"more than {FIELDS_LIMIT} header lines"
    return _flaw_of_length(lines)


def _flaw_of_length(lines: bytes) -> str | None:
    lower = b"\r\n" + lines.lower()  # trailers have no line before the first of them
    lengths = lower.count(b"\r\ncontent-length:")
    if lengths + lower.count(b"\r\ntransfer-encoding:") > 1:
        return "more than one field that tells where the body ends"
    if lengths and lines.endswith(_END) and not _LENGTH.search(lower):
        return "a Content-Length that is not one number"
    return None


def flaw_of(request: h11.Request) -> str | None:
    """The flaw in a request whose lines are right; None if there is none."""
    if request.http_version not in _VERSIONS:
        return "a version that is neither HTTP/1.1 nor HTTP/1.0"
    if request.http_version == b"1.0" and any(name == b"transfer-encoding" for name, _ in request.headers):
        return "Transfer-Encoding in HTTP/1.0"
    if request.method == b"CONNECT":
        return "the method CONNECT"
    return None


class _Lines(ReceiveBuffer):
    """The bytes that were not parsed yet. Lines are given out only where they are strictly right."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        data = self._data
        if data.startswith(b"\r\n"):
            return super().maybe_extract_lines()
        start = self._multiple_lines_search  # of the last line that was whole before; 0 after each extraction
        end = data.find(_END, start)
        flaw = flaw_of_lines(bytes(data[start:] if end < 0 else data[: end + len(_END)]))
        if flaw is not None:
            raise h11.LocalProtocolError(flaw)
        if end >= 0:
            return super().maybe_extract_lines()
        self._multiple_lines_search = max(start, data.rfind(b"\r\n", start))
        if len(data) - self._multiple_lines_search > LINE_LIMIT_BYTES:
            raise h11.LocalProtocolError(f"a line of more than {LINE_LIMIT_BYTES} bytes", error_status_hint=431)
        return None

    def maybe_extract_next_line(self) -> bytearray | None:
        line = super().maybe_extract_next_line()
        if line is not None and (line.translate(None, _VISIBLE) or line.count(b"\r") > 1 or line.count(b"\n") > 1):
            raise h11.LocalProtocolError("a control character in the size of a chunk")
        if line is not None and line.endswith((b" \r\n", b"\t\r\n")):
            raise h11.LocalProtocolError("space after the size of a chunk")
        return line


class _Parser(h11.Connection):
    """h11, strict. ``flaw``: why it has refused to go on."""

    def __init__(self, head_limit_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=head_limit_bytes)
        self._receive_buffer = _Lines()
        self.flaw = ""
        self.without_body = False
        """The request under way is one whose answer has no body."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self.without_body = event.method == b"HEAD"
                flaw = flaw_of(event)
                if flaw is not None:
                    raise h11.RemoteProtocolError(flaw)
        except h11.RemoteProtocolError as error:
            self.flaw = str(error).partition(":")[0]  # h11 goes on with what was sent, a token perhaps
            raise
        return event


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    now = time.gmtime(second)
    day = f"{_DAYS[now.tm_wday]}, {now.tm_mday:02} {_MONTHS[now.tm_mon - 1]} {now.tm_year}"
    return f"{day} {time.strftime('%T', now)} GMT".encode()


class Wire(Protocol):
    """The connection that an Http1 is spoken on."""

    async def write(self, data: bytes) -> None:
        """Send ``data``; a head may wait for what follows it."""
        ...

    def set_idle(self, idle: bool) -> None:
        """A request has begun, or the last one was answered."""
        ...

    async def close(self) -> None:
        """Close, after what was written; ``Http1.gone`` is called."""
        ...


class Exchange:
    """One request and its answer, in the shapes of ASGI. ``put`` takes the parts of the request."""

    put: Callable[[Message], Awaitable[None]]

    def __init__(self, http: "Http1", request: h11.Request, client: Address, server: Address) -> None:
        path, _, query_string = request.target.partition(b"?")
        self.scope: Scope = {
            "type": "http",
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "http_version": request.http_version.decode(),
            "method": request.method.decode("ascii").upper(),
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query_string,
            "root_path": "",
            "headers": list(request.headers),
            "client": client,
            "server": server,
            "extensions": {},
        }
        self._http = http
        self._answer: Literal["awaited", "begun", "whole"] = "awaited"
        self._without_body = False
        self.over = False
        """Nothing of it matters any more: it was answered, or the client has gone."""

    async def send(self, message: Message | None) -> None:
        """Take a part of the answer, as ASGI's ``send``; None when the application has returned."""
        kind = None if message is None else message["type"]
        if message is None:
            if not self.over:
                if self._answer == "awaited":
                    await self._http.send_head(500, [(b"content-length", b"0"), (b"connection", b"close")])
                    await self._http.send(h11.EndOfMessage())
                await self._http.finish(self)
        elif kind == "http.response.start" and self._answer == "awaited":
            status = message["status"]
            self._without_body = self.scope["method"] == "HEAD" or status in _BODILESS
            await self._http.send_head(status, message.get("headers", []))
            self._answer = "begun"
        elif kind == "http.response.body" and self._answer == "begun":
            body = message.get("body", b"")
            if body and not self._without_body:
                await self._http.send(h11.Data(data=bytes(body)))
            if not message.get("more_body", False):
                await self._http.send(h11.EndOfMessage())
                self._answer = "whole"
                await self._http.finish(self)
        else:
            raise RuntimeError(f"{kind} where the answer is {self._answer}")


class Http1:
    """The server's side of HTTP/1.1 on one connection, over a strict parser: one request at a time.

    Args:
        begin: has an exchange answered in a task of its own; returns what takes the parts of the request.
        now_ms: the wall clock, for the field Date.
        complain: called with what was wrong with a request, once, before the close.
        last: returns whether no request is to follow the one under way.
    """

    def __init__(
        self,
        wire: Wire,
        begin: Callable[[Exchange], Callable[[Message], Awaitable[None]]],
        client: Address,
        server: Address,
        *,
        head_limit_bytes: int,
        now_ms: Callable[[], int],
        complain: Callable[[str], None],
        last: Callable[[], bool],
    ) -> None:
        self._wire = wire
        self._begin = begin
        self._client = client
        self._server = server
        self._parser = _Parser(head_limit_bytes)
        self._now_ms = now_ms
        self._complain = complain
        self._last = last
        self._exchange: Exchange | None = None
        self._closing = False
        self._finished = trio.Event()
        """Set at the end of each exchange: what came behind its request can be read."""

    async def receive(self, data: bytes) -> None:
        """Take what came from the client."""
        parser = self._parser
        parser.receive_data(data)
        while True:
            if parser.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError as error:
                if parser.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                    await self._refuse(error.error_status_hint)
                await self._wire.close()
                return
            if isinstance(event, h11.Request):
                self._wire.set_idle(False)
                self._exchange = Exchange(self, event, self._client, self._server)
                self._exchange.put = self._begin(self._exchange)
            elif event is h11.PAUSED:
                self._finished = trio.Event()
                await self._finished.wait()
                if self._closing:
                    return
            elif self._exchange is None or event is h11.NEED_DATA:
                return
            elif isinstance(event, h11.Data):
                await self._exchange.put({"type": "http.request", "body": bytes(event.data), "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await self._exchange.put({"type": "http.request", "body": b"", "more_body": False})
            else:
                return  # the client has closed

    async def gone(self) -> None:
        """The connection was closed, by whichever side."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.over = True
            await exchange.put({"type": "http.disconnect"})

    async def send_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the head of an answer."""
        await self.send(h11.Response(status_code=status, headers=[*headers, (b"date", _date(self._now_ms() // 1000))]))

    async def send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        """Send a part of an answer; to who does not speak HTTP, nothing."""
        try:
            data = self._parser.send(event)
        except h11.LocalProtocolError:
            if self._parser.their_state != h11.ERROR:
                raise
        else:
            await self._wire.write(data or b"")

    async def finish(self, exchange: Exchange) -> None:
        """``exchange`` is over: go on with the next, or close where there is to be none."""
        if exchange is self._exchange:
            await self.gone()
        parser = self._parser
        self._closing = self._last() or parser.our_state is not h11.DONE or parser.their_state is not h11.DONE
        self._finished.set()
        if self._closing:
            await self._wire.close()
        else:
            parser.start_next_cycle()
            self._wire.set_idle(True)

    async def _refuse(self, status: int) -> None:
        flaw = self._parser.flaw
        self._complain(flaw)
        title = HTTPStatus(status).phrase
        detail = f"this is not HTTP/1.1 as it is read here: {flaw}"
        problem = Problem(title=title, status=status, code="bad_request", detail=detail)
        reply = Response(status, msgspec.json.encode(problem), PROBLEM, ((b"connection", b"close"),))
        await self.send_head(status, head_of(reply))
        if not self._parser.without_body:
            await self.send(h11.Data(data=reply.body))
        await self.send(h11.EndOfMessage())
