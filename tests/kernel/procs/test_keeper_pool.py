"""Keepers that serve again, and the worker that stands by: fresh processes for each attempt all the same."""

import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest
import trio
import trio.testing

from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import Handle
from kernel.procs.keeper_link import IDLE_SECONDS, MOST, KeeperLink, KeeperPool
from kernel.procs.spawn import StandbyWorker
from kernel.procs.spec import Spec
from tests.kernel.procs.trees import ENV, PATIENCE, gone, within


async def _worker(launcher: ForkLauncher, attempt: str) -> tuple[int, int]:
    with trio.fail_after(PATIENCE):
        async with await launcher.spawn(Spec(attempt=attempt)) as handle:
            await handle.stdout.receive_some()
            await handle.stdin.aclose()
            assert (await handle.wait()).code == 1
    return handle.pid, handle.keeper_pid


async def _standing_by(launcher: ForkLauncher) -> Handle:
    (zygote,) = launcher._zygotes  # pyright: ignore[reportPrivateUsage]
    with trio.fail_after(PATIENCE):
        while (handle := zygote.standby._handle) is None:  # pyright: ignore[reportPrivateUsage]
            await trio.testing.wait_all_tasks_blocked(0.005)
    return handle


async def test_a_keeper_serves_again_and_each_attempt_has_a_fresh_process(forking: ForkLauncher) -> None:
    served = [await _worker(forking, f"i{number}-1") for number in range(6)]
    assert len({pid for pid, _keeper in served}) == 6
    assert len({keeper for _pid, keeper in served}) < 6


async def test_a_keeper_that_knew_a_commands_environment_serves_no_worker(forking: ForkLauncher) -> None:
    """contracts 6: a worker learns everything from start."""
    spec = Spec(attempt="setup", argv=("true",), cwd="/", env=ENV | {"SECRET": "x"})
    async with await forking.spawn(spec) as command:
        await command.wait()
    assert (await _worker(forking, "i1-1"))[1] != command.keeper_pid
    await gone([command.keeper_pid])


@pytest.mark.promise("P7")
async def test_spare_keepers_and_a_standby_that_were_killed_harm_nobody(forking: ForkLauncher) -> None:
    async with await forking.spawn(Spec(attempt="a")) as one, await forking.spawn(Spec(attempt="b")) as other:
        keepers = [one.keeper_pid, other.keeper_pid]
    waiting = await _standing_by(forking)
    keepers.append(waiting.keeper_pid)
    for pid in set(keepers):
        os.kill(pid, signal.SIGKILL)
    await gone([*keepers, waiting.pid])
    assert (await _worker(forking, "c"))[1] not in keepers


async def test_an_attempt_in_use_is_refused_to_a_standby_too(forking: ForkLauncher) -> None:
    await _worker(forking, "i1-1")
    await _standing_by(forking)
    async with await forking.spawn(Spec(attempt="i2-1")):
        with pytest.raises(FileExistsError):
            await forking.spawn(Spec(attempt="i2-1"))


async def test_a_standby_carries_its_attempts_name_once_it_has_one(forking: ForkLauncher, run_dir: Path) -> None:
    await _worker(forking, "i1-1")
    waiting = await _standing_by(forking)
    before = waiting.directory
    async with await forking.spawn(Spec(attempt="i2-1")) as handle:
        assert handle is waiting
        assert handle.attempt == "i2-1"
        assert handle.directory == run_dir / "i2-1"
        assert (handle.directory / "alive").exists()
        assert not before.exists()
    assert not handle.directory.exists()


async def test_a_retired_zygote_keeps_no_spares(forking: ForkLauncher) -> None:
    await _worker(forking, "i1-1")
    await _standing_by(forking)
    (old,) = psutil.Process().children()
    forking.need(frozenset({"nothing-to-import"}))
    await within(PATIENCE, trio.to_thread.run_sync, old.wait)


async def test_spares_are_bounded_and_end_when_there_is_nothing_to_do(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    spares = KeeperPool()
    nursery.start_soon(spares.thin_out)
    pairs = [socket.socketpair() for _ in range(MOST + 1)]
    for ours, _theirs in pairs:
        spares.park(KeeperLink(ours))
    assert pairs[-1][1].recv(1) == b""
    await trio.sleep(IDLE_SECONDS + 1)
    for _ours, theirs in pairs:
        with theirs:
            theirs.settimeout(1)
            assert theirs.recv(1) == b""
    assert spares.take() is None


async def test_who_asks_first_while_a_standby_is_made_gets_that_one() -> None:
    standby, made, taken = StandbyWorker(), trio.Event(), list[object]()
    worker = SimpleNamespace(is_quiet=lambda: True)

    async def start(_spec: Spec) -> Handle:
        await made.wait()
        return cast("Handle", worker)

    async def first() -> None:
        taken.append(await standby.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(standby.run, start)
        standby.ask()
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        assert (await standby.take(), taken) == (None, [])
        made.set()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert taken == [worker]
