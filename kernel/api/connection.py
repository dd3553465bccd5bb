"""HTTP/1.1 connection on a Trio stream, with deadlines of its own, and the tasks that answer its requests.

A client that stops reading must not hold the server open, shutdown included, nor one that never ends its headers: the
deadlines are on the two awaits there are. Whoever need not wait goes on at once, without a turn of the event loop.
"""

import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import trio

from kernel.api.asgi import App, Message
from kernel.api.strict_http import Exchange, Http1

logger = logging.getLogger(__name__)

HEADERS_SECONDS: Final = 10.0
"""From the first byte of a request to the end of its headers (fault HF09)."""
STALLED_SECONDS: Final = 10.0
"""For a client that leaves its receive buffer full, before it is dropped (fault HF11)."""
KEEP_ALIVE_SECONDS: Final = 75.0
HEADERS_LIMIT_BYTES: Final = 64 * 1024
RECEIVE_BYTES: Final = 2**16
UNREAD_BYTES: Final = 2**20
"""Thrown away at a close: closing on unread bytes makes TCP reset, and the last answer would be lost."""
HEAD: Final = b"HTTP/1.1 "
INFORMATIONAL: Final = b"HTTP/1.1 1"

WAITING_PARTS: Final = 10
"""More parts than these stay in the socket, so that a client is held up and not its body kept."""
RECEIVE_QUEUE: Final = "agent_worker.receive_queue"
"""Key of the ASGI scope for the ReceiveQueue of a request."""
ADMITTED: Final = "agent_worker.admitted"
"""Key of the ASGI scope for the callback that takes the holder of a token, once that was found valid."""


class ReceiveQueue:
    """Parts of one request, in their order, from the task that reads the connection to the one that answers."""

    def __init__(self) -> None:
        self._parts: deque[Message] = deque()
        self._reader = trio.lowlevel.ParkingLot()
        self._writer = trio.lowlevel.ParkingLot()
        self._closed = False
        self._leave: Callable[[], None] | None = None

    async def put(self, part: Message) -> None:
        """Add a part; wait while there are too many. One that nobody will read is dropped."""
        while len(self._parts) >= WAITING_PARTS and not self._closed:
            await self._writer.park()
        if not self._closed:
            self._parts.append(part)
            self._reader.unpark()
            if self._leave is not None and part["type"] == "http.disconnect":
                self._leave()

    async def receive(self) -> Message:
        """The next part, as ASGI's ``receive``."""
        while not self._parts:
            await self._reader.park()
        self._writer.unpark()
        return self._parts.popleft()

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


async def answer(app: App, exchange: Exchange, queue: ReceiveQueue) -> None:
    """Have ``app`` answer one request, to its end."""
    try:
        await app(exchange.scope, queue.receive, exchange.send)
    except Exception:
        logger.exception("request.failed")
    finally:
        queue.close()
        await exchange.send(None)


