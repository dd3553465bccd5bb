"""What every place a store can live in must do with timers. ``CHECKS`` is the suite, as in check_store."""

from collections.abc import Awaitable, Callable
from typing import Final

from kernel.policy.wakeup_schedule import Decision
from kernel.store import feed, instructions, messages, timers
from kernel.store.agents import remove_agent, set_agent_state
from kernel.store.feed import EventFilter
from kernel.store.timers import Timer, arm, fire, postpone
from kernel.store.transitions.close import close
from protocol.names import AgentKey
from tests.kernel.store.house import House

Check = Callable[[House], Awaitable[None]]
PERIOD_MS: Final = 5000


def timer(house: House, *, cron: bool = False, after_ms: int = PERIOD_MS) -> Timer:
    return Timer(
        agent=AgentKey("alice"),
        home="dm:alice",
        schedule=b'{"wakeup":"5s"}',
        period_ms=None if cron else PERIOD_MS,
        next_ms=house.clock.now_ms + after_ms,
    )


async def armed(house: House, *, cron: bool = False) -> Timer:
    """Alice's timer, which is due."""
    await house.agents("alice")
    await house.writer.commit(arm, [timer(house, cron=cron)], [])
    house.clock.now_ms += PERIOD_MS
    (due,) = house.reader.now(timers.due, house.clock.now_ms, house.clock.now_ms)
    return due


async def come(house: House, due: Timer, *, workspace: str | None = None) -> Decision | None:
    now_ms = house.clock.now_ms
    return await house.writer.commit(
        fire, due, at_ms=now_ms, following_ms=now_ms + PERIOD_MS, text="look around", workspace=workspace
    )


def queued(house: House) -> list[tuple[str, str]]:
    return [(one.instruction, one.status) for one in house.reader.now(instructions.open_in, "dm:alice")]


async def a_timer_that_comes_is_work_in_the_background(house: House) -> None:
    """Only what a proposal listens to is a ``due`` message; no channel shows it."""
    due = await armed(house)
    assert await come(house, due) == "due"
    assert queued(house) == [("i1", "queued")]
    leased = await house.take("i1")
    assert (leased.text, leased.sender, leased.lane, leased.hops) == ("look around", "system", "background", 0)
    report = house.reader.now(messages.report, leased.message_seq)
    assert report is not None
    assert report.message.kind == "due"
    assert [(one.agent, one.state) for one in report.receipts] == [("alice", "leased")]
    assert house.reader.now(messages.channel, "dm:alice") == ()
    (after,) = house.reader.now(timers.all)
    assert (after.next_ms, after.fired_ms) == (house.clock.now_ms + PERIOD_MS, house.clock.now_ms)


async def a_timer_that_moved_meanwhile_does_not_come(house: House) -> None:
    """What was looked at must still be so in the transaction: no wakeup comes twice."""
    due = await armed(house)
    await come(house, due)
    assert await come(house, due) is None
    await house.writer.commit(arm, [], [due])
    assert await come(house, due) is None
    assert len(queued(house)) == 1


async def at_most_one_wakeup_waits_for_its_turn(house: House) -> None:
    """Fault TF19; what is not told again is noted once."""
    await armed(house, cron=True)
    decisions: list[Decision | None] = []
    for _ in range(4):
        (due,) = house.reader.now(timers.due, 0, house.clock.now_ms)
        decisions.append(await come(house, due))
        house.clock.now_ms += PERIOD_MS
    assert decisions == ["due", "coalesced", "coalesced", "coalesced"]
    assert len(queued(house)) == 1
    told = house.reader.now(feed.since, 0, 100, EventFilter(type="wakeup.coalesced"))
    assert [(one.agent, one.data) for one in told] == [("alice", {"home": "dm:alice"})]


