"""The stop ladder, rung by rung."""

import os
import signal

import trio

from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import Handle
from kernel.procs.spec import Spec
from kernel.procs.stop import stop
from tests.kernel.procs.trees import ENV, STAYS, gone, read_pids


async def start(launcher: ForkLauncher, *argv: str) -> Handle:
    return await launcher.spawn(Spec(attempt="i1-1", argv=argv, cwd="/", env=ENV))


async def test_who_leaves_in_time_is_not_signalled(forking: ForkLauncher) -> None:
    """promises 4.6: grace first."""
    async with await start(forking, "sh", "-c", "read line; exit 3") as handle:
        await handle.stdin.aclose()
        with trio.fail_after(5):
            exited = await stop(handle, grace_seconds=30)
    assert (exited.code, exited.killed) == (3, False)


async def test_sigterm_follows_the_grace(forking: ForkLauncher) -> None:
    """promises 4.6: then SIGTERM."""
    async with await start(forking, "sh", "-c", "trap 'exit 4' TERM; echo $$; while :; do read x; done") as handle:
        await read_pids(handle.stdout, 1)
        with trio.fail_after(5):
            exited = await stop(handle, grace_seconds=0)
    assert (exited.code, exited.killed) == (4, True)


async def test_sigkill_follows_sigterm(forking: ForkLauncher) -> None:
    """promises PF05: who ignores SIGTERM is killed with its tree."""
    async with await start(forking, *STAYS) as handle:
        pids = await read_pids(handle.stdout)
        with trio.fail_after(5):
            exited = await stop(handle, grace_seconds=0, term_seconds=0.1)
        await gone(pids)
    assert exited.signal == signal.SIGKILL


async def test_a_keeper_that_does_not_answer_is_killed_at_last(forking: ForkLauncher) -> None:
    """promises P8: stop returns within grace + 7 s, whatever happens."""
    async with await start(forking, *STAYS) as handle:
        pids = await read_pids(handle.stdout)
        os.kill(handle.keeper_pid, signal.SIGSTOP)
        with trio.fail_after(5):
            exited = await stop(handle, grace_seconds=0, term_seconds=0.1)
        await gone(pids)
    assert exited.killed
