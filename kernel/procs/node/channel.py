"""One end of a channel: bytes with credit, so that neither side holds more of them than CHANNEL_WINDOW_BYTES.

A reader that does not read stops its own writer, and no other.
"""

from typing import Final

import trio

from kernel.procs.node.wire import Garbled, Wire
from kernel.procs.spec import ChildInput, ChildOutput
from protocol.node import CHANNEL_WINDOW_BYTES, CHUNK_BYTES, ChannelFrame, Close, Credit, Data, End

GRANT_BYTES: Final = CHANNEL_WINDOW_BYTES // 2
"""Read since the last grant: then the writer is given credit for as much."""


class Channel(trio.abc.HalfCloseableStream, ChildInput, ChildOutput):
    """A stream of bytes over a wire. One task writes and one reads at a time."""

    def __init__(self, number: int, wire: Wire, *, reads: bool = True) -> None:
        """``reads``: bytes may come from the other side."""
        self._number = number
        self._wire = wire
        self._credit = CHANNEL_WINDOW_BYTES
        self._allowed = CHANNEL_WINDOW_BYTES if reads else 0
        self._arrived = bytearray()
        self._read = 0
        self._changed = trio.lowlevel.ParkingLot()
        self._said_end = self._heard_end = self._closed = self._left = False

    @property
    def is_over(self) -> bool:
        """Return whether nothing more can come, or go."""
        return self._closed and self._left

    def take(self, frame: ChannelFrame) -> None:
        """Have a frame of the other side take effect. Raises Garbled."""
        if isinstance(frame, Data):
            if self._heard_end or self._left or len(frame.data) > self._allowed:
                raise Garbled(f"channel {self._number} carries bytes that nobody asked for")
            self._allowed -= len(frame.data)
            if not self._closed:
                self._arrived += frame.data
        elif isinstance(frame, Credit):
            if self._credit + frame.size > CHANNEL_WINDOW_BYTES:
                raise Garbled(f"channel {self._number} is given credit for bytes that it never had")
            self._credit += frame.size
        elif self._left or (self._heard_end and isinstance(frame, End)):
            raise Garbled(f"channel {self._number} has ended twice")
        else:
            self._heard_end = True
            self._left = isinstance(frame, Close)
        self._changed.unpark_all()

    def fail(self) -> None:
        """Note that the other side is gone: what has arrived can be read, and then there is an end."""
        self._left = True
        self._changed.unpark_all()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See SendStream."""
        rest = memoryview(data)
        while True:
            if self._closed or self._said_end:
                raise trio.ClosedResourceError
            if self._left:
                raise trio.BrokenResourceError
            if not rest:
                return
            if not self._wire.has_room:
                await self._wire.room()
            elif self._credit <= 0:
                await self._changed.park()
            else:
                size = min(len(rest), self._credit, CHUNK_BYTES)
                self._credit -= size
                self._wire.say(Data(channel=self._number, data=bytes(rest[:size])))
                rest = rest[size:]

    async def wait_send_all_might_not_block(self) -> None:
        """See SendStream."""
        await self._wire.room()
        while self._credit <= 0 and not (self._closed or self._left):
            await self._changed.park()

    async def send_eof(self) -> None:
        """See HalfCloseableStream."""
        if not (self._said_end or self._closed or self._left):
            self._said_end = True
            self._wire.say(End(channel=self._number))
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        while not (self._arrived or self._heard_end or self._left or self._closed):
            await self._changed.park()
        if self._closed:
            raise trio.ClosedResourceError
        size = min(len(self._arrived), max_bytes or CHUNK_BYTES)
        data = bytes(self._arrived[:size])
        del self._arrived[:size]
        self._read += size
        if self._read >= GRANT_BYTES and not (self._heard_end or self._left):
            self._wire.say(Credit(channel=self._number, size=self._read))
            self._allowed += self._read
            self._read = 0
        return data

    def close(self) -> None:
        """Write and read no more, and tell the other side."""
        if not self._closed:
            self._closed = True
            self._arrived.clear()
            self._wire.say(Close(channel=self._number))
            self._changed.unpark_all()

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()