async def while_a_wakeup_runs_one_more_may_wait(house: House) -> None:
    """TF19: a cron line takes no heed of what its agent does, and yet nothing piles up."""
    due = await armed(house, cron=True)
    await come(house, due)
    await house.take("i1")
    for _ in range(3):
        house.clock.now_ms += PERIOD_MS
        (due,) = house.reader.now(timers.due, 0, house.clock.now_ms)
        await come(house, due)
    assert queued(house) == [("i1", "leased"), ("i2", "queued")]


async def activity_puts_an_interval_off(house: House) -> None:
    """An interval is reset by activity."""
    due = await armed(house)
    await house.said("dm:alice", "hello")
    leased = await house.take("i1")
    assert await come(house, due) == "active"
    house.clock.now_ms += PERIOD_MS - 1
    await house.writer.commit(close, "i1", leased.epoch, status="done", text="hi")
    ended_ms = house.clock.now_ms
    house.clock.now_ms += 1
    (due,) = house.reader.now(timers.due, house.clock.now_ms, 0)
    assert await come(house, due) == "active"
    assert house.reader.now(timers.upcoming).steady_ms == ended_ms + PERIOD_MS
    assert queued(house) == []


async def an_agent_that_is_given_no_work_is_not_woken(house: House) -> None:
    """Paused, stopped or in error: nothing piles up, and nobody asks again and again."""
    due = await armed(house)
    for state in ("paused", "stopped", "error"):
        await house.writer.commit(set_agent_state, due.agent, state)
        assert house.reader.now(timers.due, house.clock.now_ms, 0) == ()
        assert house.reader.now(timers.upcoming) == (None, None)
        assert await come(house, due) is None
    await house.writer.commit(set_agent_state, due.agent, "active")
    assert house.reader.now(timers.due, house.clock.now_ms, 0) == (due,)


async def what_is_armed_again_keeps_its_memory(house: House) -> None:
    """A new time or prompt does not make the store forget that a wakeup still waits."""
    due = await armed(house)
    await come(house, due)
    await house.writer.commit(arm, [timer(house, after_ms=0)], [])
    (again,) = house.reader.now(timers.due, house.clock.now_ms, 0)
    assert again.fired_ms == house.clock.now_ms
    assert await come(house, again) == "coalesced"
    await house.writer.commit(postpone, again, house.clock.now_ms + 7)
    assert house.reader.now(timers.upcoming).steady_ms == house.clock.now_ms + 7


async def a_wakeup_goes_to_the_workspace_that_runs(house: House) -> None:
    """contracts 1: schedule.workspace, else personal."""
    space = await house.workflow("helper")
    helper = Timer(
        agent=AgentKey(f"helper@{space}"), home=space, schedule=b"{}", period_ms=1, next_ms=house.clock.now_ms
    )
    await house.writer.commit(arm, [helper], [])
    assert await come(house, helper) == "due"
    await house.writer.commit(arm, [], [helper])
    (open_there,) = house.reader.now(instructions.open_in, space)
    assert open_there.agent == helper.agent
    due = await armed(house)
    assert await come(house, due, workspace="review") == "due"
    assert [one.agent for one in house.reader.now(instructions.open_in, "dm:alice")] == ["alice"]


async def an_agent_that_is_deleted_leaves_no_timer(house: House) -> None:
    """Retention: its words go with it."""
    due = await armed(house)
    await house.writer.commit(remove_agent, due.agent)
    assert house.reader.now(timers.all) == ()


CHECKS: Final[tuple[Check, ...]] = (
    a_timer_that_comes_is_work_in_the_background,
    a_timer_that_moved_meanwhile_does_not_come,
    at_most_one_wakeup_waits_for_its_turn,
    while_a_wakeup_runs_one_more_may_wait,
    activity_puts_an_interval_off,
    an_agent_that_is_given_no_work_is_not_woken,
    what_is_armed_again_keeps_its_memory,
    a_wakeup_goes_to_the_workspace_that_runs,
    an_agent_that_is_deleted_leaves_no_timer,
)
