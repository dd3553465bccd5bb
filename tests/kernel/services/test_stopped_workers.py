"""Stopping attempts: bounded whatever the worker does, and nothing it says afterwards counts."""

from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing
from apsw import Connection

from kernel.app import LADDER_SECONDS, cancel_at_last
from kernel.services import running_attempt
from kernel.services.supervision import ShutdownSignal
from kernel.store.entries import of as entries_of
from kernel.store.transitions.close import cancel
from protocol.ipc import Entry, Error, Exited, Result, Stop, WorkerFrame
from tests.kernel.services.kernel_core import Core, PlayedLauncher, PlayedWorker, core

DONE = Result(status="done", text="too late")


class Deaf(trio.abc.SendStream):
    """The input of a worker that does not read: full, until it is gone."""

    def __init__(self, worker: PlayedWorker) -> None:
        self._worker = worker

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._worker.wait()
        raise trio.BrokenResourceError("nobody reads")

    async def wait_send_all_might_not_block(self) -> None:
        await self._worker.wait()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.promise("P8")
async def test_a_worker_that_does_not_read_is_stopped_as_fast_as_any_other(it: Core) -> None:
    """A stop frame that cannot be written delays no ladder (it may take 30 s to be given up)."""
    instruction = await it.send()
    worker = await it.launcher.next()
    worker.stdin = Deaf(worker)  # type: ignore[assignment]
    await worker.say()
    await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(5):
        await it.dispatcher.drain(0.1)
    assert it.status(instruction) == "queued"


@pytest.mark.promise("P13")
async def test_a_worker_that_dies_as_the_kernel_writes_to_it_is_a_crash(it: Core) -> None:
    await it.send()
    worker = await it.launcher.next()
    await worker.inbox.aclose()
    await worker.say()
    await trio.testing.wait_all_tasks_blocked()
    await worker.leave(Exited(signal=9))
    await it.launcher.next(2)

    def ended(conn: Connection) -> list[tuple[str, str]]:
        return cast("list[tuple[str, str]]", conn.execute("SELECT outcome, exit FROM attempts WHERE n = 1").fetchall())

    assert it.reader.now(ended) == [("crash", "SIGKILL")]


@pytest.mark.promise("IF16")
@pytest.mark.parametrize("late", [DONE, Error(cause="crash", text="x"), Entry(k=0, kind="reply", text="late")])
async def test_nothing_a_worker_says_after_its_work_was_taken_back_counts(it: Core, late: WorkerFrame) -> None:
    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.say()
    await worker.hear()  # its start
    await it.writer.commit(cancel, instruction)
    await worker.finish(late)
    with trio.fail_after(10):
        await it.dispatcher.drain(0.0)
    assert it.status(instruction) == "cancelled"
    assert it.reader.now(entries_of, instruction) == ()


@pytest.mark.promise("P8")
async def test_a_kernel_that_is_asked_to_stop_leaves_in_bounded_time(autojump_clock: trio.testing.MockClock) -> None:
    """Within 20 s, whatever is still waited for."""
    shutdown = ShutdownSignal()
    shutdown.ask()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_at_last, shutdown, scope, await shutdown.asked())
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() == 10.0 + LADDER_SECONDS <= 20.0


@pytest.mark.promise("P8", "PF18")
async def test_a_second_request_to_stop_ends_all_patience(autojump_clock: trio.testing.MockClock) -> None:
    shutdown = ShutdownSignal()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_at_last, shutdown, scope, 10.0)
            shutdown.ask()
            await trio.sleep(1)
            shutdown.ask()
            await trio.sleep_forever()
    assert trio.current_time() == 1.0


async def test_a_worker_that_broke_the_protocol_is_ended_and_not_waited_for(
    it: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows nothing of its end: only who said its last word, or was told, gets time to leave."""
    monkeypatch.setattr(running_attempt, "LEAVE_SECONDS", 600.0)
    await it.send()
    worker = await it.launcher.next()
    await worker.say()
    await worker.outbox.send_all(b'{"t":"entry","k":-1}\n')
    with trio.fail_after(10):
        exited = await worker.wait()
    assert exited.killed


@pytest.mark.promise("P8")
async def test_a_program_that_never_said_it_is_ready_is_not_given_the_grace_of_one_that_reads(tmp_path: Path) -> None:
    async with core(tmp_path, PlayedLauncher()) as it:
        instruction = await it.send()
        await it.launcher.next()
        with trio.fail_after(5):
            await it.dispatcher.drain(60)
        assert it.status(instruction) == "queued"
    (tmp_path / "other").mkdir()
    async with core(tmp_path / "other", PlayedLauncher()) as it:
        instruction = await it.send()
        worker = await it.launcher.next()
        await worker.say()
        await worker.hear()  # its start
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.dispatcher.drain, 60)
            assert isinstance(await worker.hear(), Stop)
            await trio.testing.wait_all_tasks_blocked()
            assert it.attempts.running  # it has its time
            await worker.leave(Exited(code=0))
        assert it.status(instruction) == "queued"


@pytest.mark.promise("P8")
async def test_who_waits_for_the_end_of_attempts_waits_for_the_tree_and_for_those_alone(it: Core) -> None:
    """Also where the lease is only being committed; of others nobody waits."""
    instruction = await it.send()
    with trio.fail_after(5):
        await it.attempts.until_gone(lambda leased: leased.agent == "nobody")
    worker = await it.launcher.next()
    await worker.say()
    await it.writer.commit(cancel, instruction)
    gone = trio.Event()

    async def wait() -> None:
        await it.attempts.until_gone(lambda leased: leased.agent == "alice")
        gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not gone.is_set()
        await worker.leave(Exited(code=0))
        with trio.fail_after(5):
            await gone.wait()
    assert it.attempts.running == {}
