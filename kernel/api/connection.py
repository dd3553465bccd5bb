"""HTTP/1.1 connection on a Trio stream with deadlines, and the tasks that answer its requests.

hypercorn's own TCPServer writes inside a shield without a deadline, so a client that stops reading keeps the server
open forever, even during shutdown. It has no deadline for headers, starts a task per request only to notice idle
connections, and passes the parts of a request through a channel that yields at every step, which costs more than the
kernel's own work. Here, both awaits have deadlines, and available data is processed without a wait.
"""

import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
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
"""Seconds from the first byte of a request to the end of its headers (fault HF09)."""
STALLED_SECONDS: Final = 10.0
"""Seconds for a client with a full receive buffer, before it is disconnected (fault HF11)."""
RECEIVE_BYTES: Final = 2**16
UNREAD_BYTES: Final = 2**20
"""Bytes discarded at a close. Closing with unread bytes makes TCP reset the connection, and the last answer would be
lost."""
HEAD: Final = b"HTTP/1.1 "
INFORMATIONAL: Final = b"HTTP/1.1 1"

WAITING_PARTS: Final = 10
"""Maximum number of buffered parts. Further parts stay in the socket, which slows the client down."""
WAITING_MESSAGES: Final = 1
"""Maximum number of buffered WebSocket messages, which can be long."""
_ENDS: Final = ("http.disconnect", "websocket.disconnect")
RECEIVE_QUEUE: Final = "agent_worker.receive_queue"
"""Key of the ASGI scope for the ReceiveQueue of a request."""
ADMITTED: Final = "agent_worker.admitted"
"""Key of the ASGI scope for the callback that receives the holder of a valid token."""
WIRE: Final = "agent_worker.wire"
"""Key of the ASGI scope for the function that returns the system's view of the connection; None after the close."""

FLUSH: Final = "agent_worker.flush"
"""Key of the ASGI scope for the function that sends the head of a response before its body."""

RELEASE: Final = "agent_worker.release"
"""Key of the ASGI scope for the function that duplicates the connection's descriptor, and closes the connection."""

NODE: Final = "agent_worker.node"
"""Key of the ASGI scope for the name of the node that forwards the connection; "" on this machine."""

_Send = Callable[[ASGISendEvent | None], Awaitable[None]]


class ReceiveQueue:
    """Parts of one request in order, from the task that reads the connection to the task that
    answers. At most ``most`` parts are unread."""

    def __init__(self, most: int = WAITING_PARTS) -> None:
        self._most = most
        self._parts: deque[ASGIReceiveEvent] = deque()
        self._reader = trio.lowlevel.ParkingLot()
        self._writer = trio.lowlevel.ParkingLot()
        self._closed = False
        self._leave: Callable[[], None] | None = None

    async def put(self, part: ASGIReceiveEvent) -> None:
        """Add a part when there is room; a final part does not wait. After ``close``, drop it."""
        while len(self._parts) >= self._most and not self._closed and part["type"] not in _ENDS:
            await self._writer.park()
        if not self._closed:
            self._parts.append(part)
            self._reader.unpark()
            if self._leave is not None and part["type"] == "http.disconnect":
                self._leave()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next part, as ASGI's ``receive``."""
        while not self._parts:
            await self._reader.park()
        self._writer.unpark()
        return self._parts.popleft()

    def whole(self) -> bytes | None:
        """Take the complete body of an unread request if it has already arrived; otherwise return None."""
        if not self._parts or self._parts[-1].get("more_body", True):
            return None
        body = b"".join(part["body"] for part in self._parts if part["type"] == "http.request")
        self._parts.clear()
        self._writer.unpark()
        return body

    @contextmanager
    def leaving(self, leave: Callable[[], None]) -> Generator[None]:
        """Call ``leave`` when the client disconnects within the block, or immediately if it has disconnected."""
        if any(part["type"] == "http.disconnect" for part in self._parts):
            leave()
        self._leave = leave
        try:
            yield
        finally:
            self._leave = None

    def close(self) -> None:
        """Drop the unread parts and all further ones."""
        self._closed = True
        self._parts.clear()
        self._writer.unpark_all()


