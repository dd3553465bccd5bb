"""Processes that run on while the kernel's program is replaced: one handle lets go of them, another one has them."""

import gc
import os
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing

from kernel.procs.attempt_dir import sweep
from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import CannotHandOver, HandedHandle, Handle
from kernel.procs.launcher import Launcher, SpawnControl
from kernel.procs.procfs import reap
from kernel.procs.spec import Spec
from tests.kernel.procs.conftest import make
from tests.kernel.procs.trees import ENV, PATIENCE, within

ECHOES = ("sh", "-c", "while read line; do echo got $line; done; exit 7")


def command(attempt: str = "i1-1", argv: tuple[str, ...] = ECHOES, *, spare: bool = False) -> Spec:
    return Spec(attempt=attempt, argv=argv, cwd="/", env=ENV, spare=spare)


async def line_of(handle: Handle) -> bytes:
    """The next line that it prints."""
    text = b""
    with trio.fail_after(PATIENCE):
        while not text.endswith(b"\n"):
            text += await handle.stdout.receive_some()
    return text


def taken_over(handle: Handle, run_dir: Path) -> Handle:
    """The handle that another program makes of what this one hands over."""
    handed = handle.export()
    handle.let_go()
    return Handle.adopted(handed, run_dir)


@pytest.mark.promise("P92")
@pytest.mark.parametrize("launcher", ["fork", "exec"], indirect=True)  # what is on a node is waited for
async def test_a_process_is_talked_with_by_who_takes_it_over_to_its_end(launcher: Launcher, run_dir: Path) -> None:
    old = await launcher.spawn(command())
    await old.stdin.send_all(b"one\n")
    assert await line_of(old) == b"got one\n"
    new = taken_over(old, run_dir)
    await new.stdin.send_all(b"two\n")
    assert await line_of(new) == b"got two\n"
    assert (new.pid, new.processes) == (old.pid, old.processes)
    await new.stdin.aclose()
    assert (await within(PATIENCE, new.wait)).code == 7
    await new.aclose()
    assert not (run_dir / "i1-1").exists()


@pytest.mark.promise("P92")
@pytest.mark.parametrize("launcher", ["fork", "exec"], indirect=True)  # what is on a node is waited for
async def test_who_has_let_go_touches_nothing_any_more(launcher: Launcher, run_dir: Path) -> None:
    """Neither closing nor killing reaches the process, and waiting for it never ends."""
    async with await launcher.spawn(command()) as old:
        new = taken_over(old, run_dir)
        await old.kill()
        with trio.move_on_after(0.05) as waiting:
            await old.wait()
        assert waiting.cancelled_caught
    async with new:
        await new.stdin.send_all(b"still\n")
        assert await line_of(new) == b"got still\n"


async def test_a_process_that_has_ended_is_not_handed_over(launcher: Launcher) -> None:
    async with await launcher.spawn(command(argv=("true",))) as handle:
        await within(PATIENCE, handle.wait)
        with pytest.raises(CannotHandOver, match="is just ending"):
            handle.export()


@pytest.mark.promise("P92")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # subprocess: they still run
@pytest.mark.parametrize("kind", ["fork", "exec"])
async def test_what_runs_outlives_its_launcher_and_is_reaped(kind: str, run_dir: Path) -> None:
    launcher, left = make(kind, run_dir), list[HandedHandle]()
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        control = SpawnControl(launcher)
        handle = await control.spawn(command())
        children = (*await control.hand_over(), handle.keeper_pid)
        left.append(handle.export())
        handle.let_go()
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery, Handle.adopted(left[0], run_dir) as adopted:
        nursery.start_soon(reap, children)
        await adopted.stdin.send_all(b"you\n")
        assert await line_of(adopted) == b"got you\n"
        await adopted.aclose()
        with trio.fail_after(PATIENCE):
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()
    assert not any(map(psutil.pid_exists, children))
    del launcher, control
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # subprocess: they still run
async def test_a_zygote_that_has_loaded_in_this_moment_is_handed_over_too(run_dir: Path) -> None:
    launcher = make("fork", run_dir)
    assert isinstance(launcher, ForkLauncher)
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        launcher._zygotes[0].preloaded.set()  # pyright: ignore[reportPrivateUsage]  (its loading cannot be timed from outside)
        children = await launcher.hand_over()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await within(PATIENCE, reap, children)
    assert not any(map(psutil.pid_exists, children))


async def test_nobody_waits_for_a_child_that_is_none() -> None:
    await within(PATIENCE, reap, [2**22 + 1])
    with trio.move_on_after(0.05) as waiting:
        await reap([os.getppid()])
    assert waiting.cancelled_caught


@pytest.mark.promise("P92")
async def test_a_sweep_leaves_alone_what_goes_on(launcher: Launcher, run_dir: Path) -> None:
    async with await launcher.spawn(command()) as handle:
        (run_dir / "i2-1").mkdir()
        swept = await sweep(run_dir, beside=["i1-1"])
        assert (swept.attempts, swept.survivors) == (("i2-1",), ())
        await handle.stdin.send_all(b"there\n")
        assert await line_of(handle) == b"got there\n"


async def test_what_runs_is_known_by_name_but_for_what_may_be_ended(launcher: Launcher) -> None:
    control = SpawnControl(launcher)
    worker = await control.spawn(command("i1-1"))
    spare = await control.spawn(command("spare-1", spare=True))
    git = await control.spawn(command("git-1"))
    assert control.under_way([worker]) == ("git-1",)
    await git.aclose()
    assert control.under_way([worker]) == ()
    control.shut_off()
    with trio.move_on_after(0.05) as waiting:
        await control.spawn(command("late-1"))
    assert waiting.cancelled_caught
    assert control.under_way([]) == ("i1-1",)
    control.open()
    async with worker, spare, await control.spawn(command("late-1")):
        assert sorted(control.under_way([])) == ["i1-1", "late-1"]
