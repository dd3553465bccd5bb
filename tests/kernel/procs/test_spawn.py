"""What is believed of a keeper's first word, and the pipes to its child."""

import os
import signal
import socket
from pathlib import Path

import pytest
import trio

from kernel.procs import procfs
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.spawn import spawn_keeper
from kernel.procs.spec import Pipe, PipeEnds, Spec, open_pipes
from protocol.ipc import Fork, Started
from protocol.ndjson import encode
from tests.kernel.procs.trees import PATIENCE, within

pytestmark = pytest.mark.skipif(not procfs.table(), reason="nobody can be named without /proc")


@pytest.mark.promise("PF11")
async def test_a_worker_is_found_also_where_its_keeper_cannot_name_itself(run_dir: Path) -> None:
    child = await trio.lowlevel.open_process(["sleep", "1000"])
    named = procfs.identify(child.pid)
    assert named is not None
    ours, theirs = socket.socketpair()

    async def deliver(_order: Fork, _ends: PipeEnds) -> KeeperLink:
        theirs.sendall(encode(Started(pid=child.pid, keeper=1, pid_since=named.start_time)))
        return KeeperLink(ours)

    try:
        async with await spawn_keeper(Spec(attempt="i1-1"), run_dir, deliver) as handle:
            await handle.signal(signal.SIGTERM)
            assert await within(PATIENCE, child.wait) == -signal.SIGTERM
            theirs.close()
    finally:
        theirs.close()
        child.kill()
        await child.wait()


async def test_a_pipe_that_is_always_full_leaves_the_others_their_turn() -> None:
    ours, theirs = open_pipes()
    os.write(theirs.stdout, b"x" * 40)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        pipe = Pipe(ours.stdout)
        said = [await pipe.receive_some(1) for _ in range(40)]
        assert said == [b"x"] * 40
        assert 3 <= turns <= 8
        theirs.close()
        assert await pipe.receive_some() == b""
        await pipe.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await pipe.receive_some()
        stdin = Pipe(ours.stdin)
        with pytest.raises(trio.BrokenResourceError):
            await stdin.send_all(b"nobody reads")
        stdin.close()
        os.close(ours.stderr)
        nursery.cancel_scope.cancel()


async def test_what_a_pipe_cannot_take_at_once_is_sent_whole() -> None:
    ours, theirs = open_pipes()
    data = os.urandom(300_000)
    heard = bytearray()
    async with (
        Pipe(ours.stdin) as stdin,
        trio.lowlevel.FdStream(theirs.stdin) as reader,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stdin.send_all, data)
        while len(heard) < len(data):
            heard += await reader.receive_some(10_000)
    assert bytes(heard) == data
    for fd in (ours.stdout, ours.stderr, theirs.stdout, theirs.stderr):
        os.close(fd)