class RequestTasks(TaskGroup):
    """Tasks of a connection for hypercorn's protocols. ``more``: items for the ASGI scope of each request."""

    def __init__(self, more: Mapping[str, object]) -> None:
        super().__init__()
        self._more = more

    async def spawn_app(
        self, app: AppWrapper, config: Config, scope: Scope, send: _Send
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Answer the request of ``scope`` in a new task. Return the function that receives its parts."""
        assert self._nursery is not None, "requests come while the group is open"
        queue = ReceiveQueue(WAITING_MESSAGES if scope["type"] == "websocket" else WAITING_PARTS)
        cast("dict[str, Any]", scope).update({**self._more, RECEIVE_QUEUE: queue})
        self._nursery.start_soon(answer, app, scope, queue, send)
        return queue.put


async def answer(app: AppWrapper, scope: Scope, queue: ReceiveQueue, send: _Send) -> None:
    """Run ``app`` for one request, from its first part to the end of its answer."""
    try:
        await app(scope, queue.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
    except Exception:
        logger.exception("request.failed")
    finally:
        queue.close()
        await send(None)


@dataclass(slots=True, eq=False)
class Connection:
    """HTTP connection on ``stream`` until either side closes. After ``abort``, ``run`` returns."""

    app: AppWrapper
    config: Config
    context: WorkerContext
    stream: trio.SocketStream
    asked_by: "Callable[[Connection, str], None]"
    """Callback for each request with a valid token: the connection, and the token's holder."""
    complain: Callable[[str], None]
    begun: bytes = b""
    """Bytes of the first request that were read before."""
    node: str = ""
    """Node that forwards the connection."""
    idle: bool = field(init=False, default=True)
    """Whether no request is open."""
    fresh: bool = field(init=False, default=False)
    """Whether nothing was read yet, so that the first request may be in transit."""
    _protocol: Http1 = field(init=False)
    _sending: trio.Lock = field(init=False, default_factory=trio.Lock)
    _reading: trio.CancelScope = field(init=False, default_factory=trio.CancelScope)
    _deadline: float = field(init=False, default_factory=lambda: trio.current_time() + HEADERS_SECONDS)
    _head: bytes = field(init=False, default=b"")
    """Head of a response, sent with the first part of its body: one packet, one system call."""

    def __post_init__(self) -> None:
        self.fresh = not self.begun

    async def run(self) -> None:
        """Serve the connection. Network errors end it quietly. Cancellation: the connection is closed."""
        try:
            data = self.begun or await self._next()
            self.fresh = False
            if data:  # A connection without a request costs one task only.
                socket = self.stream.socket
                client = parse_socket_addr(socket.family, socket.getpeername())
                server = parse_socket_addr(socket.family, socket.getsockname())
                more = {
                    ADMITTED: partial(self.asked_by, self),
                    WIRE: self._wire,
                    FLUSH: self._write,
                    RELEASE: self._release,
                    NODE: self.node,
                }
                async with RequestTasks(more) as group:
                    self._protocol = Http1(
                        self.app, self.config, self.context, group, client, server, self._send, self.complain
                    )
                    while data:
                        between_requests = self.idle
                        if between_requests:
                            self._deadline = min(self._deadline, trio.current_time() + HEADERS_SECONDS)
                        await self._protocol.handle(RawData(data))
                        if self.idle and not between_requests:  # ``data`` may start a request.
                            self._deadline = trio.current_time() + HEADERS_SECONDS
                        data = await self._next()
                    await self._protocol.handle(Closed())
        except OSError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await self.stream.aclose()

    def _wire(self) -> AcceptedConnection | None:
        with suppress(OSError):
            there = self.stream.socket
            client, server, ours = there.getpeername(), there.getsockname(), os.fstat(there.fileno())
            return AcceptedConnection(client[:2], server[:2], ours.st_ino)
        return None

    def _release(self) -> int:
        descriptor = os.dup(self.stream.socket.fileno())
        self.abort()
        return descriptor

    def leave(self) -> None:
        """Close the connection if no request is open."""
        if self.idle:
            self._reading.deadline = self._deadline = -1.0

    def abort(self) -> None:
        """Close the connection immediately, even during a write."""
        self.stream.socket.close()

    async def _next(self) -> bytes:
        """Return the next bytes; b"" at the end, the deadline, or after an invalid request."""
        gone = suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError)
        with trio.CancelScope(deadline=self._deadline) as self._reading, gone:
            while self.stream.socket.fileno() >= 0:
                await trio.lowlevel.wait_readable(self.stream.socket)  # data is rarely ready
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
                # Shielded, because the end of the connection cancels the sending tasks.
                with trio.CancelScope(shield=True):
                    with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                        await self.stream.send_eof()
                    unread = UNREAD_BYTES
                    with suppress(OSError):  # No bytes are left, or the client has disconnected.
                        while unread > 0 and (data := os.read(self.stream.socket.fileno(), RECEIVE_BYTES)):
                            unread -= len(data)
                    await self.stream.aclose()
                await self._protocol.handle(Closed())
            case _:
                pass

    async def _write(self, data: bytes = b"") -> None:
        """Write a pending head and all of ``data``, also during cancellation: half a chunk would look complete."""
        later_part, data, self._head = not self._head, self._head + data, b""
        if not data:
            return
        if not self._sending.locked():
            with suppress(OSError):  # The system may take only a part, or nothing.
                data = data[os.write(self.stream.socket.fileno(), data) :]
        if not data:
            if later_part:
                await trio.lowlevel.cancel_shielded_checkpoint()  # A long answer lets other tasks run.
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STALLED_SECONDS) as patience:
            async with self._sending:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.stream.send_all(data)
                    return
        if patience.cancelled_caught:
            self.abort()
        await self._protocol.handle(Closed())
