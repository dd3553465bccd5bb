"""The two ends of a channel: bytes with credit, so that nobody holds more of them than CHANNEL_WINDOW_BYTES.

A reader that does not read stops its own writer, and nobody else.
"""

from typing import Final, Protocol

import trio

from kernel.procs.node.framing import Garbled
from kernel.procs.spec import ChildInput, ChildOutput
from protocol.node import CHANNEL_WINDOW_BYTES, CHUNK_BYTES, Credit, Data, End, Shut

GRANT_BYTES: Final = CHANNEL_WINDOW_BYTES // 2
"""Read since the last grant: then the writer is given credit for as much."""


class Speaker(Protocol):
    """The side of a session that frames are given to."""

    def say(self, frame: Data | End | Shut | Credit) -> None:
        """Send it, once and in order, over this transport or the next one."""

    async def room(self) -> None:
        """Wait until bytes may be sent; at once where the session is no more."""


class Signal:
    """Something that others wait for, again and again."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()

    def announce(self) -> None:
        """Wake whoever waits now."""
        self._waiting.unpark_all()

    async def wait(self) -> None:
        """Wait for the next announcement."""
        await self._waiting.park()


class WritingEnd(ChildInput):
    """The end where bytes go in. One task writes at a time."""

    def __init__(self, channel: int, speaker: Speaker) -> None:
        self.channel = channel
        self._speaker = speaker
        self._credit = CHANNEL_WINDOW_BYTES
        self._changed = Signal()
        self._broken = False
        """Nobody reads, or the session is no more."""
        self.ended = False
        """The last frame about it was sent."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See SendStream."""
        rest = memoryview(data)
        while True:
            if self.ended:
                raise trio.BrokenResourceError if self._broken else trio.ClosedResourceError
            if not rest:
                return
            await self._speaker.room()
            if self._credit <= 0:
                await self._changed.wait()
            elif not self.ended:
                size = min(len(rest), self._credit, CHUNK_BYTES)
                self._credit -= size
                self._speaker.say(Data(channel=self.channel, data=bytes(rest[:size])))
                rest = rest[size:]

    async def wait_send_all_might_not_block(self) -> None:
        """See SendStream."""
        await self._speaker.room()
        while self._credit <= 0 and not self.ended:
            await self._changed.wait()

    def grant(self, size: int) -> None:
        """The reader has read ``size`` bytes. Raises Garbled if it had not been sent so many."""
        if self._credit + size > CHANNEL_WINDOW_BYTES:
            raise Garbled(f"channel {self.channel} is given credit for bytes that it never had")
        self._credit += size
        self._changed.announce()

    def close(self) -> None:
        """Say that there is no more."""
        if not self.ended:
            self.ended = True
            self._speaker.say(End(channel=self.channel))
            self._changed.announce()

    def shut(self) -> None:
        """Nobody reads it any more, over there."""
        self._broken = True
        self.close()

    def fail(self) -> None:
        """The session is no more."""
        self._broken = self.ended = True
        self._changed.announce()

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()


class ReadingEnd(ChildOutput):
    """The end where bytes come out. One task reads at a time. What is lost with its session looks like the end."""

    def __init__(self, channel: int, speaker: Speaker) -> None:
        self.channel = channel
        self._speaker = speaker
        self._arrived = bytearray()
        self._allowed = CHANNEL_WINDOW_BYTES
        self._read = 0
        self._changed = Signal()
        self._closed = False
        self.ended = False
        """The last frame about it came."""

    def feed(self, data: bytes) -> None:
        """Take in what came. Raises Garbled if there was no credit for it."""
        if self.ended or len(data) > self._allowed:
            raise Garbled(f"channel {self.channel} carries bytes that nobody asked for")
        self._allowed -= len(data)
        if not self._closed:
            self._arrived += data
            self._changed.announce()

    def end(self) -> None:
        """There is no more. Raises Garbled if that was said before."""
        if self.ended:
            raise Garbled(f"channel {self.channel} has ended twice")
        self.fail()

    def fail(self) -> None:
        """There is no more: it was said, or the session is no more."""
        self.ended = True
        self._changed.announce()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        while not self._arrived and not self.ended and not self._closed:
            await self._changed.wait()
        if self._closed:
            raise trio.ClosedResourceError
        size = min(len(self._arrived), max_bytes or CHUNK_BYTES)
        data = bytes(self._arrived[:size])
        del self._arrived[:size]
        self._read += size
        if self._read >= GRANT_BYTES and not self.ended:
            self._speaker.say(Credit(channel=self.channel, size=self._read))
            self._allowed += self._read
            self._read = 0
        return data

    def close(self) -> None:
        """Read no more. The writer is told, and answers with the end."""
        if not self._closed:
            self._closed = True
            self._arrived.clear()
            if not self.ended:
                self._speaker.say(Shut(channel=self.channel))
            self._changed.announce()

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()


class ConnectionEnd(trio.abc.HalfCloseableStream):
    """One side of a connection to the daemon's MCP: a channel of each direction."""

    def __init__(self, channel: int, speaker: Speaker) -> None:
        self.reading = ReadingEnd(channel, speaker)
        self.writing = WritingEnd(channel, speaker)

    @property
    def is_over(self) -> bool:
        """Return whether nothing more can come, or go."""
        return self.reading.ended and self.writing.ended

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See SendStream."""
        await self.writing.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """See SendStream."""
        await self.writing.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        return await self.reading.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """See HalfCloseableStream."""
        await self.writing.aclose()

    def close(self) -> None:
        """Close both directions now."""
        self.writing.close()
        self.reading.close()

    def fail(self) -> None:
        """The session is no more."""
        self.writing.fail()
        self.reading.fail()

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()
