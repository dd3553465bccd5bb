"""A node that lies: what it says is judged by what was leased to it. A transport in memory, frames written by hand."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from kernel.procs.handle import Handle
from kernel.procs.node.conversation import greet
from kernel.procs.node.framing import Packet, Unpacker, pack
from kernel.procs.node.session import NodeRefused, NodeSession
from kernel.procs.spec import SpawnTransient, Spec
from protocol.ipc import Exited
from protocol.node import (
    CHANNEL_WINDOW_BYTES,
    CHUNK_BYTES,
    CONNECTION,
    MOST_CONNECTIONS,
    PREAMBLE,
    STDERR,
    STDIN,
    STDOUT,
    Beat,
    Credit,
    Data,
    Echo,
    End,
    Greeting,
    KernelHello,
    KernelSays,
    LeaseTimes,
    NodeFacts,
    NodeHello,
    NodeSays,
    NotSpawned,
    Opened,
    ProcessEnded,
    Refusal,
    Release,
    Released,
    Shut,
    Spawn,
    Spawned,
    channel_of,
)
from tests.kernel.procs.trees import PATIENCE

LONG = LeaseTimes(lease_seconds=600, beat_seconds=60)
SHORT = LeaseTimes(lease_seconds=0.3, beat_seconds=60, margin_seconds=0.1)
SPEC = Spec(attempt="i1-1", argv=("true",), cwd="/", env={})
_decoder: msgspec.msgpack.Decoder[KernelSays] = msgspec.msgpack.Decoder(KernelSays)
_greetings: msgspec.msgpack.Decoder[Greeting] = msgspec.msgpack.Decoder(Greeting)


class Liar:
    """The node's side of a transport, in the hands of a test."""

    def __init__(self, stream: trio.abc.Stream, number: int) -> None:
        self.stream = stream
        self.number = number
        self._unpacker = Unpacker()
        self._packets: list[Packet] = []

    async def say(self, *frames: NodeSays) -> None:
        """Say something with a number."""
        out: list[bytes] = []
        for frame in frames:
            self.number += 1
            out.append(pack(Packet(self.number, 0, msgspec.msgpack.encode(frame))))
        await self.raw(b"".join(out))

    async def say_now(self, frame: Greeting) -> None:
        """Say something without."""
        await self.raw(greet(frame))

    async def raw(self, data: bytes) -> None:
        """Say anything; a kernel that has hung up need not hear it."""
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()

    async def packet(self) -> Packet | None:
        """The next thing that the kernel says; None once it has hung up."""
        with trio.fail_after(PATIENCE):
            while not self._packets:
                chunk = await self.stream.receive_some(2**20)
                if not chunk:
                    return None
                self._packets.extend(self._unpacker.feed(chunk))
        return self._packets.pop(0)

    async def frame(self) -> KernelSays | Greeting | None:
        """The same, read."""
        packet = await self.packet()
        if packet is None or not packet.body:
            return None
        return _decoder.decode(packet.body) if packet.number else _greetings.decode(packet.body)

    async def welcome(self, facts: NodeFacts | None = None) -> None:
        """Greet as an honest node does, and have a lease."""
        hello = await self.frame()
        assert isinstance(hello, KernelHello)
        await self.raw(PREAMBLE)
        await self.say_now(NodeHello(session=hello.session, protocol=1, facts=facts or NodeFacts(), received=0))
        await self.say_now(Beat(at_ms=1))
        while not isinstance(await self.frame(), Echo):
            pass  # what it was told before comes again


class World:
    """A session with a node that lies."""

    def __init__(self, session: NodeSession, nursery: trio.Nursery) -> None:
        self.session = session
        self.nursery = nursery
        self.hung_up = trio.Event()

    async def dial(self, number: int = 0) -> Liar:
        """A transport."""
        ours, theirs = trio.testing.memory_stream_pair()

        async def run() -> None:
            await self.session.run(ours)
            self.hung_up.set()

        self.hung_up = trio.Event()
        self.nursery.start_soon(run)
        return Liar(theirs, number)

    async def start(self, liar: Liar) -> Handle:
        """A process that the node says it runs."""
        handles: list[Handle] = []

        async def spawn() -> None:
            handles.append(await self.session.launcher.spawn(SPEC))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn)
            order = await liar.frame()
            assert isinstance(order, Spawn)
            await liar.say(Spawned(process=order.process, pid=77, keeper=76))
        return handles[0]


