"""What a node and its kernel do when something between them, or one of them, fails. Real node processes."""

import random
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
import trio

from kernel.procs.node.session import NodeRefused, NodeSession
from kernel.procs.spec import NodeLost, Spec
from protocol.node import LeaseTimes
from tests.kernel.procs.node.far_node import LIVELY, SHORT, FarNode, Way, connect
from tests.kernel.procs.trees import ENV, PATIENCE, STAYS, alive, gone, read_pids

CAT = Spec(attempt="i1-1", argv=("cat",), cwd="/", env=ENV)
TREE = Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[FarNode]:
    """One whose lease is as long as it is in production."""
    made = FarNode(tmp_path / "far", LIVELY)
    yield made
    made.kill()


@pytest.fixture
async def brief(tmp_path: Path) -> AsyncGenerator[FarNode]:
    """One whose lease is over soon."""
    made = FarNode(tmp_path / "brief", SHORT)
    yield made
    made.kill(signal.SIGCONT)
    made.kill()


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncGenerator[FarNode]:
    """One whose lease is over after some seconds, which a busy machine does not miss."""
    made = FarNode(tmp_path / "patient", LeaseTimes(lease_seconds=6.0, beat_seconds=0.2, margin_seconds=1.0))
    yield made
    made.kill(signal.SIGCONT)
    made.kill()


async def lines_of(stream: trio.abc.ReceiveStream, count: int) -> list[int]:
    """The numbers that are read, one a line."""
    text = b""
    with trio.fail_after(PATIENCE):
        while text.count(b"\n") < count:
            text += await stream.receive_some()
    return [int(word) for word in text.split()]


