"""The numbered stream: whatever is lost, cut off or comes again, each frame takes effect once, and in order."""

import random
from collections import deque

import pytest

from kernel.procs.node.framing import HEADER_BYTES, Garbled, Packet, Unpacker, pack
from kernel.procs.node.numbered import NumberedStream, Overfull

HISTORIES = 3000


class Side:
    """One side: what it was given to say, and what took effect."""

    def __init__(self) -> None:
        self.stream = NumberedStream(due_bytes=200)
        self.said: list[bytes] = []
        self.heard: list[bytes] = []
        self.unpacker = Unpacker()
        self.wire: deque[bytes] = deque()
        """On the way to the other side."""

    def say(self, chance: random.Random) -> None:
        body = chance.randbytes(chance.randrange(1, 40))
        self.stream.add(body)
        self.said.append(body)

    def send(self) -> None:
        packet = self.stream.next()
        if packet is None and self.stream.is_due:
            packet = Packet(0, self.stream.acknowledge(), b"")
        if packet is not None:
            self.wire.append(pack(packet))

    def hear(self, chunk: bytes) -> None:
        for packet in self.unpacker.feed(chunk):
            if self.stream.accept(packet):
                self.heard.append(packet.body)
                self.stream.took(packet)


def reconnect(one: Side, other: Side) -> None:
    """A new transport: what was on the way is gone, and each side says what it has."""
    for side, peer in ((one, other), (other, one)):
        side.wire.clear()
        side.unpacker = Unpacker()
        side.stream.reopen(peer.stream.received)


def damage(chunk: bytes, chance: random.Random) -> bytes:
    """Half of it, none of it, or one bit of it wrong."""
    kind = chance.randrange(3)
    if kind == 0:
        return chunk[: chance.randrange(len(chunk))]
    if kind == 1:
        return b""
    at = chance.randrange(len(chunk))
    return chunk[:at] + bytes([chunk[at] ^ (1 << chance.randrange(8))]) + chunk[at + 1 :]


def live(seed: int) -> None:
    """One history, then peace until nothing is on its way any more."""
    chance = random.Random(seed)
    one, other = Side(), Side()
    for _ in range(chance.randrange(10, 120)):
        side, peer = chance.choice([(one, other), (other, one)])
        what = chance.random()
        if what < 0.35:
            side.say(chance)
        elif what < 0.65:
            side.send()
        elif what < 0.93 and side.wire:
            peer.hear(side.wire.popleft())
        elif what < 0.96 and side.wire:
            try:
                peer.hear(damage(side.wire.popleft(), chance))
                while side.wire:  # what follows a loss shows it
                    peer.hear(side.wire.popleft())
            except Garbled:
                pass
            reconnect(one, other)
        elif what > 0.97:
            reconnect(one, other)
        assert one.heard == other.said[: len(one.heard)]
        assert other.heard == one.said[: len(other.heard)]
    reconnect(one, other)
    for _ in range(400):
        for side, peer in ((one, other), (other, one)):
            side.send()
            while side.wire:
                peer.hear(side.wire.popleft())
    assert (one.heard, other.heard) == (other.said, one.said)
    assert one.stream.kept_bytes < 1000 and other.stream.kept_bytes < 1000


@pytest.mark.promise("P85")
def test_each_frame_takes_effect_once_in_any_history() -> None:
    """Loss, halves, wrong bits, cuts and reconnections, by the thousand."""
    for seed in range(HISTORIES):
        live(seed)


def test_a_gap_and_a_lie_about_what_came_are_noticed() -> None:
    """A missing number, an acknowledgement of what was never sent, and one that is taken back."""
    stream = NumberedStream()
    with pytest.raises(Garbled, match="frame 2 came after 0"):
        stream.accept(Packet(2, 0, b"x"))
    stream.add(b"one")
    with pytest.raises(Garbled, match="last that was sent"):
        stream.accept(Packet(0, 1, b""))
    assert stream.next() == Packet(1, 0, b"one")
    assert not stream.accept(Packet(0, 1, b""))
    with pytest.raises(Garbled, match="says now that it has 0"):
        stream.reopen(0)


def test_what_is_kept_for_a_peer_is_bounded() -> None:
    """Channels wait first; then nothing is taken at all."""
    stream = NumberedStream(window_bytes=1000, limit_bytes=2000)
    while stream.has_room:
        stream.add(b"x" * 100)
    assert stream.kept_bytes <= 1000 + 100 + HEADER_BYTES
    while stream.kept_bytes + 100 <= 2000:
        stream.add(b"x" * 100)
    with pytest.raises(Overfull, match="not acknowledged"):
        stream.add(b"x" * 100)
    assert stream.kept_bytes <= 2000 + HEADER_BYTES


def test_a_length_that_is_announced_is_not_believed() -> None:
    """4 GiB in the header: refused before a byte of it is kept."""
    with pytest.raises(Garbled, match="4294967295 bytes is announced"):
        list(Unpacker().feed(b"\xff" * HEADER_BYTES))
    unpacker = Unpacker()
    whole = pack(Packet(1, 0, b"body"))
    assert [packet for byte in whole for packet in unpacker.feed(bytes([byte]))] == [Packet(1, 0, b"body")]
