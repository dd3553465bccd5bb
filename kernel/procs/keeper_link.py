"""The kernel's end of a keeper's lifeline. As long as it is open, the keeper's tree may live."""

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