@pytest.mark.promise("P85")
async def test_work_goes_on_over_a_new_transport_and_nothing_is_lost_or_doubled(
    node: FarNode, nursery: trio.Nursery
) -> None:
    """Cut, halved and damaged transports; what was not acknowledged comes again, once."""
    async with node.session() as session:
        way = await connect(node, session, nursery)
        async with await session.launcher.spawn(CAT) as handle:
            for begin, harm in enumerate(("cut", "half", "garble", "both")):
                numbers = range(begin * 1000, begin * 1000 + 1000)
                nursery.start_soon(handle.stdin.send_all, b"".join(b"%d\n" % number for number in numbers))
                if harm == "cut":
                    way.cut()
                elif harm == "half":
                    way.receives = lambda data: data[: len(data) // 2]
                elif harm == "garble":
                    way.receives = lambda data: data[:-1] + bytes([data[-1] ^ 1])
                else:
                    way.sends = way.receives = lambda data: data[1:]
                with trio.fail_after(PATIENCE):
                    await session.wait_connected(connected=False)
                way = await connect(node, session, nursery)
                assert await lines_of(handle.stdout, 1000) == list(numbers)
            pid = handle.pid
            await handle.stdin.aclose()
            assert (await handle.wait()).code == 0
        assert pid and alive([pid]) == []


@pytest.mark.promise("P84")
async def test_a_node_that_is_cut_off_ends_its_trees_before_its_work_is_called_lost(
    brief: FarNode, nursery: trio.Nursery
) -> None:
    """Partition past the lease: the node fences itself, and only then the kernel's handle answers."""
    async with brief.session() as session:
        way = await connect(brief, session, nursery)
        async with await session.launcher.spawn(TREE) as handle:
            pids = await read_pids(handle.stdout)
            way.part()
            with trio.fail_after(PATIENCE):
                exited = await handle.wait()
            assert alive(pids) == []
        assert (exited.lost, exited.signal) == (True, signal.SIGKILL)
        assert session.lost.is_set() and not session.connected
        with pytest.raises(NodeLost, match="not connected"):
            await session.launcher.spawn(CAT)
    async with brief.session() as session:
        await connect(brief, session, nursery)
        async with await session.launcher.spawn(CAT) as handle:
            await handle.stdin.aclose()
            assert (await handle.wait()).code == 0


@pytest.mark.promise("P84")
async def test_a_node_process_that_is_killed_takes_its_trees_along_and_is_lost_after_the_lease(
    brief: FarNode, nursery: trio.Nursery
) -> None:
    """Its keepers see that it is gone. A new node process does not go on with the old session."""
    async with brief.session() as session:
        await connect(brief, session, nursery)
        async with await session.launcher.spawn(TREE) as handle:
            pids = await read_pids(handle.stdout)
            brief.kill()
            await gone(pids, PATIENCE)
            assert handle.is_quiet()
            with trio.fail_after(PATIENCE):
                await session.wait_connected(connected=False)
            with trio.fail_after(PATIENCE):
                await session.run(await brief.open())
            assert session.lost.is_set()
            assert (await handle.wait()).lost


@pytest.mark.promise("P84")
async def test_a_transport_that_is_killed_leaves_the_node_process_which_fences_itself(
    brief: FarNode, nursery: trio.Nursery
) -> None:
    """As when ssh is killed: its far end goes, the node process stays, and nobody comes."""
    async with brief.session() as session:
        way = await connect(brief, session, nursery)
        async with await session.launcher.spawn(TREE) as handle:
            pids = await read_pids(handle.stdout)
            before = brief.pid
            way.cut()
            await gone(pids, PATIENCE)
            assert alive([before]) == [before] == [brief.pid]
            with trio.fail_after(PATIENCE):
                assert (await handle.wait()).lost


@pytest.mark.promise("P84")
async def test_a_node_process_that_is_stopped_past_its_lease_is_ended_with_its_trees(
    brief: FarNode, nursery: trio.Nursery
) -> None:
    """A process that hangs cannot fence itself: its guard does."""
    async with brief.session() as session:
        await connect(brief, session, nursery)
        async with await session.launcher.spawn(TREE) as handle:
            pids = await read_pids(handle.stdout)
            brief.kill(signal.SIGSTOP)
            with trio.fail_after(PATIENCE):
                assert (await handle.wait()).lost
            assert alive(pids) == []


@pytest.mark.promise("P84")
async def test_a_guard_that_dies_is_replaced_and_its_node_serves_on(patient: FarNode, nursery: trio.Nursery) -> None:
    """As where the machine is short of memory: no transport breaks, and the new one ends a node that is stopped."""
    async with patient.session() as session:
        way = await connect(patient, session, nursery)
        async with await session.launcher.spawn(TREE) as handle:
            pids = await read_pids(handle.stdout)
            guard = min(psutil.Process(patient.pid).children(), key=lambda child: (child.create_time(), child.pid))
            guard.kill()
            await gone([guard.pid], PATIENCE)
            with trio.fail_after(PATIENCE):
                while psutil.pid_exists(guard.pid):  # a zombie, until another one knows the lease
                    await trio.lowlevel.checkpoint()
            assert (handle.is_quiet(), way.process.poll(), alive(pids)) == (True, None, pids)
            patient.kill(signal.SIGSTOP)
            with trio.fail_after(PATIENCE):
                assert (await handle.wait()).lost
            await gone(pids, PATIENCE)


@pytest.mark.promise("P84")
async def test_the_next_kernel_finds_the_old_ones_trees_ended(node: FarNode, nursery: trio.Nursery) -> None:
    """A higher term ends what the lower one left, before it is served; the lower one is refused from then on."""
    async with node.session(term=7) as session:
        way = await connect(node, session, nursery)
        handle = await session.launcher.spawn(TREE)
        pids = await read_pids(handle.stdout)
        way.cut()
    async with node.session(term=8) as session:
        await connect(node, session, nursery)
        assert alive(pids) == []
        async with await session.launcher.spawn(CAT):
            async with node.session(term=7) as older:
                with pytest.raises(NodeRefused, match="term 8"):
                    await older.run(await node.open())
            async with node.session(term=9, project="p2") as other:
                with pytest.raises(NodeRefused, match="serves project 'p1'"):
                    await other.run(await node.open())
            assert session.connected


async def test_a_worker_that_is_not_read_stops_no_other(node: FarNode, nursery: trio.Nursery) -> None:
    """Credit: one floods, and waits; another one is heard at once."""
    flood = Spec(attempt="i2-1", argv=("sh", "-c", "yes & yes >&2"), cwd="/", env=ENV)
    async with node.session() as session:
        way = await connect(node, session, nursery)
        way.seconds = 0.001
        async with await session.launcher.spawn(flood), await session.launcher.spawn(CAT) as handle:
            for number in range(50):
                await handle.stdin.send_all(b"%d\n" % number)
                assert await lines_of(handle.stdout, 1) == [number]


async def test_a_connection_to_the_daemons_mcp_comes_out_at_the_kernel(node: FarNode, nursery: trio.Nursery) -> None:
    """Both directions, and the end of each; also where the transport breaks meanwhile."""

    async def shout(stream: trio.abc.Stream) -> None:
        async with stream:
            async for chunk in stream:
                await stream.send_all(bytes(chunk).upper())

    async with node.session(serve_mcp=shout) as session:
        way = await connect(node, session, nursery)
        assert session.facts is not None
        port = int(session.facts.mcp_url.rpartition(":")[2])
        # Whoever connects there was started under a lease: one that is spawned waits until the node has it.
        async with await session.launcher.spawn(CAT), await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(b"before ")
            with trio.fail_after(PATIENCE):
                assert await client.receive_some() == b"BEFORE "
            way.cut()
            await client.send_all(b"after")
            await connect(node, session, nursery)
            await client.send_eof()
            with trio.fail_after(PATIENCE):
                assert b"".join([bytes(chunk) async for chunk in client]) == b"AFTER"


async def test_a_signal_for_a_dump_reaches_the_child_alone(node: FarNode, nursery: trio.Nursery) -> None:
    """SIGUSR1 travels."""
    script = "trap 'echo dump; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    spec = Spec(attempt="i1-1", argv=("sh", "-c", script), cwd="/", env=ENV)
    async with node.session() as session:
        await connect(node, session, nursery)
        async with await session.launcher.spawn(spec) as handle:
            assert await handle.stdout.receive_some() == b"ready\n"
            await handle.signal(signal.SIGUSR1)
            with trio.fail_after(PATIENCE):
                assert await handle.stdout.receive_some() == b"dump\n"
                assert (await handle.wait()).code == 4


async def test_what_is_used_again_elsewhere_is_not_on_a_node(node: FarNode, nursery: trio.Nursery) -> None:
    """A worker is kept only where somebody can tell that it is alone and its directory bare."""
    async with node.session() as session:
        await connect(node, session, nursery)
        async with await session.launcher.spawn(Spec(attempt="i1-1")) as handle:
            assert await handle.count() == 0
            assert not handle.is_bare()
            with pytest.raises(OSError, match="is on a node"):
                handle.assign("i2-1")
            assert handle.is_quiet() and handle.processes == frozenset()


async def test_what_a_shell_prints_before_the_node_speaks_is_passed_over(node: FarNode, nursery: trio.Nursery) -> None:
    """A banner, or a profile that echoes."""
    async with node.session() as session:
        way = await node.open()
        banner = [b"Welcome to far!\r\n\0"]
        way.receives = lambda data: (banner.pop() if banner else b"") + data
        nursery.start_soon(session.run, way)
        with trio.fail_after(PATIENCE):
            await session.wait_connected()


@pytest.mark.promise("P85")
@pytest.mark.long("test_work_goes_on_over_a_new_transport_and_nothing_is_lost_or_doubled")
async def test_a_hundred_cuts_lose_and_double_nothing(node: FarNode, nursery: trio.Nursery) -> None:
    """Eight processes talk both ways all the while; each cut comes at another byte, in another direction."""
    chance = random.Random(20)
    done, cuts = trio.Event(), 0
    lines = 10_000
    said = b"".join(b"%d\n" % number for number in range(lines))

    async def talk(session: NodeSession, number: int) -> None:
        spec = Spec(attempt=f"i{number}-1", argv=("cat",), cwd="/", env=ENV)
        async with await session.launcher.spawn(spec) as handle:
            while cuts < 100:
                async with trio.open_nursery() as talking:
                    talking.start_soon(handle.stdin.send_all, said)
                    assert await lines_of(handle.stdout, lines) == list(range(lines))
            await handle.stdin.aclose()
            assert (await handle.wait()).code == 0
        left.discard(number)
        if not left:
            done.set()

    async def cut_again_and_again(way: Way) -> None:
        nonlocal cuts
        while True:
            way.cut_after(chance.randrange(30_000), sending=chance.random() < 0.5)
            await session.wait_connected(connected=False)
            cuts += 1
            way = await connect(node, session, nursery)

    async with node.session() as session:
        way = await connect(node, session, nursery)
        left = set(range(8))
        async with trio.open_nursery() as talks:
            for number in sorted(left):
                talks.start_soon(talk, session, number)
            talks.start_soon(cut_again_and_again, way)
            await done.wait()
            talks.cancel_scope.cancel()
        assert cuts >= 100
