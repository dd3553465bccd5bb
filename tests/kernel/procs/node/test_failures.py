"""What a node and its kernel do when something between them, or one of them, fails. Real node processes."""

import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
import trio

from kernel.procs.node.session import NodeRefused, NodeSession
from kernel.procs.spec import NodeLost, Spec
from protocol.node import LeaseTimes
from tests.kernel.procs.node.far_node import PROJECT, SHORT, FarNode
from tests.kernel.procs.trees import ENV, PATIENCE, STAYS, alive, gone, read_pids, within

CAT = Spec(attempt="i1-1", argv=("cat",), cwd="/", env=ENV)
TREE = Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[FarNode]:
    """One whose lease is as long as it is in production."""
    made = FarNode(tmp_path / "far")
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


@pytest.mark.promise("P84", "P85")
@pytest.mark.parametrize("harm", ["closed", "garbled"])
async def test_a_transport_that_breaks_ends_what_runs_there_and_the_node_process_at_once(
    tmp_path: Path, harm: str
) -> None:
    node = FarNode(tmp_path / "far", LeaseTimes(lease_seconds=600))
    async with node.session() as session:
        handle = await session.launcher.spawn(TREE)
        pids = await read_pids(handle.stdout)
        if harm == "closed":
            await session.way.aclose()
        else:
            session.way.sends = session.way.receives = lambda data: b"\xff" * len(data)
        await gone(pids, PATIENCE)
        with trio.fail_after(PATIENCE):
            await session.broke.wait()
            await session.way.process.wait()
        assert handle.is_quiet() and not session.lost.is_set()
        with pytest.raises(NodeLost, match="not connected"):
            await session.launcher.spawn(CAT)


@pytest.mark.promise("P84", "P85")
async def test_what_was_lost_is_said_to_be_lost_after_the_lease_and_the_next_session_works(brief: FarNode) -> None:
    async with brief.session() as session, await session.launcher.spawn(TREE) as handle:
        await session.way.aclose()
        exited = await within(PATIENCE, handle.wait)
        assert (exited.lost, exited.signal) == (True, signal.SIGKILL)
    async with brief.session() as session, await session.launcher.spawn(CAT) as handle:
        await handle.stdin.aclose()
        assert (await handle.wait()).code == 0


@pytest.mark.promise("P84")
async def test_a_node_that_is_cut_off_ends_its_trees_before_its_work_is_called_lost(brief: FarNode) -> None:
    """Nothing gets through, and nothing says so: the node fences itself, and only then the kernel's handle answers."""
    async with brief.session() as session, await session.launcher.spawn(TREE) as handle:
        pids = await read_pids(handle.stdout)
        session.way.part()
        exited = await within(PATIENCE, handle.wait)
        assert alive(pids) == []
        assert exited.lost and session.broke.is_set()


@pytest.mark.promise("P84", "P85")
async def test_a_silence_that_is_shorter_than_the_lease_costs_nothing(patient: FarNode) -> None:
    async with patient.session() as session, await session.launcher.spawn(CAT) as handle:
        session.way.seconds = 0.5
        await handle.stdin.send_all(b"late\n")
        with trio.fail_after(PATIENCE):
            assert await handle.stdout.receive_some() == b"late\n"
            await handle.stdin.aclose()
            assert (await handle.wait()).code == 0


@pytest.mark.promise("P84")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_node_process_that_dies_or_hangs_takes_its_trees_along_and_is_lost_after_the_lease(
    brief: FarNode, number: signal.Signals
) -> None:
    async with brief.session() as session, await session.launcher.spawn(TREE) as handle:
        pids = await read_pids(handle.stdout)
        brief.kill(number)
        assert (await within(PATIENCE, handle.wait)).lost
        assert alive(pids) == []


@pytest.mark.promise("P84")
async def test_a_guard_that_dies_is_replaced_and_its_node_serves_on(patient: FarNode) -> None:
    async with patient.session() as session, await session.launcher.spawn(TREE) as handle:
        pids = await read_pids(handle.stdout)
        guard = min(psutil.Process(patient.pid).children(), key=lambda child: (child.create_time(), child.pid))
        guard.kill()
        await gone([guard.pid], PATIENCE)
        with trio.fail_after(PATIENCE):
            while psutil.pid_exists(guard.pid):  # a zombie, until another one knows the lease
                await trio.lowlevel.checkpoint()
        assert (handle.is_quiet(), session.way.process.poll(), alive(pids)) == (True, None, pids)
        patient.kill(signal.SIGSTOP)
        assert (await within(PATIENCE, handle.wait)).lost
        await gone(pids, PATIENCE)


