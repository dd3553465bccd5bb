"""A kernel that nobody needs ends by itself, and no other does."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec
import pytest

from kernel.services.supervision import IdleExit, ShutdownRequest
from kernel.store.checkup import Outstanding, kept_by, outstanding
from kernel.store.transitions.close import close
from protocol.project import IncomingHook, ProjectDefinition
from tests.kernel.store.running_store import Store, open_store

ALLOWED = 600.0


@dataclass
class Watched:
    """A store, and what looks whether its kernel is needed."""

    store: Store
    now: float = 0.0
    requests: tuple[int, int] = (0, 0)
    project: ProjectDefinition = ProjectDefinition(idle_exit=ALLOWED)
    shutdown: ShutdownRequest = field(default_factory=ShutdownRequest)

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
    await watched.store.writer.commit(close, instruction, leased.epoch, status="done", text="ok")
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
    await watched.store.writer.commit(close, waiting, leased.epoch, status="failed", text="no", cause="auth")
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
