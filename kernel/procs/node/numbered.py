"""The numbered stream: what was sent and is not acknowledged is kept, and sent again over the next transport.

Sans I/O. Numbers begin at 1 and have no gaps, so a frame that comes twice is known, and one that is missing too. What
is kept is bounded by bytes: bytes of channels wait for room, and a peer that acknowledges nothing ends the session.
"""

from collections import deque
from typing import Final

from kernel.procs.node.framing import HEADER_BYTES, Garbled, Packet
from protocol.node import STREAM_LIMIT_BYTES, STREAM_WINDOW_BYTES

ACKNOWLEDGE_BYTES: Final = 64 * 1024
"""Taken in without a word: then an acknowledgement is sent by itself."""


class Overfull(Exception):
    """The other side acknowledges nothing, and no more can be kept for it."""


class NumberedStream:
    """Both directions of one session, over however many transports."""

    def __init__(
        self, window_bytes: int = STREAM_WINDOW_BYTES, limit_bytes: int = STREAM_LIMIT_BYTES, due_bytes: int = 0
    ) -> None:
        """``due_bytes``: how much may be taken in before an acknowledgement is due by itself."""
        self._window = window_bytes
        self._limit = limit_bytes
        self._due_bytes = due_bytes or ACKNOWLEDGE_BYTES
        self.received = 0
        """The last number that took effect here."""
        self.sent = 0
        """The last number that was given."""
        self._acknowledged = 0
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._at = 0
        """How many of the kept ones went out over this transport."""
        self._furthest = 0
        """The last number that went out over any."""
        self._unsaid_bytes = 0

    @property
    def has_room(self) -> bool:
        """Return whether bytes of channels may be added."""
        return self._kept_bytes < self._window

    @property
    def is_due(self) -> bool:
        """Return whether the other side should be told now what took effect here."""
        return self._unsaid_bytes >= self._due_bytes

    @property
    def kept_bytes(self) -> int:
        """Return what is kept for the other side."""
        return self._kept_bytes

    def add(self, body: bytes) -> None:
        """Give ``body`` the next number, and keep it until it is acknowledged. Raises Overfull."""
        if self._kept_bytes + len(body) > self._limit:
            raise Overfull(f"{self._kept_bytes} bytes are not acknowledged, and no more are kept")
        self.sent += 1
        self._kept.append(body)
        self._kept_bytes += len(body) + HEADER_BYTES

    def next(self) -> Packet | None:
        """The next frame for this transport; None where all are out."""
        if self._at == len(self._kept):
            return None
        body = self._kept[self._at]
        self._at += 1
        number = self._acknowledged + self._at
        self._furthest = max(self._furthest, number)
        return Packet(number, self.acknowledge(), body)

    def acknowledge(self) -> int:
        """The acknowledgement that goes out with whatever goes out."""
        self._unsaid_bytes = 0
        return self.received

    def accept(self, packet: Packet) -> bool:
        """Take in what ``packet`` says; True if it is the next one: its body is to take effect, then call ``took``.

        False: it has no number, or it took effect before. Raises Garbled for a gap, and for an acknowledgement of what
        was never sent.
        """
        self._forget_up_to(packet.acknowledged)
        if packet.number > self.received + 1:
            raise Garbled(f"frame {packet.number} came after {self.received}")
        return packet.number == self.received + 1

    def took(self, packet: Packet) -> None:
        """Note that the body of ``packet`` took effect."""
        self.received = packet.number
        self._unsaid_bytes += len(packet.body) + HEADER_BYTES

    def reopen(self, their_received: int) -> None:
        """Begin a new transport: what the other side has not received goes out again. Raises Garbled as ``accept``."""
        if their_received < self._acknowledged:
            raise Garbled(f"the other side had {self._acknowledged} frames, and says now that it has {their_received}")
        self._forget_up_to(their_received)
        self._at = 0

    def _forget_up_to(self, number: int) -> None:
        if number > self._furthest:
            raise Garbled(f"frame {number} is acknowledged, and {self._furthest} is the last that was sent")
        while self._acknowledged < number:
            self._acknowledged += 1
            self._kept_bytes -= len(self._kept.popleft()) + HEADER_BYTES
            self._at = max(self._at - 1, 0)