@asynccontextmanager
async def world(times: LeaseTimes = LONG) -> AsyncGenerator[World]:
    """A session that is kept."""
    served: list[trio.abc.Stream] = []

    async def serve(stream: trio.abc.Stream) -> None:
        served.append(stream)
        await trio.sleep_forever()

    session = NodeSession("n1", "p1", 1, serve, times)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.keep)
        yield World(session, nursery)
        nursery.cancel_scope.cancel()


def bytes_of(process: int, role: int, size: int = 1) -> Data:
    return Data(channel=channel_of(process, role), data=b"x" * size)


LIES: dict[str, Callable[[], tuple[NodeSays, ...]]] = {
    "an answer that nobody asked for": lambda: (Spawned(process=2, pid=1, keeper=1),),
    "a process that is started twice": lambda: (Spawned(process=1, pid=1, keeper=1),),
    "a refusal of what runs": lambda: (NotSpawned(process=1, why="no"),),
    "the end of a process that it does not have": lambda: (ProcessEnded(process=9, exited=Exited(code=0)),),
    "two ends": lambda: (
        ProcessEnded(process=1, exited=Exited(code=0)),
        ProcessEnded(process=1, exited=Exited(code=1)),
    ),
    "that it is lost, itself": lambda: (ProcessEnded(process=1, exited=Exited(signal=9, lost=True)),),
    "an end without end": lambda: (ProcessEnded(process=1, exited=Exited(failed="x" * 100_000)),),
    "that nobody wants it any more": lambda: (Released(process=1),),
    "bytes of an attempt that it lacks": lambda: (bytes_of(5, STDOUT),),
    "bytes against the direction": lambda: (bytes_of(1, STDIN),),
    "credit against the direction": lambda: (Credit(channel=channel_of(1, STDERR), size=1),),
    "credit for bytes it never had": lambda: (Credit(channel=channel_of(1, STDIN), size=CHANNEL_WINDOW_BYTES),),
    "bytes after the end": lambda: (End(channel=channel_of(1, STDOUT)), bytes_of(1, STDOUT)),
    "the end twice": lambda: (End(channel=channel_of(1, STDOUT)), End(channel=channel_of(1, STDOUT))),
    "more bytes than it has credit for": lambda: (bytes_of(1, STDERR, CHUNK_BYTES),) * 5,
    "a connection out of turn": lambda: (Opened(connection=3),),
    "bytes of a connection that is not open": lambda: (bytes_of(1, CONNECTION),),
    "a word about a connection that never was": lambda: (Shut(channel=channel_of(4, CONNECTION)),),
    "more connections than one may have": lambda: tuple(
        Opened(connection=number) for number in range(1, MOST_CONNECTIONS + 2)
    ),
}


@pytest.mark.promise("P86")
@pytest.mark.parametrize("lie", LIES)
async def test_what_was_not_leased_to_a_node_ends_the_transport(lie: str) -> None:
    """It has no effect, whatever else was said; said again over a new transport, the node is given up."""
    frames = LIES[lie]()
    async with world() as there:
        liar = await there.dial()
        await liar.welcome()
        handle = await there.start(liar)
        await liar.say(*frames)
        with trio.fail_after(PATIENCE):
            await there.hung_up.wait()
        assert not there.session.connected and not there.session.lost.is_set()
        before = there.session.conversation.numbers.received
        liar = await there.dial(before)
        await liar.welcome()
        await liar.say(frames[-1])
        while await liar.packet() is not None:
            pass  # what it was told before
        assert there.session.conversation.over and not there.session.lost.is_set()
        assert handle.is_quiet() or await handle.wait() == Exited(code=0)


GARBAGE = {
    "noise": b"\x00" * 100,
    "a length of 4 GiB": b"\xff" * 64,
    "a body that is no MessagePack": pack(Packet(2, 0, b"\xc1")),
    "a frame of a kind that there is not": pack(Packet(2, 0, msgspec.msgpack.encode({"t": "root", "process": 1}))),
    "a kernel's frame": pack(Packet(2, 0, msgspec.msgpack.encode(Release(process=1)))),
    "numbers out of bounds": pack(Packet(2, 0, msgspec.msgpack.encode({"t": "spawned", "process": 2**60}))),
    "lists in lists": pack(Packet(2, 0, b"\x91" * 100_000)),
    "text that is no UTF-8": pack(Packet(2, 0, msgspec.msgpack.encode({"t": "x"}).replace(b"x", b"\xff"))),
    "a greeting that is no UTF-8": pack(Packet(0, 0, msgspec.msgpack.encode({"t": "x"}).replace(b"x", b"\xff"))),
    "a gap": pack(Packet(7, 0, msgspec.msgpack.encode(Opened(connection=1)))),
    "an acknowledgement of what was never sent": pack(Packet(0, 99, b"")),
    "a greeting in the middle": greet(Refusal(code="term", why="go away")),
    "text without end": greet(Refusal(code="x" * 1000, why="")),
}