class Connection:
    """Serves requests on ``stream`` until either side closes. ``run`` never outlives ``abort``.

    Args:
        now_ms: the wall clock.
        last: returns whether no request is to follow the one under way.
        asked_by: called with itself and the holder of the token for each request that carried a valid one.
        complain: called with what was wrong with what is no request.
        begun: what was read already.
    """

    def __init__(
        self,
        app: App,
        stream: trio.SocketStream,
        *,
        now_ms: Callable[[], int],
        last: Callable[[], bool],
        asked_by: "Callable[[Connection, str], None]",
        complain: Callable[[str], None],
        begun: bytes = b"",
    ) -> None:
        self._app = app
        self._begun = begun
        self._stream = stream
        self._now_ms = now_ms
        self._last = last
        self._asked_by = asked_by
        self._complain = complain
        self._sending = trio.Lock()
        self._reading = trio.CancelScope()
        self._deadline = trio.current_time() + HEADERS_SECONDS
        self.idle = True
        """No request is under way."""
        self._head = b""
        """The head of a response, which goes out with the first of its body: one packet, one system call."""

    async def run(self) -> None:
        """Serve. Errors of the network end it quietly. Cancellation: the connection is closed."""
        try:
            data = self._begun or await self._next()
            if data:  # until somebody asks something, a connection costs a task and no more
                async with trio.open_nursery() as self._answering:
                    self._http = Http1(
                        self,
                        self._begin,
                        self._stream.socket.getpeername()[:2],
                        self._stream.socket.getsockname()[:2],
                        head_limit_bytes=HEADERS_LIMIT_BYTES,
                        now_ms=self._now_ms,
                        complain=self._complain,
                        last=self._last,
                    )
                    while data:
                        between_requests = self.idle
                        if between_requests:
                            self._deadline = min(self._deadline, trio.current_time() + HEADERS_SECONDS)
                        await self._http.receive(data)
                        if self.idle and not between_requests:  # it came during an answer, and may begin a request
                            self._deadline = trio.current_time() + HEADERS_SECONDS
                        data = await self._next()
                    await self._http.gone()
        except OSError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await self._stream.aclose()

    def _begin(self, exchange: Exchange) -> Callable[[Message], Awaitable[None]]:
        """Answer a request in a task of its own; returns the function that takes its parts."""
        queue = ReceiveQueue()
        exchange.scope.update({RECEIVE_QUEUE: queue, ADMITTED: self._admitted})
        self._answering.start_soon(answer, self._app, exchange, queue)
        return queue.put

    def _admitted(self, holder: str) -> None:
        """A request came with a valid token: ``holder``'s."""
        self._asked_by(self, holder)

    def leave(self) -> None:
        """Close now if no request is under way."""
        if self.idle:
            self._reading.deadline = self._deadline = -1.0

    def abort(self) -> None:
        """Close at once, in the middle of whatever is being written."""
        self._stream.socket.close()

    async def _next(self) -> bytes:
        """Read the next bytes; b"" at the end, at the deadline, and once we have closed: after what was no request."""
        gone = suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError)
        with trio.CancelScope(deadline=self._deadline) as self._reading, gone:
            while self._stream.socket.fileno() >= 0:
                await trio.lowlevel.wait_readable(self._stream.socket)  # first: it is hardly ever there already
                with suppress(BlockingIOError):
                    return os.read(self._stream.socket.fileno(), RECEIVE_BYTES)
        return b""

    def set_idle(self, idle: bool) -> None:
        """A request has begun, or the last one was answered."""
        self.idle = idle
        self._deadline = trio.current_time() + KEEP_ALIVE_SECONDS if idle else float("inf")
        self._reading.deadline = self._deadline

    async def close(self) -> None:
        """Close, after what was written."""
        # Shielded: Quart cancels the task that sends when it hears of the end, and that is the task we are in.
        with trio.CancelScope(shield=True):
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                await self._stream.send_eof()
            unread = UNREAD_BYTES
            with suppress(OSError):  # none is left, or the client has gone
                while unread > 0 and (data := os.read(self._stream.socket.fileno(), RECEIVE_BYTES)):
                    unread -= len(data)
            await self._stream.aclose()
        await self._http.gone()

    async def write(self, data: bytes) -> None:
        """Write a head that waits and all of ``data``, also while being cancelled: half a chunk would look whole."""
        if data.startswith(HEAD) and not data.startswith(INFORMATIONAL):
            self._head += data
            return
        later_part, data, self._head = not self._head, self._head + data, b""
        if data and not self._sending.locked():
            with suppress(OSError):  # what cannot be written at once is waited for
                data = data[os.write(self._stream.socket.fileno(), data) :]
        if not data:
            if later_part:
                await trio.lowlevel.cancel_shielded_checkpoint()  # a long answer leaves the others their turn
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STALLED_SECONDS) as patience:
            async with self._sending:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._stream.send_all(data)
                    return
        if patience.cancelled_caught:
            self.abort()
        await self._http.gone()
