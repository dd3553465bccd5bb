"""A node that lies: what it says is judged by what was leased to it. A transport in memory, frames written by hand."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from kernel.procs.handle import Handle
from kernel.procs.node.session import NodeRefused, NodeSession
from kernel.procs.node.wire import Garbled, NodeWire, Unpacker, pack
from kernel.procs.spec import SpawnTransient, Spec
from protocol import node
from protocol.ipc import Exited
from tests.kernel.procs.trees import PATIENCE, within

pytestmark = pytest.mark.promise("P86")

LONG = node.LeaseTimes(lease_seconds=600, beat_seconds=60)
SHORT = node.LeaseTimes(lease_seconds=0.3, beat_seconds=60, margin_seconds=0.1)
SPEC = Spec(attempt="i1-1", argv=("true",), cwd="/", env={})
_decoder: msgspec.msgpack.Decoder[node.KernelSays | node.KernelHello] = msgspec.msgpack.Decoder(
    node.KernelSays | node.KernelHello
)


class Liar:
    """The node's side of a transport, in the hands of a test."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._unpacker = Unpacker()
        self._bodies: list[bytes] = []

    async def say(self, *frames: node.NodeSays | node.Greeting) -> None:
        await self.raw(b"".join(map(pack, frames)))

    async def raw(self, data: bytes) -> None:
        """Say anything; a kernel that has hung up need not hear it."""
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()

    async def frame(self) -> node.KernelSays | node.KernelHello | None:
        """The next thing that the kernel says; None once it has hung up."""
        with trio.fail_after(PATIENCE):
            while not self._bodies:
                chunk = await self.stream.receive_some(2**20)
                if not chunk:
                    return None
                self._bodies.extend(self._unpacker.feed(chunk))
        return _decoder.decode(self._bodies.pop(0))

    async def welcome(self) -> None:
        """Greet as an honest node does, and have a lease."""
        assert isinstance(await self.frame(), node.KernelHello)
        await self.raw(node.PREAMBLE)
        await self.say(node.NodeHello(protocol=node.NODE_PROTOCOL, facts=node.NodeFacts()), node.Beat(at_ms=1))
        assert await self.frame() == node.Echo(at_ms=1)


class World:
    """A session with a node that lies."""

    def __init__(self, session: NodeSession, liar: Liar) -> None:
        self.session = session
        self.liar = liar
        self.hung_up = trio.Event()

    async def run(self, stream: trio.abc.Stream) -> None:
        await self.session.speak(stream)
        self.hung_up.set()
        await self.session.fence()

    async def start(self) -> Handle:
        handles: list[Handle] = []

        async def spawn() -> None:
            handles.append(await self.session.spawn(SPEC))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn)
            order = await self.liar.frame()
            assert isinstance(order, node.Spawn)
            await self.liar.say(node.Spawned(process=order.process, pid=77, keeper=76))
        return handles[0]


@asynccontextmanager
async def world(times: node.LeaseTimes = LONG) -> AsyncGenerator[World]:
    async def serve(stream: trio.abc.Stream) -> None:
        while await stream.receive_some():
            pass

    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        there = World(NodeSession("n1", "p1", 1, serve, times), Liar(theirs))
        nursery.start_soon(there.run, ours)
        await there.liar.welcome()
        yield there
        nursery.cancel_scope.cancel()


def bytes_of(process: int, role: int, size: int = 1) -> node.Data:
    return node.Data(channel=node.channel_of(process, role), data=b"x" * size)


LIES: dict[str, Callable[[], tuple[node.NodeSays, ...]]] = {
    "an answer that nobody asked for": lambda: (node.Spawned(process=2, pid=1, keeper=1),),
    "a process that is started twice": lambda: (node.Spawned(process=1, pid=1, keeper=1),),
    "a refusal of what runs": lambda: (node.NotSpawned(process=1, why="no"),),
    "the end of a process that it does not have": lambda: (node.ProcessEnded(process=9, exited=Exited(code=0)),),
    "two ends": lambda: (
        node.ProcessEnded(process=1, exited=Exited(code=0)),
        node.ProcessEnded(process=1, exited=Exited(code=1)),
    ),
    "that it is lost, itself": lambda: (node.ProcessEnded(process=1, exited=Exited(signal=9, lost=True)),),
    "an end without end": lambda: (node.ProcessEnded(process=1, exited=Exited(failed="x" * 100_000)),),
    "that nobody wants it any more": lambda: (node.Released(process=1),),
    "bytes of an attempt that it lacks": lambda: (bytes_of(5, node.STDOUT),),
    "bytes against the direction": lambda: (bytes_of(1, node.STDIN),),
    "credit against the direction": lambda: (node.Credit(channel=node.channel_of(1, node.STDERR), size=1),),
    "credit for bytes it never had": lambda: (
        node.Credit(channel=node.channel_of(1, node.STDIN), size=node.CHANNEL_WINDOW_BYTES),
    ),
    "bytes after the end": lambda: (node.End(channel=node.channel_of(1, node.STDOUT)), bytes_of(1, node.STDOUT)),
    "the end twice": lambda: (
        node.End(channel=node.channel_of(1, node.STDOUT)),
        node.End(channel=node.channel_of(1, node.STDOUT)),
    ),
    "more bytes than it has credit for": lambda: (bytes_of(1, node.STDERR, node.CHUNK_BYTES),) * 5,
    "a connection out of turn": lambda: (node.Opened(connection=3),),
    "bytes of a connection that is not open": lambda: (bytes_of(1, node.CONNECTION),),
    "a frame about a connection that never was": lambda: (node.Close(channel=node.channel_of(4, node.CONNECTION)),),
    "that it closed a stream twice": lambda: (node.Close(channel=node.channel_of(1, node.STDERR)),) * 2,
    "credit for a stream that it writes": lambda: (node.Credit(channel=node.channel_of(1, node.STDOUT), size=1),),
    "more connections than one may have": lambda: tuple(
        node.Opened(connection=number) for number in range(1, node.MOST_CONNECTIONS + 2)
    ),
}


