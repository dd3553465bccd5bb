"""Finding our own processes, and never a stranger."""

import os
import subprocess
from collections.abc import AsyncIterator

import pytest
import trio

from kernel.procs import procfs
from kernel.procs.procfs import ProcessId, ProcessRow
from protocol.ipc import COOKIE_VARIABLE
from tests.kernel.procs.trees import within


def row(pid: int, parent: int, start_time: int = 1) -> ProcessRow:
    return ProcessRow(ProcessId(pid, start_time), parent)


ROWS = {one.id.pid: one for one in (row(1, 0), row(10, 1), row(11, 10), row(12, 11), row(20, 1), row(21, 20))}


@pytest.mark.promise("P7")
def test_a_family_is_a_root_and_all_below_it() -> None:
    assert procfs.descendants([ProcessId(10, 1)], ROWS) == {ProcessId(10, 1), ProcessId(11, 1), ProcessId(12, 1)}


@pytest.mark.promise("PF11")
def test_a_root_whose_pid_was_given_away_has_no_family() -> None:
    assert procfs.descendants([ProcessId(10, 2), ProcessId(99, 1)], ROWS) == set()


@pytest.fixture
async def sleeper() -> AsyncIterator[trio.Process]:
    """A process of ours that sleeps, with a cookie in its environment."""
    process = await trio.lowlevel.open_process(
        ["sh", "-c", "echo; read line"],
        env={COOKIE_VARIABLE: "abc", "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.receive_some(1)  # a process has no environment for a moment while it becomes another program
    yield process
    process.kill()
    await process.wait()


async def test_a_process_is_found_by_its_cookie(sleeper: trio.Process) -> None:
    """Kill by cookie scan; only the whole value counts."""
    named = procfs.identify(sleeper.pid)
    assert procfs.by_cookie({"abc"}, procfs.table()) == {named}
    assert procfs.by_cookie({"ab", "abcd", ""}, procfs.table()) == set()


@pytest.mark.promise("PF11")
async def test_only_the_very_process_is_killed(sleeper: trio.Process) -> None:
    """Never a bare pid."""
    named = procfs.identify(sleeper.pid)
    assert named is not None
    procfs.kill(ProcessId(named.pid, named.start_time - 1))
    assert await procfs.end([ProcessId(named.pid, named.start_time - 1)], ()) == frozenset()
    assert procfs.identify(sleeper.pid) == named
    assert await procfs.end([named], ()) == frozenset()
    assert await within(5, sleeper.wait) == -9


@pytest.mark.promise("P7")
def test_a_dead_process_that_nobody_reaped_counts_as_gone() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert procfs.identify(pid) is None
    finally:
        os.waitpid(pid, 0)
