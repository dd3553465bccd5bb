"""The restart policy's memory: crashes are counted where they were made, and stored."""

import pytest

from kernel.policy.retry import TABLE
from kernel.store import agents, instructions
from kernel.store.agents import AgentSpec, put_agent
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.steering import retry
from protocol.errors import Cause
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store
from tests.shorthand import present

CRASH = Requeue(status="queued", outcome="crash", cause="crash", charge="crash", exit="SIGKILL", crash_jitter=0.0)


async def crash(store: Store, number: int, epoch: int) -> None:
    """One more worker of alice that dies."""
    await store.take(f"i{number}")
    await store.requeue(f"i{number}", epoch, CRASH)


async def test_an_agent_that_crashed_is_restarted_later_and_later(store: Store) -> None:
    """At once, then 2, 4 ... seconds, half of it by chance; the delay is stored."""
    await store.agents("alice")
    await store.said("dm:alice", "x")
    await crash(store, 1, 1)
    assert [one.id for one in store.reader.now(instructions.ready, store.clock.now_ms, 10)] == ["i1"]
    store.clock.now_ms += 1
    for epoch, seconds in enumerate((1.0, 2.0, 4.0), 2):
        await crash(store, 1, epoch)
        assert store.reader.now(instructions.ready, store.clock.now_ms, 10) == ()
        due = store.reader.now(instructions.next_due_ms, store.clock.now_ms)
        assert due == store.clock.now_ms + seconds * 1000
        assert due is not None
        store.clock.now_ms = due


@pytest.mark.promise("P13")
async def test_an_agents_file_says_when_and_how_often_it_is_started_again(store: Store) -> None:
    definition = b'{"entry":"inline","name":"alice","model":"mock/m","restart":{"delay":7,"attempts":%d}}'

    async def write(attempts: int) -> None:
        spec = AgentSpec(key=AgentKey("alice"), origin="file", definition=definition % attempts)
        await store.writer.commit(put_agent, spec)

    await write(9)
    await store.said("dm:alice", "x")
    await crash(store, 1, 1)
    assert store.reader.now(instructions.next_due_ms, store.clock.now_ms) == store.clock.now_ms + 3_500
    store.clock.now_ms += 3_500
    await write(2)
    await crash(store, 1, 2)
    row = store.reader.now(agents.row, "alice")
    assert row is not None and (row.state, row.reason) == ("error", "2 crashes within 60 s")


@pytest.mark.promise("P13")
async def test_the_fifth_crash_within_a_minute_stops_the_agent_and_keeps_its_queue(store: Store) -> None:
    await store.agents("alice", "bob")
    await store.said("dm:alice", "one")
    await store.said("dm:alice", "two")
    for epoch in range(1, 6):
        store.clock.now_ms += 9_000
        await crash(store, 1, epoch)
    row = store.reader.now(agents.row, "alice")
    assert row is not None and row.state == "error" and "5 crashes within 60 s" in (row.reason or "")
    store.clock.now_ms += 3_600_000
    assert store.reader.now(instructions.ready, store.clock.now_ms, 10) == ()
    assert [one.status for one in store.reader.now(instructions.results, ["i1", "i2"])] == ["queued", "queued"]
    assert present(store.reader.now(agents.row, "bob")).state == "active"


@pytest.mark.promise("P13")
async def test_an_attempt_is_told_when_the_earlier_ones_crashed_and_of_no_other_end(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "x")
    crashed: list[int] = []
    causes: list[Cause] = [cause for cause, row in TABLE.items() if row.charge == "crash"]
    for epoch, cause in enumerate(causes, 1):
        assert (await store.take("i1")).crashed_ms == tuple(reversed(crashed))
        parking = Requeue(status="queued", outcome=cause, cause=cause, charge="crash")
        await store.requeue("i1", epoch, parking)
        crashed.append(store.clock.now_ms)
        store.clock.now_ms += 9_000
    await store.take("i1")
    await store.requeue("i1", len(crashed) + 1, Requeue(status="yielded", outcome="yielded"))
    store.clock.now_ms += 1
    leased = await store.take("i1")
    assert (leased.crashes, leased.crashed_ms) == (len(crashed), tuple(reversed(crashed)))
    await store.close("i1", leased.epoch, status="dead", text="", outcome="crash")
    store.clock.now_ms += 1
    await store.writer.commit(retry, "i1")
    assert (await store.take("i1")).crashed_ms == ()
