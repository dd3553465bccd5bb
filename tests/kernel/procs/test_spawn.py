"""What is believed of a keeper's first word."""

import signal
import socket
from pathlib import Path

import pytest
import trio

from kernel.procs import procfs
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.spawn import spawn_keeper
from kernel.procs.spec import PipeEnds, Spec
from protocol.ipc import Fork, Started
from protocol.ndjson import encode
from tests.kernel.procs.trees import PATIENCE

pytestmark = pytest.mark.skipif(not procfs.table(), reason="nobody can be named without /proc")


@pytest.mark.promise("PF11")
async def test_a_worker_is_found_also_where_its_keeper_cannot_name_itself(run_dir: Path) -> None:
    """One of two start times that could not be read (a system out of files) says nothing of the other."""
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
            with trio.fail_after(PATIENCE):
                assert await child.wait() == -signal.SIGTERM
            theirs.close()
    finally:
        theirs.close()
        child.kill()
        await child.wait()