@pytest.mark.promise("P86")
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_ends_the_transport_and_the_session_goes_on(garbage: str) -> None:
    """The next transport carries on where this one stopped."""
    async with world() as there:
        liar = await there.dial()
        await liar.welcome()
        handle = await there.start(liar)
        await liar.raw(GARBAGE[garbage])
        if garbage == "noise":  # zeros are headers of frames that say nothing, until their checksum is looked at
            await liar.raw(b"\x01" * 400)
        with trio.fail_after(PATIENCE):
            await there.hung_up.wait()
        liar = await there.dial(1)
        await liar.welcome()
        await liar.say(bytes_of(1, STDOUT, 5), ProcessEnded(process=1, exited=Exited(code=3)))
        with trio.fail_after(PATIENCE):
            assert await handle.stdout.receive_some() == b"xxxxx"
            assert (await handle.wait()).code == 3


@pytest.mark.promise("P86")
async def test_a_lease_is_counted_by_the_kernel_alone() -> None:
    """A beat of the far future is echoed, and lengthens nothing; the process is lost when the kernel's time is up."""
    async with world(SHORT) as there:
        liar = await there.dial()
        await liar.welcome()
        handle = await there.start(liar)
        await liar.say_now(Beat(at_ms=2**53))
        echo = await liar.frame()
        assert echo == Echo(at_ms=2**53)
        with trio.fail_after(PATIENCE):
            assert (await handle.wait()).lost


@pytest.mark.promise("P86")
async def test_a_flood_of_beats_is_answered_by_few_words() -> None:
    """What is said at once is the newest of its kind, however many were asked for."""
    async with world() as there:
        liar = await there.dial()
        await liar.welcome()
        await liar.raw(b"".join(greet(Beat(at_ms=number)) for number in range(20_000)))
        echoes = [await liar.frame()]
        while echoes[-1] != Echo(at_ms=19_999):
            echoes.append(await liar.frame())
        assert len(echoes) < 50  # one for each piece of the flood that was read at once
        assert there.session.conversation.numbers.kept_bytes == 0


@pytest.mark.promise("P86")
async def test_a_node_that_never_ends_a_process_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing is bounded: the lease is not renewed any more, and runs out."""
    monkeypatch.setattr("kernel.procs.node.launcher.DESTROY_SECONDS", 0.01)
    async with world(SHORT) as there:
        liar = await there.dial()
        await liar.welcome()
        handle = await there.start(liar)
        with trio.fail_after(PATIENCE):
            exited = await handle.destroy()
        assert exited.lost and there.session.lost.is_set()
        with pytest.raises(SpawnTransient):
            await there.session.launcher.spawn(SPEC)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Refusal(code="version", why="upgrade the node"), "upgrade the node"),
        (
            Refusal(code="x", why="no\n2026 INFO kernel.stopped\x1b[2J"),
            r"refuses: [^\x00-\x1f]*kernel.stopped[^\x00-\x1f]*$",
        ),
        (Refusal(code="term", why="a later kernel was here"), "a later kernel"),
        (NodeHello(session="", protocol=99, facts=NodeFacts()), "speaks protocol 99"),
    ],
)
async def test_a_clear_refusal_says_why(answer: Greeting, said: str) -> None:
    """There is nothing to be gained by trying again at once."""
    session = NodeSession("n1", "p1", 1, lambda stream: stream.aclose(), LONG)
    ours, theirs = trio.testing.memory_stream_pair()
    if isinstance(answer, NodeHello):
        answer = msgspec.structs.replace(answer, session=session.id)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.keep)
        await theirs.send_all(PREAMBLE + greet(answer))
        with pytest.raises(NodeRefused, match=said):
            await session.run(ours)
        nursery.cancel_scope.cancel()