GARBAGE = {
    "noise": b"\x00" * 100,
    "a length of 4 GiB": b"\xff" * 64,
    "a body that is no MessagePack": b"\0\0\0\1\xc1",
    "a frame of a kind that there is not": {"t": "root", "process": 1},
    "a kernel's frame": {"t": "release", "process": 1},
    "numbers out of bounds": {"t": "spawned", "process": 2**60},
    "lists in lists": b"\0\0\xff\xff" + b"\x91" * 0xFFFF,
    "text that is no UTF-8": b"\0\0\0\5\x81\xa1t\xa1\xff",
    "a greeting in the middle": {"t": "refusal", "code": "term", "why": "go away"},
}


@pytest.mark.parametrize("said", [*LIES, *GARBAGE])
async def test_what_a_node_may_not_say_ends_the_session_and_has_no_effect(said: str) -> None:
    async with world() as there:
        handle = await there.start()
        if said in LIES:
            await there.liar.say(*LIES[said]())
        else:
            garbage = GARBAGE[said]
            body = garbage if isinstance(garbage, bytes) else msgspec.msgpack.encode(garbage)
            await there.liar.raw(body if body is garbage else len(body).to_bytes(4) + body)
        await within(PATIENCE, there.hung_up.wait)
        assert handle.is_quiet() or await handle.wait() == Exited(code=0)
        there.session.end()
        with trio.fail_after(PATIENCE):
            assert (await handle.wait()).lost or await handle.wait() == Exited(code=0)


async def test_a_lease_is_counted_by_the_kernel_alone() -> None:
    async with world(SHORT) as there:
        handle = await there.start()
        await there.liar.say(node.Beat(at_ms=2**53))
        assert await there.liar.frame() == node.Echo(at_ms=2**53)
        assert (await within(PATIENCE, handle.wait)).lost


async def test_a_flood_of_beats_is_answered_by_few_frames() -> None:
    async with world() as there:
        await there.liar.say(*(node.Beat(at_ms=number) for number in range(20_000)))
        echoes = [await there.liar.frame()]
        while echoes[-1] != node.Echo(at_ms=19_999):
            echoes.append(await there.liar.frame())
        assert len(echoes) < 50  # one for each piece of the flood that was read at once


async def test_what_waits_for_a_node_that_reads_nothing_is_bounded() -> None:
    wire, data = NodeWire(node.NodeSays), bytes_of(1, node.STDIN, node.CHUNK_BYTES)
    for _ in range(node.QUEUE_WINDOW_BYTES // node.CHUNK_BYTES):
        assert wire.has_room
        wire.say(data)
    assert (wire.has_room, wire.over) == (False, False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.room)  # which ends with the session
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(node.QUEUE_LIMIT_BYTES // node.CHUNK_BYTES):
            wire.say(data)
        nursery.cancel_scope.deadline = trio.current_time() + PATIENCE
    assert (wire.has_room, wire.over, nursery.cancel_scope.cancelled_caught) == (True, True, False)


async def test_connections_that_are_over_make_way_for_others() -> None:
    async with world() as there:
        for number in range(1, node.MOST_CONNECTIONS + 2):
            channel = node.channel_of(number, node.CONNECTION)
            await there.liar.say(node.Opened(connection=number), node.Close(channel=channel))
            assert await there.liar.frame() == node.Close(channel=channel)
        assert not there.hung_up.is_set()


def test_a_length_that_is_announced_is_not_believed() -> None:
    """4 GiB: refused before a byte of it is kept. Frames arrive whole, however their bytes do."""
    with pytest.raises(Garbled, match="4294967295 bytes exceeds"):
        list(Unpacker().feed(b"\xff" * 4))
    unpacker, whole = Unpacker(), pack(node.Opened(connection=1))
    assert [body for byte in whole for body in unpacker.feed(bytes([byte]))] == [whole[4:]]


async def test_a_node_that_never_ends_a_process_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.procs.node.remote_process.DESTROY_SECONDS", 0.01)
    async with world(SHORT) as there:
        handle = await there.start()
        assert (await within(PATIENCE, handle.destroy)).lost
        with pytest.raises(SpawnTransient):
            await there.session.spawn(SPEC)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (node.NodeRefusal(code="version", why="upgrade the node"), "upgrade the node"),
        (
            node.NodeRefusal(code="x", why="no\n2026 INFO kernel.stopped\x1b[2J"),
            r"refused the kernel: [^\x00-\x1f]*kernel.stopped[^\x00-\x1f]*$",
        ),
        (node.NodeRefusal(code="term", why="a later kernel was here"), "a later kernel"),
        (node.NodeHello(protocol=99, facts=node.NodeFacts()), "speaks protocol 99"),
    ],
)
async def test_a_clear_refusal_says_why(answer: node.Greeting, said: str) -> None:
    session = NodeSession("n1", "p1", 1, lambda stream: stream.aclose(), LONG)
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(node.PREAMBLE + pack(answer))
    with pytest.raises(NodeRefused, match=said):
        await session.speak(ours)
    assert not await within(PATIENCE, session.fence)
