"""Strict HTTP/1.1: requests that two readers could interpret differently are refused (promise P17).

RFC 9112 allows a server to accept a bare LF, a folded line, Content-Length beside Transfer-Encoding
and any version, and h11 does. Here, each is answered with 400, and the connection is closed.
hypercorn upgrades to HTTP/2 and WebSocket before a request was checked. Here, only ``/ws`` is
upgraded to WebSocket (kernel.api.websocket); other requests get an ordinary answer.
"""

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, cast

import h11
import msgspec
from h11._receivebuffer import ReceiveBuffer
from hypercorn.config import Config
from hypercorn.events import Event
from hypercorn.protocol.events import Request
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState

from kernel.api.responses import PROBLEM, head_of
from kernel.api.websocket import WebSocket, asks_for_websocket
from kernel.operations.answers import Response
from protocol.api.document import Problem

FIELDS_LIMIT: Final = 128
"""Header lines of one request, and trailer lines of one body."""
LINE_LIMIT_BYTES: Final = 16 * 1024
_END: Final = b"\r\n\r\n"
_VISIBLE: Final = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)) + b"\t\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*[0-9]+[ \t]*\r\n")
_VERSIONS: Final = frozenset({b"1.0", b"1.1"})

Address = tuple[str, int] | None


def flaw_of_lines(lines: bytes) -> str | None:
    """Return what is invalid in the lines, perhaps incomplete, of a head or trailers, or None."""
    whole = lines.removesuffix(b"\r")  # its LF may be in transit
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
    lower = b"\r\n" + lines.lower()  # trailers have no request line
    lengths = lower.count(b"\r\ncontent-length:")
    if lengths + lower.count(b"\r\ntransfer-encoding:") > 1:
        return "more than one field that determines the end of the body"
    if lengths and lines.endswith(_END) and not _LENGTH.search(lower):
        return "a Content-Length that is not one number"
    return None


def flaw_of(request: h11.Request) -> str | None:
    """Return what is invalid in a request whose lines are valid, or None."""
    if request.http_version not in _VERSIONS:
        return "a version that is neither HTTP/1.1 nor HTTP/1.0"
    if request.http_version == b"1.0" and any(name == b"transfer-encoding" for name, _ in request.headers):
        return "Transfer-Encoding in HTTP/1.0"
    if request.method == b"CONNECT":
        return "the method CONNECT"
    return None


class _Lines(ReceiveBuffer):
    """Unparsed bytes. Raises LocalProtocolError at the first line that is not strictly valid."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        data = self._data
        if data.startswith(b"\r\n"):
            return super().maybe_extract_lines()
        start = self._multiple_lines_search  # start of the last line that was complete before; 0 after each extraction
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
    """Strict h11 connection. ``flaw``: the reason of a refusal."""

    def __init__(self, head_limit_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=head_limit_bytes)
        self._receive_buffer = _Lines()
        self.flaw = ""
        self.without_body = False
        """Whether the current request has an answer without a body."""

    def _clean_up_response_headers_for_sending(self, response: h11.Response) -> h11.Response:
        # h11 would check and copy the checked header fields of a complete answer again.
        if self._cstate.keep_alive and b"content-length" in dict(response.headers.raw_items()):
            return response
        return super()._clean_up_response_headers_for_sending(response)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self.without_body = event.method == b"HEAD"
                flaw = flaw_of(event)
                if flaw is not None:
                    raise h11.RemoteProtocolError(flaw)
        except h11.RemoteProtocolError as error:
            self.flaw = str(error).partition(":")[0]  # h11 appends client input, possibly a token
            raise
        return event


class Http1(H11Protocol):
    """hypercorn's HTTP/1.1 with a strict parser. ``complain`` is called once with the flaw, before the close."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        group: TaskGroup,
        client: Address,
        server: Address,
        send: Callable[[Event], Awaitable[None]],
        complain: Callable[[str], None],
    ) -> None:
        super().__init__(app, config, context, group, ConnectionState({}), False, client, server, send)
        self.connection = self._parser = _Parser(config.h11_max_incomplete_size)
        self._complain = complain

    async def _check_protocol(self, event: h11.Request) -> None:
        """Do nothing: hypercorn would upgrade here."""

    async def _create_stream(self, request: h11.Request) -> None:
        if asks_for_websocket(request):
            socket = WebSocket(self.app, self.config, self.task_group, self.client, self.server, self.stream_send)
            self.stream = cast("WSStream", socket)
            self.connection = H11WSConnection(self._parser)  # from here on, bytes are frames
        else:
            self.stream = HTTPStream(
                self.app,
                self.config,
                self.context,
                self.task_group,
                self.ssl,
                self.client,
                self.server,
                self.stream_send,
                STREAM_ID,
            )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    async def _send_error_response(self, status_code: int) -> None:
        flaw = self._parser.flaw
        self._complain(flaw)
        title = HTTPStatus(status_code).phrase
        detail = f"not valid HTTP/1.1: {flaw}"
        problem = Problem(title=title, status=status_code, code="bad_request", detail=detail)
        reply = Response(status_code, msgspec.json.encode(problem), PROBLEM, ((b"connection", b"close"),))
        await self._send_h11_event(h11.Response(status_code=status_code, headers=head_of(reply)))
        if not self._parser.without_body:
            await self._send_h11_event(h11.Data(data=reply.body))
        await self._send_h11_event(h11.EndOfMessage())
