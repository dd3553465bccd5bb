"""HTTP/1.1 connection on a Trio stream, with deadlines of its own, and the tasks that answer its requests.

hypercorn's own TCPServer writes inside a shield without a deadline: a client that stops reading then holds the
server open for ever, shutdown included. It also knows no deadline for headers, starts a task per request just to
notice that a connection is idle, and hands the parts of a request over through a channel that gives up the loop at
every step: together more than our own work on it. Here the deadlines are on the two awaits there are, and whoever
need not wait goes on at once.
"""

import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope
from hypercorn.utils import parse_socket_addr

from kernel.api.strict_http import Http1
from kernel.procs.procfs import AcceptedConnection

logger = logging.getLogger(__name__)

HEADERS_SECONDS: Final = 10.0
"""From the first byte of a request to the end of its headers (fault HF09)."""
STALLED_SECONDS: Final = 10.0
"""For a client that leaves its receive buffer full, before it is dropped (fault HF11)."""
RECEIVE_BYTES: Final = 2**16
UNREAD_BYTES: Final = 2**20
"""Thrown away at a close: closing on unread bytes makes TCP reset, and the last answer would be lost."""
HEAD: Final = b"HTTP/1.1 "
INFORMATIONAL: Final = b"HTTP/1.1 1"

WAITING_PARTS: Final = 10
"""More parts than these stay in the socket, so that a client is held up and not its body kept."""
WAITING_MESSAGES: Final = 1
"""Of a WebSocket, each of which may be long."""
_ENDS: Final = ("http.disconnect", "websocket.disconnect")
RECEIVE_QUEUE: Final = "agent_worker.receive_queue"
"""Key of the ASGI scope for the ReceiveQueue of a request."""
ADMITTED: Final = "agent_worker.admitted"
"""Key of the ASGI scope for the callback that takes the holder of a token, once that was found valid."""
WIRE: Final = "agent_worker.wire"
"""Key of the ASGI scope for the function that gives the connection as the system knows it; None once it is closed."""

NODE: Final = "agent_worker.node"
"""Key of the ASGI scope for the name of the node that carries the connection; "" for one of this machine."""

_Send = Callable[[ASGISendEvent | None], Awaitable[None]]


class ReceiveQueue:
    """Parts of one request, in their order, from the task that reads the connection to the one that answers.

    ``most`` wait at a time.
    """

    def __init__(self, most: int = WAITING_PARTS) -> None:
        self._most = most
        self._parts: deque[ASGIReceiveEvent] = deque()
        self._reader = trio.lowlevel.ParkingLot()
        self._writer = trio.lowlevel.ParkingLot()
        self._closed = False
        self._leave: Callable[[], None] | None = None

    async def put(self, part: ASGIReceiveEvent) -> None:
        """Add a part; wait while there are too many, but with the end. One that nobody will read is dropped."""
        while len(self._parts) >= self._most and not self._closed and part["type"] not in _ENDS:
            await self._writer.park()
        if not self._closed:
            self._parts.append(part)
            self._reader.unpark()
            if self._leave is not None and part["type"] == "http.disconnect":
                self._leave()

    async def receive(self) -> ASGIReceiveEvent:
        """The next part, as ASGI's ``receive``."""
        while not self._parts:
            await self._reader.park()
        self._writer.unpark()
        return self._parts.popleft()

    def whole(self) -> bytes | None:
        """Take the body of a request that nobody has read from, if all of it is there already; else None."""
        if not self._parts or self._parts[-1].get("more_body", True):
            return None
        body = b"".join(part["body"] for part in self._parts if part["type"] == "http.request")
        self._parts.clear()
        self._writer.unpark()
        return body

    @contextmanager
    def leaving(self, leave: Callable[[], None]) -> Generator[None]:
        """While the block lasts, ``leave`` is called once the client is gone: at once, where it is."""
        if any(part["type"] == "http.disconnect" for part in self._parts):
            leave()
        self._leave = leave
        try:
            yield
        finally:
            self._leave = None

    def close(self) -> None:
        """Nobody reads any more."""
        self._closed = True
        self._parts.clear()
        self._writer.unpark_all()


