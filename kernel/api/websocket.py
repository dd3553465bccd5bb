"""WebSocket (RFC 6455): the handshake, frames by wsproto, and refusals.

Replaces hypercorn's stream, which accepts frames before the handshake, decompresses messages
without a limit, does not answer a broken frame, and has a task for pings that outlives the
connection. The application uses the same ASGI messages, and ``websocket.ping`` to check whether the
client still responds. Only a valid handshake for ``/ws`` is upgraded.
"""

import binascii
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Final, cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.protocol.events import Body, Data, EndBody, Event, Request, Response, StreamClosed
from hypercorn.typing import AppWrapper, Scope, TaskGroup
from wsproto import events
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, generate_accept_token

WS_PATH: Final = "/ws"
MESSAGE_BYTES: Final = 256 * 1024
"""Maximum size of one message. Longer messages need POST."""
PONG_SECONDS: Final = 10.0
"""Seconds for the answer to a ping, before the client is considered dead at the next one."""
CLOSING_SECONDS: Final = 1.0
"""Seconds for the client to answer the close frame."""
_KEY_BYTES: Final = 16
_STREAM_ID: Final = 1

Put = Callable[[Any], Awaitable[None]]


def asks_for_websocket(request: h11.Request) -> bool:
    """Return whether ``request`` is a valid handshake for ``/ws``. Handshakes with a body are invalid."""
    if request.target.partition(b"?")[0] != WS_PATH.encode():
        return False
    fields: dict[bytes, list[bytes]] = {}
    for name, value in request.headers:
        fields.setdefault(name, []).append(value.strip())
    once = {name: values[0] for name, values in fields.items() if len(values) == 1}
    tokens = b",".join(fields.get(b"connection", [])).lower().split(b",")
    try:
        key = binascii.a2b_base64(once.get(b"sec-websocket-key", b""), strict_mode=True)
    except binascii.Error:
        return False
    return (
        request.method == b"GET"
        and request.http_version == b"1.1"
        and b"upgrade" in map(bytes.strip, tokens)
        and once.get(b"upgrade", b"").lower() == b"websocket"
        and once.get(b"sec-websocket-version") == b"13"
        and len(key) == _KEY_BYTES
        and b"transfer-encoding" not in fields
        and once.get(b"content-length", b"0").strip(b"0") == b""
    )


