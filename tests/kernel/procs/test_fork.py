"""The zygote: it may die or be replaced at any time, and harms nobody."""

import os
import signal
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing

from kernel.procs import fork
from kernel.procs.fork import ForkLauncher
from kernel.procs.spec import Spec
from tests.kernel.procs.trees import ENV, LEAVES, PATIENCE, STAYS, alive, gone, read_pids, within


def zygotes() -> list[psutil.Process]:
    """Those of this process, which has no other children."""
    return psutil.Process().children()


def tree(attempt: str, argv: tuple[str, ...] = STAYS) -> Spec:
    return Spec(attempt=attempt, argv=argv, cwd="/", env=ENV)


@pytest.mark.promise("P7")
async def test_a_killed_zygote_harms_nobody_and_the_next_spawn_works(forking: ForkLauncher) -> None:
    async with await forking.spawn(tree("a", LEAVES)) as first:
        pids = await read_pids(first.stdout)
        (zygote,) = zygotes()
        zygote.kill()
        async with await forking.spawn(tree("b")) as second:
            others = await read_pids(second.stdout)
            assert alive([*pids, *others]) == [*pids, *others]
            assert zygotes() != [zygote]
            await first.stdin.send_all(b"go\n")
            assert (await within(2, first.wait)).code == 3
            assert alive(pids) == []
            assert alive(others) == others


async def test_orders_under_way_when_the_zygote_dies_go_to_the_next_one(forking: ForkLauncher) -> None:
    (zygote,) = zygotes()
    zygote.suspend()
    codes: list[int | None] = []

    async def once(number: int) -> None:
        async with await forking.spawn(tree(f"i{number}-1", ("sh", "-c", f"exit {number}"))) as handle:
            codes.append((await handle.wait()).code)

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(once, number)
            await trio.testing.wait_all_tasks_blocked(0.01)
            zygote.kill()
    assert sorted(codes, key=str) == [0, 1, 2, 3, 4]


@pytest.mark.promise("PF25")
async def test_a_zygote_that_is_stopped_is_replaced_and_its_orders_go_to_the_next_one(
    forking: ForkLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(fork, "ANSWER_SECONDS", 0.2)
    with trio.fail_after(PATIENCE):
        async with await forking.spawn(tree("before")) as before:
            pids = await read_pids(before.stdout)
            for number in range(2):
                (zygote,) = zygotes()
                zygote.suspend()
                async with await forking.spawn(tree(f"i{number}-1", ("sh", "-c", f"exit {number}"))) as handle:
                    assert (await handle.wait()).code == number
                assert zygotes() != [zygote]
            assert alive(pids) == pids


async def test_orphans_of_one_keeper_die_and_those_of_another_live(forking: ForkLauncher) -> None:
    async with await forking.spawn(tree("a")) as first, await forking.spawn(tree("b")) as second:
        pids, others = await read_pids(first.stdout), await read_pids(second.stdout)
        os.kill(first.keeper_pid, signal.SIGKILL)
        await gone(pids)
        assert alive(others) == others
        assert alive([second.keeper_pid]) == [second.keeper_pid]


@pytest.mark.promise("P7")
async def test_a_tree_without_keeper_and_zygote_is_found_by_the_kernel(forking: ForkLauncher) -> None:
    async with await forking.spawn(tree("a")) as handle:
        pids = await read_pids(handle.stdout)
        (zygote,) = zygotes()
        zygote.kill()
        await within(PATIENCE, trio.to_thread.run_sync, zygote.wait)
        os.kill(handle.keeper_pid, signal.SIGKILL)
        assert (await within(2, handle.wait)).signal == signal.SIGKILL
        assert alive(pids) == []


async def test_a_new_need_replaces_the_zygote_and_attempts_live_on(forking: ForkLauncher) -> None:
    """The zygote can be replaced at any time; preload only what is needed."""
    async with await forking.spawn(tree("a", LEAVES)) as first:
        pids = await read_pids(first.stdout)
        (old,) = zygotes()
        forking.need(frozenset({"nothing-to-import"}))
        with trio.fail_after(PATIENCE):
            while True:
                async with await forking.spawn(tree("b", ("cat",))) as second:
                    if psutil.Process(second.keeper_pid).ppid() != old.pid:
                        break
        assert alive(pids) == pids
        await first.stdin.send_all(b"go\n")
        assert (await within(2, first.wait)).code == 3
        await within(PATIENCE, trio.to_thread.run_sync, old.wait)


@pytest.mark.promise("P8")
async def test_the_end_of_the_launcher_is_the_end_of_the_zygote(run_dir: Path) -> None:
    launcher = ForkLauncher(run_dir=run_dir, environ=ENV)
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        async with await launcher.spawn(tree("a", ("true",))) as handle:
            await handle.wait()
        (zygote,) = zygotes()
        nursery.cancel_scope.cancel()
    assert not zygote.is_running()


async def test_the_title_names_the_attempt(forking: ForkLauncher) -> None:
    async with await forking.spawn(Spec(attempt="i7-2")) as handle:
        await handle.stdout.receive_some()
        titles = [psutil.Process(pid).cmdline()[0] for pid in (handle.keeper_pid, handle.pid)]
    assert titles == ["agent-worker: keeper i7-2", "agent-worker: worker i7-2"]
