"""The kernel's end of a keeper's lifeline, and the pool of idle keepers for reuse.

While the lifeline is open, the keeper's tree may run. Idle keepers and a standby worker (``spawn``)
save forks: without both, each attempt forks a keeper and a worker first, and takes 1.8 times as
long from message to reply (measured in alternating runs; page copies make a fork take some 2 ms).
``DirectoryPool`` (``attempt_dir``) reuses run directories for the same purpose.

Measure: ``scripts/bench replies workers``, and the same with ``AGENT_WORKER_LAUNCHER=exec``, which
reuses nothing; ``tests/e2e/test_kernel_life.py`` runs messages that way.
"""

import select
import socket
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from kernel.procs.spec import PipeEnds
from protocol.ipc import Bound, Census, Counted, Exited, Fork, KeeperFrame, Kill, Started
from protocol.ndjson import FrameReader, encode

RECEIVE_BYTES: Final = 2**16
MOST: Final = 32
"""Maximum number of idle keepers; each has a few hundred KiB of private memory."""
ORDERS: Final = 256
"""Number of orders after which a keeper is replaced, to limit the effect of leaks."""
IDLE_SECONDS: Final = 10.0


class KeeperLink:
    """Frames to and from one keeper. One task receives at a time.

    ``spare`` is called with this link when the tree has exited and the keeper can be reused; None: the keeper exits.
    """

    def __init__(self, end: socket.socket, spare: "Callable[[KeeperLink], None] | None" = None) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
        self._end = end
        """The same stream, without additional turns of the event loop."""
        self._sending = trio.Lock()
        self._spare = spare
        self.served = 0
        """Number of orders after the first."""
        self._frames: FrameReader[KeeperFrame] = FrameReader(KeeperFrame)
        self._arrived: deque[KeeperFrame] = deque()

    async def receive(self) -> KeeperFrame | None:
        """Return the keeper's next report, or None after the keeper has exited. Cancellation loses no report."""
        while not self._arrived:
            if self._end.fileno() < 0:  # closed by this side
                return None
            try:
                await trio.lowlevel.wait_readable(self._end)  # not the stream, whose cancelled read could lose bytes
                chunk = self._end.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except (OSError, trio.ClosedResourceError):
                return None
            if not chunk:
                return None
            self._take(chunk)
        return self._arrived.popleft()

    def _take(self, chunk: bytes) -> None:
        self._arrived.extend(one for one in self._frames.feed(chunk) if isinstance(one, Started | Counted | Exited))

    async def send(self, frame: Fork | Kill | Bound | Census) -> None:
        """Send a frame; ignored if the keeper has exited, which ``receive`` reports."""
        try:
            async with self._sending:
                await self._stream.send_all(encode(frame))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()

    async def hang_up(self) -> None:
        """Let the keeper kill its tree, and return when it has exited. Call ``close`` afterwards."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()  # the keeper kills its tree, and can still report
        while await self.receive() is not None:
            pass

    async def order(self, order: Fork, theirs: PipeEnds) -> None:
        """Send an idle keeper its next order, for a worker. If the keeper has died, ``receive`` returns None."""
        fds = array("i", [theirs.stdin, theirs.stdout, theirs.stderr])
        data, rights = [encode(order)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
        self.served += 1
        try:
            try:
                self._end.sendmsg(data, rights)  # first without the event loop: its buffer is empty
            except BlockingIOError:
                await self._stream.socket.sendmsg(data, rights)
        except (OSError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()
        except BaseException:
            self.close()
            raise

    def is_quiet(self) -> bool:
        """Return whether no report of the keeper is pending."""
        if self._arrived or self._end.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return not poll.poll(0)

    def export(self) -> tuple[int, bytes]:
        """Return the link's descriptor, and the bytes that were received but not yet processed."""
        return self._end.fileno(), b"".join(map(encode, self._arrived)) + self._frames.pending

    def let_go(self) -> int:
        """Detach the descriptor without closing it, and return it."""
        self._spare = None
        return self._end.detach()

    @classmethod
    def adopted(cls, descriptor: int, heard: bytes) -> "KeeperLink":
        """Return the link for ``descriptor``, which an earlier kernel process has used."""
        link = cls(socket.socket(fileno=descriptor))
        link._take(heard)
        return link

    def free(self) -> None:
        """After the keeper has reported that its tree has exited, pass it to ``spare``, or let it exit."""
        if self._spare is not None:
            self._spare(self)
        else:
            self.close()

    def close(self) -> None:
        """Close the connection. A keeper whose tree still runs kills the tree."""
        self._spare = None
        self._stream.socket.close()


class KeeperPool:
    """The idle keepers of one zygote, last in first out.

    A keeper has at most one order. It accepts the next one only after all processes of the last one have exited.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, KeeperLink]] = deque()
        self._parked = trio.Event()
        self._closed = False

    def park(self, link: KeeperLink) -> None:
        """Store the keeper for another order, or let it exit."""
        if self._closed or len(self._waiting) >= MOST or link.served >= ORDERS:
            link.close()
            return
        self._waiting.append((trio.current_time(), link))
        self._parked.set()

    def take(self) -> KeeperLink | None:
        """Return an idle keeper, or None. The keeper may have died: then its first report is None."""
        while self._waiting:
            link = self._waiting.pop()[1]
            if link.is_quiet():
                return link
            link.close()
        return None

    async def thin_out(self) -> None:
        """Stop keepers that have been idle for IDLE_SECONDS. Runs until cancelled."""
        while True:
            while self._waiting:
                since, link = self._waiting[0]
                if trio.current_time() < since + IDLE_SECONDS:
                    await trio.sleep_until(since + IDLE_SECONDS)
                else:
                    self._waiting.popleft()
                    link.close()
            self._parked = trio.Event()
            await self._parked.wait()

    def close(self) -> None:
        """Stop all idle keepers, and later each keeper that becomes idle."""
        self._closed = True
        while self._waiting:
            self._waiting.pop()[1].close()
