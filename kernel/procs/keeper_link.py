"""The kernel's end of a keeper's lifeline, and the keepers that wait to serve again.

As long as the lifeline is open, the keeper's tree may live. Without spare keepers and a standby worker (``spawn``) each
attempt forks a keeper and a worker first, and from message to reply takes 1.8 times as long (measured in alternating
runs; a fork costs some 2 ms of page copies). ``DirectoryPool`` (``attempt_dir``) does the same for run directories.

Measure: ``scripts/bench replies workers``. The plain way is the exec launcher, which has none of it: run the same with
``AGENT_WORKER_LAUNCHER=exec``; ``tests/e2e/test_kernel_life.py`` runs messages so.
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
"""How many wait at once; each holds a few hundred KiB of its own."""
ORDERS: Final = 256
"""After this many a keeper is replaced: what leaks in it, if anything does, does not add up."""
IDLE_SECONDS: Final = 10.0


class KeeperLink:
    """Frames to and from one keeper. One task receives at a time.

    ``spare`` takes the link of a keeper that has seen its tree gone and may serve again; without it, that keeper ends.
    """

    def __init__(self, end: socket.socket, spare: "Callable[[KeeperLink], None] | None" = None) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
        self._end = end
        """The same, for what takes no turn of the event loop more than it has to."""
        self._sending = trio.Lock()
        self._spare = spare
        self.served = 0
        """Orders given after the first."""
        self._frames: FrameReader[KeeperFrame] = FrameReader(KeeperFrame)
        self._arrived: deque[KeeperFrame] = deque()

    async def receive(self) -> KeeperFrame | None:
        """The next report; None once the keeper is gone. Cancellation loses nothing."""
        while not self._arrived:
            if self._end.fileno() < 0:
                return None
            try:
                await trio.lowlevel.wait_readable(self._end)
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
        """Tell the keeper; one that is gone needs no telling, its end is seen by ``receive``."""
        try:
            async with self._sending:
                await self._stream.send_all(encode(frame))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()

    async def hang_up(self) -> None:
        """Have the keeper kill its tree, and return when it is gone. Call ``close`` afterwards."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()
        while await self.receive() is not None:
            pass

    async def order(self, order: Fork, theirs: PipeEnds) -> None:
        """Give a keeper whose tree is gone the next order, a worker's. One that is gone shows in ``receive``."""
        fds = array("i", [theirs.stdin, theirs.stdout, theirs.stderr])
        data, rights = [encode(order)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
        self.served += 1
        try:
            try:
                self._end.sendmsg(data, rights)
            except BlockingIOError:
                await self._stream.socket.sendmsg(data, rights)
        except (OSError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()
        except BaseException:
            self.close()
            raise

    def is_quiet(self) -> bool:
        """Return whether its keeper has nothing to report: neither an end, nor its own."""
        if self._arrived or self._end.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return not poll.poll(0)

    def export(self) -> tuple[int, bytes]:
        """Return its descriptor, and what was read of it and nobody has heard."""
        return self._end.fileno(), b"".join(map(encode, self._arrived)) + self._frames.pending

    def let_go(self) -> int:
        """Have the descriptor be nobody's of this program, and leave it open. Returns it."""
        self._spare = None
        return self._end.detach()

    @classmethod
    def adopted(cls, descriptor: int, heard: bytes) -> "KeeperLink":
        """The link that another program of this kernel has had."""
        link = cls(socket.socket(fileno=descriptor))
        link._take(heard)
        return link

    def free(self) -> None:
        """Its tree is gone, as it said itself: have it serve again if somebody wants it to, or else end."""
        if self._spare is not None:
            self._spare(self)
        else:
            self.close()

    def close(self) -> None:
        """Let go: a keeper that still has a tree kills it."""
        self._spare = None
        self._stream.socket.close()


class KeeperPool:
    """The spare keepers of one zygote, last in first out.

    A keeper has one order at most, and has seen every process of the last one gone before it takes another.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, KeeperLink]] = deque()
        self._parked = trio.Event()
        self._closed = False

    def park(self, link: KeeperLink) -> None:
        """Keep the keeper for another order, or have it end."""
        if self._closed or len(self._waiting) >= MOST or link.served >= ORDERS:
            link.close()
            return
        self._waiting.append((trio.current_time(), link))
        self._parked.set()

    def take(self) -> KeeperLink | None:
        """One that has served, if there is any. It may be killed at any time: then it answers nothing."""
        while self._waiting:
            link = self._waiting.pop()[1]
            if link.is_quiet():
                return link
            link.close()
        return None

    async def thin_out(self) -> None:
        """End those that had nothing to do for IDLE_SECONDS. Runs until cancelled."""
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
        """End all that wait, and each that comes back."""
        self._closed = True
        while self._waiting:
            self._waiting.pop()[1].close()