@dataclass(slots=True)
class WebSocket:
    """WebSocket as a stream of hypercorn's Http1, from the handshake to the end of the connection."""

    app: AppWrapper
    config: Config
    group: TaskGroup
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    send: Callable[[Event], Awaitable[None]]
    _key: bytes = field(init=False, default=b"")
    _put: Put | None = field(init=False, default=None)
    _wire: Connection | None = field(init=False, default=None)
    """None until the handshake is accepted."""
    _answered: bool = field(init=False, default=False)
    _closed: bool = field(init=False, default=False)
    _message: StringIO = field(init=False, default_factory=StringIO)
    _message_bytes: int = field(init=False, default=0)
    _pinged_at: float | None = field(init=False, default=None)
    """Time of an unanswered ping."""
    _gone: trio.Event = field(init=False, default_factory=trio.Event)

    async def handle(self, event: Event) -> None:
        """Process the request, the bytes of frames, or the end of the connection."""
        match event:
            case Request(headers=headers, raw_path=target):
                path, _, query = target.partition(b"?")
                self._key = next(value for name, value in headers if name == b"sec-websocket-key").strip()
                scope = {
                    "type": "websocket",
                    "path": path.decode("ascii"),
                    "query_string": query,
                    "headers": headers,
                    "client": self.client,
                    "server": self.server,
                    "method": "GET",
                }
                self._put = await self.group.spawn_app(self.app, self.config, cast("Scope", scope), self._from_app)
            case Data(data=data) if not self._closed:
                if self._wire is None:  # a client has to wait for the answer to its handshake
                    await self._end(CloseReason.PROTOCOL_ERROR)
                else:
                    self._wire.receive_data(data)
                    await self._take(self._wire)
            case StreamClosed():
                await self._leave(CloseReason.ABNORMAL_CLOSURE)
            case _:
                pass

    async def _take(self, wire: Connection) -> None:
        for event in wire.events():
            match event:
                case events.Message() if wire.state is not ConnectionState.OPEN:
                    pass  # received after our close frame
                case events.TextMessage(data=text, message_finished=finished):
                    self._message_bytes += len(text.encode())
                    if self._message_bytes > MESSAGE_BYTES:
                        await self._end(CloseReason.MESSAGE_TOO_BIG)
                        return
                    self._message.write(text)
                    if finished:
                        whole, self._message, self._message_bytes = self._message.getvalue(), StringIO(), 0
                        await self._tell({"type": "websocket.receive", "text": whole})
                case events.BytesMessage():
                    await self._end(CloseReason.UNSUPPORTED_DATA)
                    return
                case events.Ping():
                    await self._write(event.response())
                case events.Pong():
                    self._pinged_at = None
                case events.CloseConnection(code=code):
                    if wire.state is ConnectionState.REMOTE_CLOSING:
                        await self._write(event.response())
                        await self._finish(code)
                    elif wire.state is ConnectionState.OPEN:  # a broken frame: the code has the reason
                        await self._end(code)
                    else:
                        await self._finish(code)
                    return
                case _:
                    pass

    async def _from_app(self, message: Any) -> None:
        if self._closed:
            return
        if message is None:
            if not self._answered:
                await self._respond(500, [(b"content-length", b"0")])
                await self.send(EndBody(stream_id=_STREAM_ID))
            await self._end(CloseReason.INTERNAL_ERROR)
            return
        match message["type"]:
            case "websocket.accept":
                await self._accept(message.get("subprotocol"))
            case "websocket.http.response.start":
                await self._respond(message["status"], message["headers"])
            case "websocket.http.response.body":
                await self.send(Body(stream_id=_STREAM_ID, data=message["body"]))
                await self.send(EndBody(stream_id=_STREAM_ID))
                await self._finish(CloseReason.NORMAL_CLOSURE)
            case "websocket.send":
                await self._write(events.TextMessage(data=message["text"]))
            case "websocket.ping":
                now = trio.current_time()
                if self._pinged_at is None:
                    self._pinged_at = now
                    await self._write(events.Ping())
                elif now - self._pinged_at > PONG_SECONDS:  # the client does not answer
                    await self._finish(CloseReason.ABNORMAL_CLOSURE)
            case "websocket.close":
                await self._write(events.CloseConnection(code=message["code"]))
                with trio.move_on_after(CLOSING_SECONDS):
                    await self._gone.wait()
                    return
                await self._finish(CloseReason.NORMAL_CLOSURE)
            case unknown:
                raise ValueError(f"unknown message for a WebSocket: {unknown}")

    async def _accept(self, subprotocol: str | None) -> None:
        headers = [(b"upgrade", b"websocket"), (b"connection", b"Upgrade")]
        headers.append((b"sec-websocket-accept", generate_accept_token(self._key)))
        if subprotocol is not None:
            headers.append((b"sec-websocket-protocol", subprotocol.encode()))
        self._answered = True
        self._wire = Connection(ConnectionType.SERVER)  # no extension: compressed messages have no size limit
        await self.send(Response(stream_id=_STREAM_ID, status_code=101, headers=headers))

    async def _respond(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._answered = True
        fields = [*headers, (b"connection", b"close")]
        await self.send(Response(stream_id=_STREAM_ID, status_code=status, headers=fields))

    async def _write(self, event: events.Event) -> None:
        assert self._wire is not None, "nothing is written before it was accepted"
        try:
            data = self._wire.send(event)
        except LocalProtocolError:  # one side has already sent a close frame
            return
        await self.send(Data(stream_id=_STREAM_ID, data=data))

    async def _end(self, code: int) -> None:
        if self._wire is not None:
            await self._write(events.CloseConnection(code=code))
        await self._finish(code)

    async def _finish(self, code: int) -> None:
        await self._leave(code)
        await self.send(StreamClosed(stream_id=_STREAM_ID))

    async def _leave(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self._gone.set()
            await self._tell({"type": "websocket.disconnect", "code": int(code)})

    async def _tell(self, message: Any) -> None:
        if self._put is not None:
            await self._put(message)