async def refused(node: FarNode, term: int, project: str = PROJECT) -> str:
    """Why a kernel is refused there."""
    session = NodeSession("n1", project, term, trio.aclose_forcefully, node.times)
    with pytest.raises(NodeRefused) as why, trio.fail_after(PATIENCE):
        await session.speak(await node.open())
    return str(why.value)


@pytest.mark.promise("P84")
@pytest.mark.parametrize("hangs", [False, True])
async def test_a_later_kernel_finds_the_trees_of_an_earlier_one_ended(node: FarNode, hangs: bool) -> None:
    async with node.session(term=7) as session:
        handle = await session.launcher.spawn(TREE)
        pids = await read_pids(handle.stdout)
        if hangs:
            node.kill(signal.SIGSTOP)
        else:
            session.session.end()
        async with node.session(term=8) as later:
            assert alive(pids) == []
            async with await later.launcher.spawn(CAT) as running:
                assert "term 8" in await refused(node, 7)
                assert "serves project 'p1'" in await refused(node, 9, "p2")
                assert running.is_quiet()


async def test_a_worker_that_is_not_read_stops_no_other(node: FarNode) -> None:
    flood = Spec(attempt="i2-1", argv=("sh", "-c", "yes & yes >&2"), cwd="/", env=ENV)
    async with node.session() as session:
        session.way.seconds = 0.001
        async with await session.launcher.spawn(flood), await session.launcher.spawn(CAT) as handle:
            for number in range(50):
                await handle.stdin.send_all(b"%d\n" % number)
                assert await within(PATIENCE, handle.stdout.receive_some) == b"%d\n" % number


async def test_many_bytes_travel_whole_in_both_directions(node: FarNode) -> None:
    sent = bytes(range(256)) * 16384
    async with node.session() as session, await session.launcher.spawn(CAT) as handle:

        async def give() -> None:
            await handle.stdin.send_all(sent)
            await handle.stdin.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give)
            with trio.fail_after(PATIENCE):
                assert b"".join([bytes(chunk) async for chunk in handle.stdout]) == sent
        assert (await handle.wait()).code == 0


async def test_a_connection_to_the_daemons_mcp_comes_out_at_the_kernel(node: FarNode) -> None:
    async def shout(stream: trio.abc.Stream) -> None:
        async with stream:
            async for chunk in stream:
                await stream.send_all(bytes(chunk).upper())

    async with node.session(serve_mcp=shout) as session:
        assert session.session.facts is not None
        port = int(session.session.facts.mcp_url.rpartition(":")[2])
        # Whoever connects there was started under a lease: one that is spawned waits until the node has it.
        async with await session.launcher.spawn(CAT), await trio.open_tcp_stream("127.0.0.1", port) as client:
            with trio.fail_after(PATIENCE):
                await client.send_all(b"before ")
                assert await client.receive_some() == b"BEFORE "
                await client.send_all(b"after")
                await client.send_eof()
                assert b"".join([bytes(chunk) async for chunk in client]) == b"AFTER"


async def test_a_signal_for_a_dump_reaches_the_child_alone(node: FarNode) -> None:
    """SIGUSR1 travels."""
    script = "trap 'echo dump; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    spec = Spec(attempt="i1-1", argv=("sh", "-c", script), cwd="/", env=ENV)
    async with node.session() as session, await session.launcher.spawn(spec) as handle:
        assert await handle.stdout.receive_some() == b"ready\n"
        await handle.signal(signal.SIGUSR1)
        with trio.fail_after(PATIENCE):
            assert await handle.stdout.receive_some() == b"dump\n"
            assert (await handle.wait()).code == 4


async def test_what_is_used_again_elsewhere_is_not_on_a_node(node: FarNode) -> None:
    """A worker is reused only where it is known to be alone and its directory bare."""
    async with node.session() as session, await session.launcher.spawn(Spec(attempt="i1-1")) as handle:
        assert await handle.count() == 0
        assert not handle.is_bare()
        with pytest.raises(OSError, match="is on a node"):
            handle.assign("i2-1")
        assert handle.is_quiet() and handle.processes == frozenset()


async def test_what_a_shell_prints_before_the_node_speaks_is_passed_over(node: FarNode) -> None:
    session, way, banner = NodeSession("n1", PROJECT, 1, trio.aclose_forcefully), await node.open(), [b"Welcome!\r\n\0"]
    way.receives = lambda data: (banner.pop() if banner else b"") + data
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.speak, way)
        await within(PATIENCE, session.connected.wait)
        nursery.cancel_scope.cancel()