class RequestTasks(TaskGroup):
    """The tasks of a connection, as hypercorn's protocols want them. ``admitted``, ``wire``: see ADMITTED, WIRE."""

    def __init__(
        self, admitted: Callable[[str], None], wire: Callable[[], AcceptedConnection | None], node: str = ""
    ) -> None:
        super().__init__()
        self._node = node
        self._admitted = admitted
        self._wire = wire

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: _Send
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Answer the request of ``scope`` in a task of its own; returns the function that takes its parts."""
        assert self._nursery is not None, "requests come while the group is open"
        queue = ReceiveQueue(WAITING_MESSAGES if scope["type"] == "websocket" else WAITING_PARTS)
        cast("dict[str, Any]", scope).update(
            {RECEIVE_QUEUE: queue, ADMITTED: self._admitted, WIRE: self._wire, NODE: self._node}
        )
        self._nursery.start_soon(answer, app, scope, queue, send)
        return queue.put


async def answer(app: AppWrapper, scope: Scope, queue: ReceiveQueue, send: _Send) -> None:
    """Have ``app`` answer one request, to its end."""
    try:
        await app(scope, queue.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
    except Exception:
        logger.exception("request.failed")
    finally:
        queue.close()
        await send(None)


@dataclass(slots=True, eq=False)
class Connection:
    """Serves requests on ``stream`` until either side closes. ``run`` never outlives ``abort``."""

    app: AppWrapper
    config: Config
    context: WorkerContext
    stream: trio.SocketStream
    asked_by: "Callable[[Connection, str], None]"
    """Called with itself and the holder of the token for each request that carried a valid one."""
    complain: Callable[[str], None]
    begun: bytes = b""
    """Read already."""
    node: str = ""
    """The node that carries it."""
    idle: bool = field(init=False, default=True)
    """No request is under way."""
    fresh: bool = field(init=False, default=False)
    """Nothing was read of it: its first request may be on its way."""
    _protocol: Http1 = field(init=False)
    _sending: trio.Lock = field(init=False, default_factory=trio.Lock)
    _reading: trio.CancelScope = field(init=False, default_factory=trio.CancelScope)
    _deadline: float = field(init=False, default_factory=lambda: trio.current_time() + HEADERS_SECONDS)
    _head: bytes = field(init=False, default=b"")
    """The head of a response, which goes out with the first of its body: one packet, one system call."""

    def __post_init__(self) -> None:
        self.fresh = not self.begun

    async def run(self) -> None:
        """Serve. Errors of the network end it quietly. Cancellation: the connection is closed."""
        try:
            data = self.begun or await self._next()
            self.fresh = False
            if data:  # until somebody asks something, a connection costs a task and no more
                socket = self.stream.socket
                client = parse_socket_addr(socket.family, socket.getpeername())
                server = parse_socket_addr(socket.family, socket.getsockname())
                async with RequestTasks(self._admitted, self._wire, self.node) as group:
                    self._protocol = Http1(
                        self.app, self.config, self.context, group, client, server, self._send, self.complain
                    )
                    while data:
                        between_requests = self.idle
                        if between_requests:
                            self._deadline = min(self._deadline, trio.current_time() + HEADERS_SECONDS)
                        await self._protocol.handle(RawData(data))
                        if self.idle and not between_requests:  # it came during an answer, and may begin a request
                            self._deadline = trio.current_time() + HEADERS_SECONDS
                        data = await self._next()
                    await self._protocol.handle(Closed())
        except OSError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await self.stream.aclose()

    def _admitted(self, holder: str) -> None:
        self.asked_by(self, holder)

    def _wire(self) -> AcceptedConnection | None:
        with suppress(OSError):
            there = self.stream.socket
            client, server, ours = there.getpeername(), there.getsockname(), os.fstat(there.fileno())
            return AcceptedConnection(client[:2], server[:2], ours.st_ino)
        return None

    def leave(self) -> None:
        """Close now if no request is under way."""
        if self.idle:
            self._reading.deadline = self._deadline = -1.0

    def abort(self) -> None:
        """Close at once, in the middle of whatever is being written."""
        self.stream.socket.close()

    async def _next(self) -> bytes:
        """Read the next bytes; b"" at the end, at the deadline, and once we have closed: after what was no request."""
        gone = suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError)
        with trio.CancelScope(deadline=self._deadline) as self._reading, gone:
            while self.stream.socket.fileno() >= 0:
                await trio.lowlevel.wait_readable(self.stream.socket)  # first: it is hardly ever there already
                with suppress(BlockingIOError):
                    return os.read(self.stream.socket.fileno(), RECEIVE_BYTES)
        return b""

    async def _send(self, event: Event) -> None:
        match event:
            case RawData(data=data):
                if data.startswith(HEAD) and not data.startswith(INFORMATIONAL):
                    self._head += data
                else:
                    await self._write(data)
            case Updated(idle=idle):
                self.idle = idle
                self._deadline = trio.current_time() + self.config.keep_alive_timeout if idle else float("inf")
                self._reading.deadline = self._deadline
            case Closed():
                # Shielded: what sends is cancelled when it hears of the end, and that is the task we are in.
                with trio.CancelScope(shield=True):
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                        await self.stream.send_eof()
                    unread = UNREAD_BYTES
                    with suppress(OSError):  # none is left, or the client has gone
                        while unread > 0 and (data := os.read(self.stream.socket.fileno(), RECEIVE_BYTES)):
                            unread -= len(data)
                    await self.stream.aclose()
                await self._protocol.handle(Closed())
            case _:
                pass

    async def _write(self, data: bytes) -> None:
        """Write a head that waits and all of ``data``, also while being cancelled: half a chunk would look whole."""
        later_part, data, self._head = not self._head, self._head + data, b""
        if not data:
            return
        if not self._sending.locked():
            with suppress(OSError):  # what cannot be written at once is waited for
                data = data[os.write(self.stream.socket.fileno(), data) :]
        if not data:
            if later_part:
                await trio.lowlevel.cancel_shielded_checkpoint()  # a long answer leaves the others their turn
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STALLED_SECONDS) as patience:
            async with self._sending:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.stream.send_all(data)
                    return
        if patience.cancelled_caught:
            self.abort()
        await self._protocol.handle(Closed())
