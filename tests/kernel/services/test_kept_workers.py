"""Workers that are kept: how long, how many, and for whom."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest
import trio
import trio.testing

from kernel.procs.handle import Handle
from kernel.procs.spec import Spec
from kernel.services.kept_workers import IDLE_SECONDS, MOST, IdleWorker, KeptWorkers, WorkerProcess
from kernel.services.supervision import PLACES, InFlight
from kernel.services.work_places import WorkPlace
from kernel.store.transitions.lease import Leased
from protocol.ipc import Entry, Progress, Provider, Result
from protocol.names import instruction_id
from tests.kernel.services.kernel_core import Core
from tests.kernel.services.test_handover import ATTEMPT, DEFINITION
from tests.kernel.services.test_worker_session import START
from tests.shorthand import present

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

    def assign(self, attempt: str) -> None:
        self.attempt = attempt

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
    lease: Any = FakeLease(agent)
    return workers.keep(WorkerProcess(cast("Handle", handle), b""), cast("Leased", lease), 3)


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
    kept = present(keep(workers, handle))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers.watch, kept)
        await trio.testing.wait_all_tasks_blocked()
        assert not kept.take().kept
    assert not handle.gone.is_set()


FRAME = msgspec.structs.replace(
    ATTEMPT.frame,
    start=msgspec.structs.replace(START, provider=Provider(name="x", dialect="openai", api_key="k1")),
    reuse=20,
)


@pytest.mark.parametrize(
    ("agent", "frame", "start", "reused"),
    [
        ("alice", {}, {"attempt": "i2-1", "instruction": "i2", "token": "other", "message": "bye"}, True),
        ("bob", {}, {}, False),
        ("alice", {"reuse": 1}, {}, False),
        ("alice", {"definition": msgspec.structs.replace(DEFINITION, max_steps=3)}, {}, False),
        ("alice", {}, {"provider": Provider(name="x", dialect="openai", api_key="k2")}, False),
        ("alice", {}, {"env": {"KEY": "v"}}, False),
        ("alice", {}, {"tools": ("bash",)}, False),
        ("alice", {}, {"cwd": "/tmp"}, False),
    ],
)
async def test_a_worker_serves_only_its_agent_with_the_same_file_key_and_environment(
    workers: KeptWorkers, agent: str, frame: dict[str, Any], start: dict[str, Any], reused: bool
) -> None:
    made: list[FakeHandle] = []

    class Launcher:
        async def spawn(self, _spec: Spec) -> FakeHandle:
            await trio.lowlevel.checkpoint()
            made.append(FakeHandle())
            return made[-1]

    place = WorkPlace(launcher=cast("Any", Launcher()))
    first = await workers.begin(cast("Leased", FakeLease("alice")), FRAME, place)
    present(workers.keep(first, cast("Leased", FakeLease("alice")), 20))
    next_frame = msgspec.structs.replace(FRAME, start=msgspec.structs.replace(FRAME.start, **start), **frame)
    worker = await workers.begin(cast("Leased", FakeLease(agent)), next_frame, place)
    assert (worker is first, len(made)) == (reused, 1 if reused else 2)
    assert made[0].gone.is_set() is (agent == "alice" and not reused)


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
            nursery.start_soon(workers.watch, present(keep(workers, handle, f"a{number}")))
        await trio.testing.wait_all_tasks_blocked()
        assert [handle.gone.is_set() for handle in handles] == [True] + [False] * MOST
        await workers.end(lambda leased: leased.agent == "a1")
        assert handles[1].gone.is_set()
        workers.close()
    assert all(handle.gone.is_set() for handle in handles)
    assert keep(workers, FakeHandle()) is None


_KILLED = """
import os, signal, sys
from pathlib import Path
from kernel.services.supervision import InFlight
record = InFlight(Path(sys.argv[1]))
record.begin()
with record.working("i7"), record.working("i7"):
    with record.working("i8"):
        pass
    with record.working("i9"):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_was_at_is_read_by_the_next(tmp_path: Path) -> None:
    place = tmp_path / "in-flight"
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(place)], timeout=30, check=False)
    assert killed.returncode == -signal.SIGKILL
    record = InFlight(place)
    assert record.left == frozenset({instruction_id(7), instruction_id(9)})
    record.begin()
    assert InFlight(place).left == frozenset()


def test_more_than_it_has_places_for_is_no_harm(tmp_path: Path) -> None:
    place = tmp_path / "in-flight"
    record = InFlight(place)
    for _ in range(2):
        blocks = [record.working(f"i{number}") for number in range(1, PLACES + 3)]
        for block in blocks:
            block.__enter__()
        assert len(present(InFlight(place).left)) == PLACES
        for block in blocks:
            block.__exit__(None, None, None)
        assert InFlight(place).left == frozenset()


async def test_work_that_only_waits_is_not_charged_for_a_crash(tmp_path: Path) -> None:
    place = tmp_path / "in-flight"
    record, stopped = InFlight(place), trio.CancelScope()
    with record.working("i1"):
        with record.rest("i1", stopped):
            assert InFlight(place).left == frozenset()
            stopped.cancel()
            await trio.lowlevel.checkpoint()
        with suppress(OSError), record.rest("i1", trio.CancelScope()):
            raise OSError
        assert InFlight(place).left == frozenset({instruction_id(1)})
    assert InFlight(place).left == frozenset()


def test_without_a_record_nobody_knows(tmp_path: Path) -> None:
    record = InFlight(tmp_path / "nowhere" / "in-flight")
    assert record.left is None
    record.begin()
    with record.working("i1"):
        pass


def test_what_somebody_else_wrote_there_is_no_instruction(tmp_path: Path) -> None:
    place = tmp_path / "in-flight"
    place.write_bytes(b"\xff" * 8 + b"\x05" + b"\0" * 7 + b"abc")
    assert InFlight(place).left == frozenset({instruction_id(5)})
    os.truncate(place, 0)
    os.truncate(place, 1 << 30)
    assert InFlight(place).left == frozenset()


@pytest.mark.promise("P13")
async def test_work_is_in_flight_with_its_frames_and_commits_and_not_while_its_worker_works(
    it: Core, tmp_path: Path
) -> None:
    def in_flight() -> object:
        return InFlight(tmp_path / "in-flight").left

    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.say(Progress(what="asking the model"))
    await trio.testing.wait_all_tasks_blocked(0.1)
    assert in_flight() == frozenset()
    stranger = apsw.Connection(str(tmp_path / "agent-worker.db"))
    stranger.execute("BEGIN IMMEDIATE")
    await worker.say(Entry(k=0, kind="reply", text="hi", stop_reason="end_turn"))
    await trio.testing.wait_all_tasks_blocked(0.1)
    assert in_flight() == {instruction}
    stranger.execute("ROLLBACK")
    stranger.close()
    await worker.finish(Result(status="done", text="hi"))
    assert await it.until(instruction, lambda status: status in ("done", "dead", "failed")) == "done"
    await trio.testing.wait_all_tasks_blocked(0.1)
    assert in_flight() == frozenset()
