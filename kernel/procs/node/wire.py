"""Frames over the transport of a session: each frame is a length and a body in MessagePack.

A broken transport or an invalid frame ends the session. No frame is sent again.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, TypeVar

import msgspec
import trio

from kernel.procs.spec import ChildStream
from protocol import node
from protocol.ndjson import LineTooLong

RECEIVE_BYTES: Final = 128 * 1024
BATCH_BYTES: Final = 64 * 1024
LENGTH_BYTES: Final = 4
Frame = TypeVar("Frame")
BROKEN: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Exceptions that a broken transport raises."""
_encoder: Final = msgspec.msgpack.Encoder()
_greetings: Final[msgspec.msgpack.Decoder[node.Greeting]] = msgspec.msgpack.Decoder(node.Greeting)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that the decoder raises for an invalid body."""


class Garbled(Exception):
    """The other side sent an invalid frame: its transport is unusable."""


def describe(error: Exception) -> str:
    """Return the reason of a broken transport as text."""
    return str(error) or type(error).__name__


def pack(frame: msgspec.Struct) -> bytes:
    """Encode a frame. Raises LineTooLong."""
    body = _encoder.encode(frame)
    if len(body) > node.FRAME_LIMIT_BYTES:
        raise LineTooLong(f"a {type(frame).__name__} frame of {len(body)} bytes exceeds {node.FRAME_LIMIT_BYTES}")
    return len(body).to_bytes(LENGTH_BYTES) + body


class Unpacker:
    """Splitter of chunks into frame bodies. Buffers at most one body, of limited size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes | bytearray) -> Iterator[bytes]:
        """Yield the bodies that ``chunk`` completes. Raises Garbled."""
        self._buffer += chunk
        at = 0
        try:
            while len(self._buffer) - at >= LENGTH_BYTES:
                length = int.from_bytes(self._buffer[at : at + LENGTH_BYTES])
                if length > node.FRAME_LIMIT_BYTES:
                    raise Garbled(f"a frame of {length} bytes exceeds the limit of {node.FRAME_LIMIT_BYTES}")
                end = at + LENGTH_BYTES + length
                if len(self._buffer) < end:
                    return
                body = bytes(self._buffer[at + LENGTH_BYTES : end])
                at = end
                yield body
        finally:
            del self._buffer[:at]


async def read_greeting(transport: trio.abc.Stream, unpacker: Unpacker, first: bytes = b"") -> node.Greeting | None:
    """Return the first frame, whose start is ``first``; None if the transport ends before. Raises Garbled."""
    chunk = first
    while True:
        for body in unpacker.feed(chunk):
            return decoded(_greetings, body)
        chunk = bytes(await transport.receive_some(RECEIVE_BYTES))
        if not chunk:
            return None


def decoded(decoder: msgspec.msgpack.Decoder[Frame], body: bytes) -> Frame:
    """Decode the frame. Raises Garbled."""
    try:
        return decoder.decode(body)
    except _UNREADABLE as error:
        raise Garbled(f"a frame cannot be decoded: {error}") from error


class NodeWire:
    """One side of a session: frames are sent in order, except that beats and echoes go first."""

    def __init__(self, frames: Hashable) -> None:
        """Set up the wire; ``frames`` is the union of the frames that the other side may send."""
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(frames)
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._urgent: bytes | None = None
        self._stirred = trio.lowlevel.ParkingLot()
        self._roomy = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._why = "the session has ended"
        self.over = False
        """Whether further frames are dropped."""

    def say(self, frame: msgspec.Struct) -> None:
        """Queue a frame to send. Raises LineTooLong."""
        if self.over:
            return
        data = pack(frame)
        self._queue.append(data)
        self._queued_bytes += len(data)
        if self._queued_bytes > node.QUEUE_LIMIT_BYTES:
            self.end(f"the other side does not read: {node.QUEUE_LIMIT_BYTES} bytes are queued")
        self._stirred.unpark_all()

    def say_now(self, frame: node.Beat | node.Echo) -> None:
        """Queue a beat or an echo before all other frames, in place of an unsent one."""
        self._urgent = pack(frame)
        self._stirred.unpark_all()

    @property
    def has_room(self) -> bool:
        """Return whether channel data may be sent."""
        return self.over or self._queued_bytes < node.QUEUE_WINDOW_BYTES

    async def room(self) -> None:
        """Wait until ``has_room``."""
        while not self.has_room:
            await self._roomy.park()

    def end(self, why: str = "the session has ended") -> None:
        """Stop sending and receiving."""
        if not self.over:
            self.over, self._why = True, why
            self._scope.cancel()
            self._roomy.unpark_all()

    async def speak(
        self, transport: trio.abc.Stream, unpacker: Unpacker, take: Callable[[Any], None], first: bytes = b""
    ) -> str:
        """Send and receive frames over ``transport`` until it breaks. Returns the reason.

        ``unpacker`` may already contain received bytes. ``first`` is sent before all frames.
        ``take`` is called with each received frame; it must not wait, and raises Garbled.
        """
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, transport, first)
                self.end(await self._read(transport, unpacker, take))
        self.end()
        return self._why

    async def _write(self, transport: trio.abc.Stream, first: bytes) -> None:
        try:
            await transport.send_all(first)
            while True:
                urgent, self._urgent = self._urgent or b"", None
                batch, size = [urgent], 0
                while self._queue and size < BATCH_BYTES:
                    batch.append(self._queue.popleft())
                    size += len(batch[-1])
                if urgent or size:
                    await transport.send_all(b"".join(batch))
                    self._queued_bytes -= size
                    self._roomy.unpark_all()
                else:
                    await self._stirred.park()
        except BROKEN as error:
            self.end(f"it broke: {describe(error)}")

    async def _read(self, transport: trio.abc.Stream, unpacker: Unpacker, take: Callable[[Any], None]) -> str:
        chunk: bytes | bytearray = b""  # the unpacker's content comes first
        try:
            while True:
                for body in unpacker.feed(chunk):
                    take(decoded(self._decoder, body))
                    if self.over:
                        return self._why
                chunk = await transport.receive_some(RECEIVE_BYTES)
                if not chunk:
                    return "closed by the other side"
        except BROKEN as error:
            return f"it broke: {describe(error)}"
        except Garbled as error:
            return str(error)


