"""The restart policy's memory: crashes are counted where they were made, and stored."""

from kernel.store import agents, instructions
from kernel.store.transitions.requeue import Requeue, requeue
from tests.kernel.store.house import House

CRASH = Requeue(status="queued", outcome="crash", cause="crash", charge="crash", exit="SIGKILL", crash_jitter=0.0)


async def crash(house: House, number: int, epoch: int) -> None:
    """One more worker of alice that dies."""
    await house.take(f"i{number}")
    await house.writer.commit(requeue, f"i{number}", epoch, CRASH)


async def test_an_agent_that_crashed_is_restarted_later_and_later(house: House) -> None:
    """1, 2, 4 ... seconds, half of it by chance; the delay is stored."""
    await house.agents("alice")
    await house.said("dm:alice", "x")
    for epoch, seconds in enumerate((0.5, 1.0, 2.0), 1):
        await crash(house, 1, epoch)
        assert house.reader.now(instructions.ready, house.clock.now_ms, 10) == ()
        due = house.reader.now(instructions.next_due_ms, house.clock.now_ms)
        assert due == house.clock.now_ms + seconds * 1000
        assert due is not None
        house.clock.now_ms = due


async def test_the_fifth_crash_within_a_minute_stops_the_agent_and_keeps_its_queue(house: House) -> None:
    """Promise P13: the restarts are exactly the budget, and the reason is shown."""
    await house.agents("alice", "bob")
    await house.said("dm:alice", "one")
    await house.said("dm:alice", "two")
    for epoch in range(1, 6):
        house.clock.now_ms += 9_000
        await crash(house, 1, epoch)
    row = house.reader.now(agents.row, "alice")
    assert row is not None and row.state == "error" and "5 crashes within 60 s" in (row.reason or "")
    house.clock.now_ms += 3_600_000
    assert house.reader.now(instructions.ready, house.clock.now_ms, 10) == ()
    assert [one.status for one in house.reader.now(instructions.results, ["i1", "i2"])] == ["queued", "queued"]
    bob = house.reader.now(agents.row, "bob")
    assert bob is not None and bob.state == "active"
