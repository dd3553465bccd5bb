"""A session's talk over one transport after the other: what is to be said goes out, what is heard takes effect once.

Either side of a session has one. A broken transport changes nothing but that it has to be opened anew.
"""

import logging
from collections.abc import Hashable
from typing import Any, Final

import msgspec
import trio

from kernel.procs.node.channels import Signal
from kernel.procs.node.framing import Garbled, Packet, Unpacker, pack
from kernel.procs.node.numbered import NumberedStream, Overfull
from protocol.ndjson import LineTooLong
from protocol.node import FRAME_LIMIT_BYTES, Greeting

logger = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 128 * 1024
BATCH_BYTES: Final = 64 * 1024
_encoder: Final = msgspec.msgpack.Encoder()
_greetings: Final[msgspec.msgpack.Decoder[Greeting]] = msgspec.msgpack.Decoder(Greeting)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of a decoder. Text that is no UTF-8 is none of msgspec's own."""


def greet(frame: Greeting) -> bytes:
    """A frame without a number as bytes: what comes before the conversation."""
    return pack(Packet(0, 0, _encoder.encode(frame)))


def read_greeting(body: bytes) -> Greeting:
    """Read a frame without a number. Raises Garbled."""
    try:
        return _greetings.decode(body)
    except _UNREADABLE as error:
        raise Garbled(f"a frame without a number is not understood: {error}") from error


def describe(error: Exception) -> str:
    """Return the reason in words."""
    return str(error) or type(error).__name__


class Listener:
    """A side of a session, as it takes in what it hears. Nothing is awaited: a frame takes effect whole."""

    def take(self, frame: Any) -> None:
        """Let a numbered frame take effect. Raises Garbled, and then it has none."""

    def notice(self, frame: Greeting) -> None:
        """Take in a frame of this moment. Raises Garbled."""

    def began(self) -> None:
        """A new transport is spoken over from now on."""

    def give_up(self, why: str) -> None:
        """The session cannot go on."""


class Conversation:
    """One side's talk. ``frames`` is the union of what the other side says."""

    def __init__(self, name: str, frames: Hashable, listener: Listener, silence_seconds: float) -> None:
        self.numbers = NumberedStream()
        self._name = name
        self._silence_seconds = silence_seconds
        self._heard_at = 0.0
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(frames)
        self._listener = listener
        self._urgent: dict[type[Greeting], bytes] = {}
        self._stirred = Signal()
        self._roomy = Signal()
        self._speaking: tuple[trio.CancelScope, trio.Event] | None = None
        self._lied_at = -1
        """What had been received when a frame was whole, in its turn, and not to be believed."""
        self.over = False
        """Nothing that is said from now on is of interest to anybody."""

    def say(self, frame: msgspec.Struct) -> None:
        """Send it, once and in order, over this transport or the next one. Raises LineTooLong."""
        if self.over:
            return
        body = _encoder.encode(frame)
        if len(body) > FRAME_LIMIT_BYTES:
            raise LineTooLong(f"a {type(frame).__name__} frame of {len(body)} bytes exceeds {FRAME_LIMIT_BYTES}")
        try:
            self.numbers.add(body)
        except Overfull as error:
            self._listener.give_up(str(error))
        self._stirred.announce()

    def say_now(self, frame: Greeting) -> None:
        """Send it before all others, over this transport or never. A newer one of its kind takes its place."""
        self._urgent[type(frame)] = _encoder.encode(frame)
        self._stirred.announce()

    async def room(self) -> None:
        """Wait until bytes may be sent; at once where the session is no more."""
        while not self.numbers.has_room and not self.over:
            await self._roomy.wait()

    def end(self) -> None:
        """Say and hear nothing more."""
        self.over = True
        self._roomy.announce()
        if self._speaking is not None:
            self._speaking[0].cancel()

    async def hush(self) -> None:
        """Have the transport that is spoken over be left, and return when it is."""
        if self._speaking is not None:
            scope, left = self._speaking
            scope.cancel()
            await left.wait()

    async def speak(self, transport: trio.abc.Stream, unpacker: Unpacker, their_received: int) -> str:
        """Go on over ``transport``, of which ``unpacker`` has read the beginning, until it breaks. Returns why.

        The one before is left first. Raises Garbled if the two sides cannot go on with each other at all.
        """
        await self.hush()
        self.numbers.reopen(their_received)
        self._urgent.clear()
        self._listener.began()
        why = "it was left for another one"
        left = trio.Event()
        with trio.CancelScope() as scope:
            self._speaking = scope, left
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, transport, nursery.cancel_scope)
                    nursery.start_soon(self._end_if_silent, nursery.cancel_scope)
                    why = await self._read(transport, unpacker)
                    nursery.cancel_scope.cancel()
            finally:
                self._speaking = None
                left.set()
        return why

    async def _write(self, transport: trio.abc.Stream, scope: trio.CancelScope) -> None:
        try:
            while not self.over:
                batch = self._batch()
                if batch:
                    await transport.send_all(batch)
                else:
                    await self._stirred.wait()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel()

    async def _end_if_silent(self, scope: trio.CancelScope) -> None:
        self._heard_at = trio.current_time()
        until = self._heard_at + self._silence_seconds
        while trio.current_time() < until:
            await trio.sleep_until(until)
            until = self._heard_at + self._silence_seconds
        logger.info("node.silent %s: nothing was heard for %.1f s", self._name, self._silence_seconds)
        scope.cancel()

    def _batch(self) -> bytes:
        out = [pack(Packet(0, self.numbers.acknowledge(), body)) for body in self._urgent.values()]
        self._urgent.clear()
        size = 0
        while size < BATCH_BYTES and (packet := self.numbers.next()) is not None:
            size += len(packet.body)
            out.append(pack(packet))
        if not out and self.numbers.is_due:
            out.append(pack(Packet(0, self.numbers.acknowledge(), b"")))
        return b"".join(out)

    async def _read(self, transport: trio.abc.Stream, unpacker: Unpacker) -> str:
        chunk: bytes | bytearray = b""  # what is in the unpacker comes first
        try:
            while not self.over:
                self._hear(unpacker, chunk)
                chunk = await transport.receive_some(RECEIVE_BYTES)
                if not chunk:
                    return "it was closed"
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return f"it broke: {describe(error)}"
        except Garbled as error:
            logger.warning("node.garbled %s: %s", self._name, error)
            return str(error)
        return "the session is over"

    def _hear(self, unpacker: Unpacker, chunk: bytes | bytearray) -> None:
        for packet in unpacker.feed(chunk):
            self._heard_at = trio.current_time()
            fresh = self.numbers.accept(packet)
            if packet.number == 0 and packet.body:
                self._listener.notice(read_greeting(packet.body))
            elif fresh:
                self._take(packet)
            if self.over:
                return
        if self.numbers.is_due:
            self._stirred.announce()
        if self.numbers.has_room:
            self._roomy.announce()

    def _take(self, packet: Packet) -> None:
        try:
            try:
                self._listener.take(self._decoder.decode(packet.body))
            except _UNREADABLE as error:
                raise Garbled(f"frame {packet.number} is not understood: {error}") from error
        except Garbled as error:
            if self._lied_at == self.numbers.received:  # said again, word for word
                self._listener.give_up(str(error))
            self._lied_at = self.numbers.received
            raise
        self.numbers.took(packet)
