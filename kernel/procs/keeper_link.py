"""The kernel's end of a keeper's lifeline. As long as it is open, the keeper's tree may live."""

from collections import deque
from contextlib import suppress

import trio

from protocol.codec import FrameReader, encode
from protocol.ipc import Exited, Fork, KeeperFrame, Kill, Started


class KeeperLink:
    """Frames to and from one keeper. One task receives at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._frames: FrameReader[KeeperFrame] = FrameReader(KeeperFrame)
        self._arrived: deque[KeeperFrame] = deque()

    async def receive(self) -> KeeperFrame | None:
        """The next report; None once the keeper is gone. Cancellation loses nothing."""
        while not self._arrived:
            try:
                chunk = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not chunk:
                return None
            self._arrived.extend(
                frame for frame in self._frames.feed(bytes(chunk)) if isinstance(frame, Started | Exited)
            )
        return self._arrived.popleft()

    async def send(self, frame: Fork | Kill) -> None:
        """Tell the keeper; one that is gone needs no telling, its end is seen by ``receive``."""
        try:
            await self._stream.send_all(encode(frame))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()

    async def hang_up(self) -> None:
        """Have the keeper kill its tree, and return when it is gone. Call ``close`` afterwards."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()
        while await self.receive() is not None:
            pass

    def close(self) -> None:
        """Let go: a keeper that still has a tree kills it."""
        self._stream.socket.close()
