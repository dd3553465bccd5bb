"""What every place a store can live in must do with timers. ``CHECKS`` is the suite, as in check_store."""

from typing import Final

from kernel.policy.timing import Decision
from kernel.store import feed, instructions, messages, timers
from kernel.store.agents import remove_agent, set_agent_state
from kernel.store.feed import EventFilter
from kernel.store.timers import Timer, arm, fire, postpone
from kernel.store.transitions.close import close
from protocol.names import AgentKey
from tests.contracts import checks_of
from tests.kernel.store.running_store import Store

PERIOD_MS: Final = 5000


def timer(store: Store, *, cron: bool = False, after_ms: int = PERIOD_MS) -> Timer:
    return Timer(
        agent=AgentKey("alice"),
        home="dm:alice",
        schedule=b'{"wakeup":"5s"}',
        period_ms=None if cron else PERIOD_MS,
        next_ms=store.clock.now_ms + after_ms,
    )


async def armed(store: Store, *, cron: bool = False) -> Timer:
    """Alice's timer, which is due."""
    await store.agents("alice")
    await store.writer.commit(arm, [timer(store, cron=cron)], [])
    store.clock.now_ms += PERIOD_MS
    (due,) = store.reader.now(timers.due, store.clock.now_ms, store.clock.now_ms)
    return due


async def come(store: Store, due: Timer, *, workspace: str | None = None) -> Decision | None:
    now_ms = store.clock.now_ms
    return await store.writer.commit(
        fire, due, at_ms=now_ms, following_ms=now_ms + PERIOD_MS, text="look around", workspace=workspace
    )


def queued(store: Store) -> list[tuple[str, str]]:
    return [(one.instruction, one.status) for one in store.reader.now(instructions.open_in, "dm:alice")]


async def a_timer_that_comes_is_work_in_the_background(store: Store) -> None:
    """Only what a proposal listens to is a ``due`` message; no channel shows it."""
    due = await armed(store)
    assert await come(store, due) == "due"
    assert queued(store) == [("i1", "queued")]
    leased = await store.take("i1")
    assert (leased.text, leased.sender, leased.lane, leased.hops) == ("look around", "system", "background", 0)
    report = store.reader.now(messages.report, leased.message_seq)
    assert report is not None
    assert report.message.kind == "due"
    assert [(one.agent, one.state) for one in report.receipts] == [("alice", "leased")]
    assert store.reader.now(messages.channel, "dm:alice") == ()
    (after,) = store.reader.now(timers.all)
    assert (after.next_ms, after.fired_ms) == (store.clock.now_ms + PERIOD_MS, store.clock.now_ms)


async def a_timer_that_moved_meanwhile_does_not_come(store: Store) -> None:
    """What was looked at must still be so in the transaction: no wakeup comes twice."""
    due = await armed(store)
    await come(store, due)
    assert await come(store, due) is None
    await store.writer.commit(arm, [], [due])
    assert await come(store, due) is None
    assert len(queued(store)) == 1


async def at_most_one_wakeup_waits_for_its_turn(store: Store) -> None:
    """Fault TF19; what is not told again is noted once."""
    await armed(store, cron=True)
    decisions: list[Decision | None] = []
    for _ in range(4):
        (due,) = store.reader.now(timers.due, 0, store.clock.now_ms)
        decisions.append(await come(store, due))
        store.clock.now_ms += PERIOD_MS
    assert decisions == ["due", "coalesced", "coalesced", "coalesced"]
    assert len(queued(store)) == 1
    told = store.reader.now(feed.since, 0, 100, EventFilter(type="wakeup.coalesced"))
    assert [(one.agent, one.data) for one in told] == [("alice", {"home": "dm:alice"})]


async def while_a_wakeup_runs_one_more_may_wait(store: Store) -> None:
    """TF19: a cron line takes no heed of what its agent does, and yet nothing piles up."""
    due = await armed(store, cron=True)
    await come(store, due)
    await store.take("i1")
    for _ in range(3):
        store.clock.now_ms += PERIOD_MS
        (due,) = store.reader.now(timers.due, 0, store.clock.now_ms)
        await come(store, due)
    assert queued(store) == [("i1", "leased"), ("i2", "queued")]


async def activity_puts_an_interval_off(store: Store) -> None:
    due = await armed(store)
    leased = await store.given("dm:alice", "hello")
    assert await come(store, due) == "active"
    store.clock.now_ms += PERIOD_MS - 1
    await store.writer.commit(close, "i1", leased.epoch, status="done", text="hi")
    ended_ms = store.clock.now_ms
    store.clock.now_ms += 1
    (due,) = store.reader.now(timers.due, store.clock.now_ms, 0)
    assert await come(store, due) == "active"
    assert store.reader.now(timers.upcoming).steady_ms == ended_ms + PERIOD_MS
    assert queued(store) == []


async def an_agent_that_is_given_no_work_is_not_woken(store: Store) -> None:
    """Paused, stopped or in error: nothing piles up, and nobody asks again and again."""
    due = await armed(store)
    for state in ("paused", "stopped", "error"):
        await store.writer.commit(set_agent_state, due.agent, state)
        assert store.reader.now(timers.due, store.clock.now_ms, 0) == ()
        assert store.reader.now(timers.upcoming) == (None, None)
        assert await come(store, due) is None
    await store.writer.commit(set_agent_state, due.agent, "active")
    assert store.reader.now(timers.due, store.clock.now_ms, 0) == (due,)


async def what_is_armed_again_keeps_its_memory(store: Store) -> None:
    """A new time or prompt does not make the store forget that a wakeup still waits."""
    due = await armed(store)
    await come(store, due)
    await store.writer.commit(arm, [timer(store, after_ms=0)], [])
    (again,) = store.reader.now(timers.due, store.clock.now_ms, 0)
    assert again.fired_ms == store.clock.now_ms
    assert await come(store, again) == "coalesced"
    await store.writer.commit(postpone, again, store.clock.now_ms + 7)
    assert store.reader.now(timers.upcoming).steady_ms == store.clock.now_ms + 7


async def a_wakeup_goes_to_the_workspace_that_runs(store: Store) -> None:
    """contracts 1: schedule.workspace, else personal."""
    space = await store.workflow("helper")
    helper = Timer(
        agent=AgentKey(f"helper@{space}"), home=space, schedule=b"{}", period_ms=1, next_ms=store.clock.now_ms
    )
    await store.writer.commit(arm, [helper], [])
    assert await come(store, helper) == "due"
    await store.writer.commit(arm, [], [helper])
    (open_there,) = store.reader.now(instructions.open_in, space)
    assert open_there.agent == helper.agent
    due = await armed(store)
    assert await come(store, due, workspace="review") == "due"
    assert [one.agent for one in store.reader.now(instructions.open_in, "dm:alice")] == ["alice"]


async def an_agent_that_is_deleted_leaves_no_timer(store: Store) -> None:
    """Retention: its words go with it."""
    due = await armed(store)
    await store.writer.commit(remove_agent, due.agent)
    assert store.reader.now(timers.all) == ()


CHECKS: Final = checks_of(globals())