GRANT_BYTES: Final = node.CHANNEL_WINDOW_BYTES // 2
"""Number of bytes that the reader reads before it grants the writer credit for as many."""


class NodeChannel(trio.abc.HalfCloseableStream, ChildStream):
    """A byte stream over a wire with credit: each side buffers at most CHANNEL_WINDOW_BYTES.

    One task may write and one may read at a time. A slow reader blocks only the writer of this stream.
    """

    def __init__(self, number: int, wire: NodeWire, *, reads: bool = True) -> None:
        """Set up the channel; ``reads``: the other side may send bytes."""
        self._number = number
        self._wire = wire
        self._credit = node.CHANNEL_WINDOW_BYTES
        self._allowed = node.CHANNEL_WINDOW_BYTES if reads else 0
        self._arrived = bytearray()
        self._read = 0
        self._changed = trio.lowlevel.ParkingLot()
        self._said_end = self._heard_end = self._closed = self._left = False

    @property
    def is_over(self) -> bool:
        """Return whether no more bytes can be received or sent."""
        return self._closed and self._left

    def take(self, frame: node.ChannelFrame) -> None:
        """Process a frame that the other side sent for this channel. Raises Garbled."""
        if isinstance(frame, node.Data):
            if self._heard_end or self._left or len(frame.data) > self._allowed:
                raise Garbled(f"channel {self._number} received unexpected bytes")
            self._allowed -= len(frame.data)
            if not self._closed:
                self._arrived += frame.data  # at most the credit that was granted
        elif isinstance(frame, node.Credit):
            if self._credit + frame.size > node.CHANNEL_WINDOW_BYTES:  # would let this side send without limit
                raise Garbled(f"channel {self._number} received credit for bytes that were not sent")
            self._credit += frame.size
        elif self._left or (self._heard_end and isinstance(frame, node.End)):
            raise Garbled(f"channel {self._number} ended twice")
        else:
            self._heard_end = True
            self._left = isinstance(frame, node.Close)
        self._changed.unpark_all()

    def fail(self) -> None:
        """Note that the session is over: received bytes can still be read, followed by the end."""
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
                size = min(len(rest), self._credit, node.CHUNK_BYTES)
                self._credit -= size
                self._wire.say(node.Data(channel=self._number, data=bytes(rest[:size])))
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
            self._wire.say(node.End(channel=self._number))
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        while not (self._arrived or self._heard_end or self._left or self._closed):
            await self._changed.park()
        if self._closed:
            raise trio.ClosedResourceError
        size = min(len(self._arrived), max_bytes or node.CHUNK_BYTES)
        data = bytes(self._arrived[:size])
        del self._arrived[:size]
        self._read += size
        if self._read >= GRANT_BYTES and not (self._heard_end or self._left):
            self._wire.say(node.Credit(channel=self._number, size=self._read))
            self._allowed += self._read
            self._read = 0
        return data

    def close(self) -> None:
        """Stop reading and writing, and notify the other side."""
        if not self._closed:
            self._closed = True
            self._arrived.clear()
            self._wire.say(node.Close(channel=self._number))
            self._changed.unpark_all()

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()
