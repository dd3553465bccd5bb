"""The stop ladder, rung by rung."""

import os
import signal
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
import trio

from kernel.procs import procfs
from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import VERIFY_SECONDS, Handle, stop
from kernel.procs.procfs import ProcessId
from kernel.procs.spec import Spec
from tests.kernel.procs.trees import ENV, STAYS, gone, left_in, read_pids, within


async def start(launcher: ForkLauncher, *argv: str) -> Handle:
    return await launcher.spawn(Spec(attempt="i1-1", argv=argv, cwd="/", env=ENV))


async def test_who_leaves_in_time_is_not_signalled(forking: ForkLauncher) -> None:
    async with await start(forking, "sh", "-c", "read line; exit 3") as handle:
        await handle.stdin.aclose()
        exited = await within(5, stop, handle, grace_seconds=30)
    assert (exited.code, exited.killed) == (3, False)


async def test_sigterm_follows_the_grace(forking: ForkLauncher) -> None:
    async with await start(forking, "sh", "-c", "trap 'exit 4' TERM; echo $$; while :; do read x; done") as handle:
        await read_pids(handle.stdout, 1)
        exited = await within(5, stop, handle, grace_seconds=0)
    assert (exited.code, exited.killed) == (4, True)


@pytest.mark.promise("PF05")
async def test_sigkill_follows_sigterm(forking: ForkLauncher) -> None:
    async with await start(forking, *STAYS) as handle:
        pids = await read_pids(handle.stdout)
        exited = await within(5, stop, handle, grace_seconds=0, term_seconds=0.1)
        await gone(pids)
    assert exited.signal == signal.SIGKILL


@pytest.mark.promise("P8")
async def test_a_keeper_that_does_not_answer_is_killed_at_last(
    forking: ForkLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop returns within grace + 7 s, whatever happens."""
    monkeypatch.setattr("kernel.procs.handle.VERIFY_SECONDS", 0.3)
    async with await start(forking, *STAYS) as handle:
        pids = await read_pids(handle.stdout)
        os.kill(handle.keeper_pid, signal.SIGSTOP)
        exited = await within(5, stop, handle, grace_seconds=0, term_seconds=0.1)
        await gone(pids)
    assert exited.killed


@pytest.mark.promise("P8")
@pytest.mark.parametrize(
    ("script", "ended_by"),
    [
        ("trap '' TERM HUP INT; echo $$; while :; do sleep 1000; done", signal.SIGKILL),
        ("echo $$; kill -STOP $$; sleep 1000", signal.SIGTERM),
        ("trap '' TERM; echo $$; kill -STOP $$; while :; do sleep 1000; done", signal.SIGKILL),
        ("exec >&- 2>&-; trap '' TERM; while :; do sleep 1000; done", signal.SIGKILL),
    ],
    ids=["ignores SIGTERM", "stopped", "stopped and ignores SIGTERM", "closed its output"],
)
async def test_no_behaviour_outlasts_the_ladder(forking: ForkLauncher, script: str, ended_by: signal.Signals) -> None:
    """Over within grace, term and 2 s, however it behaves."""
    async with await start(forking, "sh", "-c", script) as handle:
        if "echo" in script:
            await read_pids(handle.stdout, 1)
        with trio.fail_after(0.05 + 0.1 + VERIFY_SECONDS):
            exited = await stop(handle, grace_seconds=0.05, term_seconds=0.1)
    assert (exited.signal, exited.killed) == (ended_by, True)


async def test_what_will_not_die_is_told_and_left_for_the_next_kernel_to_find(
    forking: ForkLauncher, run_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Survivors are a leak, logged and tried again; only a stuck system call makes one."""
    handle = await start(forking, "sh", "-c", "sleep 1000")

    async def vain(roots: Iterable[ProcessId], cookies: Collection[str]) -> frozenset[ProcessId]:
        found = await really(roots, cookies)
        assert not found
        return frozenset({ProcessId(4711, 1)})

    really = procfs.end
    monkeypatch.setattr(procfs, "end", vain)
    os.kill(handle.keeper_pid, signal.SIGKILL)
    with trio.fail_after(5):
        await handle.wait()
        await handle.aclose()
    assert handle.survivors == (4711,)
    assert left_in(run_dir) == ["i1-1"]
    assert "procs.leak i1-1: (4711,)" in caplog.text
