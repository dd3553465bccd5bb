"""Workers that are kept: how long, how many, and for whom."""

from typing import Any, cast

import pytest
import trio
import trio.testing

from kernel.procs.handle import Handle
from kernel.services.kept_workers import IDLE_SECONDS, MOST, IdleWorker, KeptWorkers, Worker
from kernel.store.transitions.lease import Leased

pytestmark = pytest.mark.promise("P36")


class FakeHandle:
    """A process without one."""

    def __init__(self) -> None:
        self.gone = trio.Event()
        self.quiet = self.bare = True

    def is_quiet(self) -> bool:
        return self.quiet

    def is_bare(self) -> bool:
        return self.bare

    async def wait(self) -> None:
        await self.gone.wait()

    async def aclose(self) -> None:
        self.gone.set()
        await trio.lowlevel.checkpoint()


class FakeLease:
    """As much of a lease as is looked at."""

    def __init__(self, agent: str) -> None:
        self.agent = agent


@pytest.fixture
def workers() -> KeptWorkers:
    """Nothing is launched here."""
    return KeptWorkers()


def keep(workers: KeptWorkers, handle: FakeHandle, agent: str = "alice") -> IdleWorker | None:
    """Keep a worker for ``agent``."""
    lease: Any = FakeLease(agent)
    return workers.keep(Worker(cast("Handle", handle), b""), cast("Leased", lease), 3)


async def test_one_that_nobody_wants_is_ended_after_its_time(
    workers: KeptWorkers, autojump_clock: trio.testing.MockClock
) -> None:
    handle, dead = FakeHandle(), FakeHandle()
    kept, died = keep(workers, handle), keep(workers, dead, "bob")
    assert kept is not None and died is not None
    dead.gone.set()
    await workers.watch(died)
    assert trio.current_time() < IDLE_SECONDS
    assert list(workers.waiting) == ["alice"]
    await workers.watch(kept)
    assert trio.current_time() >= IDLE_SECONDS
    assert handle.gone.is_set()
    assert not workers.waiting


async def test_one_that_is_taken_is_nobody_elses_to_end(workers: KeptWorkers) -> None:
    handle = FakeHandle()
    kept = keep(workers, handle)
    assert kept is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers.watch, kept)
        await trio.testing.wait_all_tasks_blocked()
        assert not kept.take().kept
    assert not handle.gone.is_set()


@pytest.mark.parametrize("what", ["quiet", "bare"])
async def test_one_that_has_ended_or_left_a_file_is_not_kept(workers: KeptWorkers, what: str) -> None:
    handle = FakeHandle()
    setattr(handle, what, False)
    assert keep(workers, handle) is None
    assert not workers.waiting


async def test_there_are_never_more_than_the_most(workers: KeptWorkers) -> None:
    handles = [FakeHandle() for _ in range(MOST + 1)]
    async with trio.open_nursery() as nursery:
        for number, handle in enumerate(handles):
            kept = keep(workers, handle, f"a{number}")
            assert kept is not None
            nursery.start_soon(workers.watch, kept)
        await trio.testing.wait_all_tasks_blocked()
        assert [handle.gone.is_set() for handle in handles] == [True] + [False] * MOST
        await workers.end(lambda leased: leased.agent == "a1")
        assert handles[1].gone.is_set()
        workers.close()
    assert all(handle.gone.is_set() for handle in handles)
    assert keep(workers, FakeHandle()) is None
