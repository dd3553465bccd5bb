"""Supervision of a kernel: services that fail, on a real store, and the end of a kernel that is idle."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import trio

from kernel.services.supervision import Boundary, IdleExit, ShutdownSignal
from kernel.store.checkup import Outstanding, kept_by, outstanding
from kernel.store.schema import StorageFailed
from protocol.project import IncomingHook, ProjectDefinition
from tests.kernel.store.running_store import Store, open_store


class Scene:
    """A boundary whose pauses take no time, and are written down."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.shutdown = ShutdownSignal()
        self.pauses: list[float] = []
        self.boundary = Boundary(writer=store.writer, shutdown=self.shutdown, now_ms=store.clock, sleep=self._pass)

    async def _pass(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.store.clock.now_ms += int(seconds * 1000)
        await trio.lowlevel.checkpoint()

    def told(self) -> list[tuple[object, object, bool]]:
        data = [one.data for one in self.store.told if one.type == "kernel.service_failed"]
        return [(one["service"], one["error"], one["again_seconds"] is None) for one in data]


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_store(str(tmp_path / "store.db")) as store:
        yield Scene(store)


@pytest.mark.promise("P9")
async def test_a_service_that_fails_is_started_again_and_the_kernel_goes_on(it: Scene) -> None:
    runs = 0

    async def watcher() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise UnicodeEncodeError("utf-8", "b\udcff", 1, 2, "surrogates not allowed")
        await trio.lowlevel.checkpoint()

    await it.boundary.keep("reload", watcher)
    assert runs == 3
    assert [one[::2] for one in it.told()] == [("reload", False)] * 2
    assert "\\udcff" in str(it.told()[0][1])
    assert not it.shutdown.begun()
    assert it.boundary.gave_up is None


async def test_a_service_that_goes_on_failing_ends_the_kernel_in_order_and_says_why(it: Scene) -> None:

    async def broken() -> None:
        raise ExceptionGroup("in its nursery", [ValueError("no\nway")])

    await it.boundary.keep("mirror", broken)
    assert it.shutdown.begun()
    assert it.shutdown.by == "failure of mirror"
    assert it.boundary.gave_up == "mirror: 5 crashes within 60 s, last error: ValueError: no\\nway"
    assert [one[2] for one in it.told()] == [False] * 4 + [True]
    assert it.pauses == sorted(it.pauses)


async def test_failures_that_are_far_apart_do_not_add_up(it: Scene) -> None:
    left = 30

    async def seldom() -> None:
        nonlocal left
        it.store.clock.now_ms += 3_600_000
        left -= 1
        if left:
            raise ValueError

    await it.boundary.keep("retention", seldom)
    assert len(set(it.pauses)) == 1
    assert it.boundary.gave_up is None


async def test_who_waits_for_a_service_to_start_is_told_once_also_where_it_failed_first(it: Scene) -> None:
    order: list[str] = []

    async def slow(*, task_status: trio.TaskStatus[None]) -> None:
        order.append("began")
        if order == ["began"]:
            raise OSError
        task_status.started()
        if order.count("began") == 2:
            raise OSError

    async with trio.open_nursery() as nursery:
        await nursery.start(it.boundary.keep, "alarms", slow)
        order.append("waited for")
    assert order[:2] == ["began", "began"]
    assert sorted(order[2:]) == ["began", "waited for"]


@pytest.mark.promise("P1")
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_disk_that_failed_is_not_tried_again(it: Scene, grouped: bool) -> None:
    failed = StorageFailed("disk")

    async def writes() -> None:
        raise ExceptionGroup("in its nursery", [failed]) if grouped else failed

    with pytest.raises((StorageFailed, ExceptionGroup)):
        await it.boundary.keep("alarms", writes)
    assert it.told() == []


ALLOWED = 600.0


@dataclass
class Watched:
    """A store, and what looks whether its kernel is needed."""

    store: Store
    now: float = 0.0
    requests: tuple[int, int] = (0, 0)
    project: ProjectDefinition = ProjectDefinition(idle_exit=ALLOWED)
    shutdown: ShutdownSignal = field(default_factory=ShutdownSignal)

    def __post_init__(self) -> None:
        self.exit = IdleExit(
            reader=self.store.reader,
            shutdown=self.shutdown,
            project=lambda: self.project,
            requests=lambda: self.requests,
            now=lambda: self.now,
        )

    async def ends_after(self, seconds: float) -> bool:
        """Whether it has asked for the end, looking as often as it wants to."""
        until = self.now + seconds
        while self.now < until and not self.shutdown.begun():
            self.now += await self.exit.look()
        await self.exit.look()
        return self.shutdown.begun()


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    async with open_store(":memory:") as store:
        await store.agents("alice")
        yield Watched(store)


@pytest.mark.promise("P77")
async def test_a_kernel_ends_after_the_time_in_which_nothing_was_to_be_done(watched: Watched) -> None:
    assert not await watched.ends_after(ALLOWED - 60)
    watched.requests = (0, 1)
    assert not await watched.ends_after(ALLOWED - 60)
    (instruction,) = (await watched.store.said("dm:alice", "hi")).instruction_ids
    leased = await watched.store.take(instruction)
    assert not await watched.ends_after(ALLOWED * 3)
    await watched.store.close(instruction, leased.epoch, status="done", text="ok")
    assert not await watched.ends_after(ALLOWED - 60)
    assert await watched.ends_after(120)
    assert watched.shutdown.by == "idle_exit"


@pytest.mark.promise("P77")
async def test_clients_hooks_and_a_project_that_does_not_want_it_keep_a_kernel(watched: Watched) -> None:
    watched.requests = (1, 1)
    assert not await watched.ends_after(ALLOWED * 3)
    watched.requests = (0, 1)
    watched.project = ProjectDefinition(idle_exit=ALLOWED, hooks={"ci": IncomingHook(to="alice", secret="$S")})
    assert not await watched.ends_after(ALLOWED * 3)
    watched.project = ProjectDefinition()
    assert not await watched.ends_after(ALLOWED * 3)
    watched.project = ProjectDefinition(idle_exit=ALLOWED)
    assert not await watched.ends_after(ALLOWED - 60)
    assert await watched.ends_after(120)


@pytest.mark.promise("P77")
async def test_what_is_outstanding_keeps_a_kernel_and_what_failed_does_not(watched: Watched) -> None:
    nothing = Outstanding()
    assert kept_by(nothing, requests=0, hooks=False) is None
    for name in Outstanding.__struct_fields__[1:]:
        assert kept_by(msgspec.structs.replace(nothing, **{name: True}), requests=0, hooks=False) is not None, name
    conn = watched.store.database.writer()
    found = watched.store.reader.now(outstanding)
    assert found == Outstanding(event=found.event)
    waiting = (await watched.store.said("dm:alice", "hi")).instruction_ids[0]
    assert watched.store.reader.now(outstanding).work
    leased = await watched.store.take(waiting)
    await watched.store.close(waiting, leased.epoch, status="failed", text="no", cause="auth")
    found = watched.store.reader.now(outstanding)
    assert found == Outstanding(event=found.event)
    conn.execute("INSERT INTO timers (agent, home, schedule, next_ms) VALUES ('alice', 'dm:alice', x'7b7d', 0)")
    assert watched.store.reader.now(outstanding).schedules
    conn.execute("INSERT INTO webhooks (digest, cursor) VALUES ('d', 0)")
    conn.execute("INSERT INTO webhook_retries (digest, event, tries, due_ms) VALUES ('d', 1, 1, 0)")
    assert watched.store.reader.now(outstanding).deliveries
    conn.execute("UPDATE webhooks SET disabled = 1")
    assert not watched.store.reader.now(outstanding).deliveries
    await watched.store.workflow("bob")
    assert watched.store.reader.now(outstanding).runs
