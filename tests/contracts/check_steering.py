"""What every place a store can live in must do when a person steers work. ``STEERING`` is the suite."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from kernel.store import agents, circuit_breakers, entries, instruction_views, instructions, messages, workflows
from kernel.store.circuit_breakers import ProviderFailure
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import cancel, close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.steering import (
    continue_agent,
    continue_workflow,
    pause_agent,
    pause_workflow,
    promote,
    reset_agent,
    resume_agent,
    resume_workflow,
    retry,
    stop_agent,
)
from protocol.api.instructions import InstructionInfo
from protocol.errors import Refused
from protocol.ipc import Entry
from protocol.names import AgentKey
from tests.kernel.store.house import House

ALICE: Final = AgentKey("alice")
Check = Callable[[House], Awaitable[None]]


def ready(house: House) -> list[str]:
    return [one.id for one in house.reader.now(instructions.ready, house.clock.now_ms, 10)]


def info(house: House, instruction: str) -> InstructionInfo:
    found = house.reader.now(instruction_views.info, instruction, house.clock.now_ms)
    assert found is not None
    return found


def receipts(house: House, seq: int) -> list[tuple[str, str | None]]:
    report = house.reader.now(messages.report, seq)
    assert report is not None
    return [(one.state, one.instruction_id) for one in report.receipts]


def looks(house: House) -> tuple[Any, ...]:
    (process,) = house.reader.now(agents.ps, house.clock.now_ms)
    return process.shown.state, process.shown.reason


async def refused(code: str, house: House, commit: Callable[..., object], *args: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await house.writer.commit(commit, *args)
    assert caught.value.code == code
    return caught.value


async def fail(house: House, instruction: str = "i1", *, steps: int = 1) -> None:
    """One attempt with ``steps`` replies that ends for good."""
    leased = await house.take(instruction)
    for k in range(steps):
        await house.writer.commit(journal, instruction, leased.epoch, Entry(k=k, kind="reply", text=str(k)))
    await house.writer.commit(close, instruction, leased.epoch, status="failed", text="no", cause="invalid")


async def refuse_key(house: House, instruction: str, key: str = "p#k") -> None:
    """An attempt that the provider answers with 401."""
    house.clock.now_ms += 1
    leased = await house.take(instruction)
    trip = ProviderFailure(key=key, cause="auth", retry_after_seconds=None, jitter=0.5)
    parking = Requeue(status="queued", outcome="auth", cause="auth", charge="none", trip=trip)
    await house.writer.commit(requeue, instruction, leased.epoch, parking)


async def what_is_open_can_be_cancelled_and_what_ended_says_how(house: House) -> None:
    """contracts 4: POST /instructions/:id/cancel; the deliveries die with it, a live attempt writes no more (P3)."""
    await house.agents("alice")
    first, second = await house.said("dm:alice", "one"), await house.said("dm:alice", "two")
    leased = await house.take("i1")
    for instruction in ("i1", "i2"):
        await house.writer.commit(cancel, instruction)
    assert [info(house, one).status for one in ("i1", "i2")] == ["cancelled", "cancelled"]
    assert receipts(house, first.seq) + receipts(house, second.seq) == [("dead", "i1"), ("dead", "i2")]
    await refused("stale_attempt", house, journal, "i1", leased.epoch, Entry(k=0, kind="reply"))
    assert "cancelled" in (await refused("conflict", house, cancel, "i1")).text
    await refused("not_found", house, cancel, "i99")
    await refused("not_found", house, cancel, "m1")


async def a_retry_goes_on_after_the_last_entry_and_a_fresh_one_begins_again(house: House) -> None:
    """contracts 9: retry takes failed and dead, keeps finished entries unless --fresh."""
    await house.agents("alice")
    sent = await house.said("dm:alice", "work")
    await fail(house, steps=2)
    assert receipts(house, sent.seq) == [("dead", "i1")]
    house.clock.now_ms += 3_600_000
    await house.writer.commit(retry, "i1")
    again = info(house, "i1")
    assert (again.status, again.cause, again.error_class, again.text, len(again.steps)) == ("queued", None, None, "", 2)
    assert receipts(house, sent.seq) == [("queued", "i1")]
    leased = await house.take("i1")
    assert (leased.attempts, leased.crashes, leased.entries) == (1, 0, 2)
    await house.writer.commit(close, "i1", leased.epoch, status="dead", cause="crash")
    await house.writer.commit(lambda tx: retry(tx, "i1", fresh=True))
    assert (info(house, "i1").steps, house.reader.now(entries.of, "i1")) == ((), ())
    house.clock.now_ms += 1
    assert (await house.take("i1")).entries == 0


async def only_what_was_given_up_is_retried(house: House) -> None:
    """contracts 9; and never detached from its workflow (fault TF08)."""
    await house.agents("alice")
    await house.said("dm:alice", "work")
    assert "queued" in (await refused("conflict", house, retry, "i1")).text
    leased = await house.take("i1")
    await refused("conflict", house, retry, "i1")
    await house.writer.commit(close, "i1", leased.epoch, status="incomplete", cause="max_steps")
    assert "continue" in str((await refused("conflict", house, retry, "i1")).hint)
    space = await house.workflow("bob", kickoff="@bob go")
    await fail(house, "i2")
    await house.writer.commit(close_workflow, space)
    await refused("workflow_not_running", house, retry, "i2")


def close_workflow(tx: Transaction, space: str) -> None:
    tx.conn.execute("UPDATE workflows SET state = 'stopped' WHERE space = ?", (space,))


async def a_promoted_instruction_is_done_before_the_others(house: House) -> None:
    """contracts 7: promote ID. What runs or has ended is refused."""
    await house.agents("alice")
    for text in ("one", "two"):
        await house.said("dm:alice", text)
    await house.writer.commit(demote)
    await house.writer.commit(promote, "i2")
    assert ready(house) == ["i2"]
    row = house.reader.now(instruction_views.queue, "alice", house.clock.now_ms).instructions[0]
    assert (row.id, row.lane, row.promoted) == ("i2", "immediate", True)
    assert (await house.take("i2")).promoted
    await refused("conflict", house, promote, "i2")
    await house.writer.commit(cancel, "i1")
    await refused("conflict", house, promote, "i1")


def demote(tx: Transaction) -> None:
    tx.conn.execute("UPDATE instructions SET lane = 2")


async def a_paused_agent_is_given_no_work_until_it_is_resumed(house: House) -> None:
    """contracts 4: pause, resume. Doing it twice changes nothing; what it is in error for is not resumed."""
    await house.agents("alice")
    await house.said("dm:alice", "work")
    for _ in range(2):
        await house.writer.commit(pause_agent, ALICE)
    assert (ready(house), looks(house)[0], info(house, "i1").standing) == ([], "paused", "person")
    for _ in range(2):
        await house.writer.commit(resume_agent, ALICE)
    assert (ready(house), looks(house)[0]) == (["i1"], "idle")
    told = [one.data["state"] for one in house.told if one.type == "agent.changed"]
    assert told[-2:] == ["paused", "active"]
    await house.writer.commit(stop_agent, ALICE)
    assert (ready(house), looks(house)[0]) == ([], "stopped")
    await refused("conflict", house, pause_agent, ALICE)
    await house.writer.commit(resume_agent, ALICE)
    assert ready(house) == ["i1"]
    await refused("unknown_agent", house, pause_agent, AgentKey("nobody"))


async def a_reset_clears_whatever_keeps_an_agent_from_its_work(house: House) -> None:
    """contracts 7: reset works in any state (P13): error, crash records, backoff; its queue was kept."""
    await house.agents("alice")
    await house.said("dm:alice", "work")
    await house.writer.commit(crash_loop)
    assert (ready(house), looks(house)) == ([], ("error", "too many crashes"))
    await refused("conflict", house, resume_agent, ALICE)
    await house.writer.commit(reset_agent, ALICE)
    assert (ready(house), looks(house)) == (["i1"], ("idle", None))
    left = house.reader.now(lambda conn: conn.execute("SELECT count(*) FROM crashes").get)
    assert left == 0


def crash_loop(tx: Transaction) -> None:
    tx.conn.execute(
        "UPDATE agents SET state = 'error', reason = 'too many crashes', crash_streak = 5, resume_at_ms = ?",
        (tx.now_ms + 30_000,),
    )
    tx.conn.execute("INSERT INTO crashes (agent, at_ms) VALUES ('alice', ?)", (tx.now_ms,))
    tx.conn.execute("UPDATE instructions SET not_before_ms = ?", (tx.now_ms + 30_000,))


async def a_reset_lets_an_agent_try_a_refused_key_again_and_nobody_else(house: House) -> None:
    """needs_auth is left by reset or resume; one probe, no herd (fault TF15)."""
    await house.agents("alice", "bob")
    for name in ("alice", "bob"):
        await house.said(f"dm:{name}", "work")
    await house.said("dm:alice", "more")
    for one in ("i1", "i2"):
        await refuse_key(house, one)
    assert [info(house, one).waits_for for one in ("i1", "i2", "i3")] == ["credentials"] * 3
    assert [info(house, one).standing for one in ("i1", "i2", "i3")] == ["person"] * 3
    assert ready(house) == []
    freed = await house.writer.commit(resume_agent, ALICE)
    assert (freed, ready(house)) == (("i1",), ["i1"])
    breaker = house.reader.now(circuit_breakers.breaker, "p#k")
    assert breaker is not None
    assert (breaker.state, breaker.probe) == ("half_open", 1)
    assert info(house, "i2").status == "waiting"
    await refuse_key(house, "i1")
    assert ready(house) == []


async def a_paused_workflow_begins_nothing_and_goes_on_where_it_was(house: House) -> None:
    """contracts 4: POST /workflows/:name/:tag/{pause,resume}; also what comes meanwhile, and what is given back."""
    space = await house.workflow("alice", "bob")
    await house.said(space, "@alice go")
    await house.said(space, "@bob go")
    leased = await house.take("i2")
    for _ in range(2):
        await house.writer.commit(pause_workflow, space)
    await house.said(space, "@alice again")
    await house.writer.commit(requeue, "i2", leased.epoch, Requeue(status="yielded", outcome="yielded"))
    states = [(one.status, one.waits_for) for one in house.reader.now(instructions.open_in, space)]
    assert (states, ready(house)) == ([("waiting", "paused")] * len(states), [])
    record = house.reader.now(workflows.by_space, space)
    assert record is not None
    assert house.reader.now(workflows.paused, record.id)
    await house.writer.commit(resume_workflow, space)
    assert {one.status for one in house.reader.now(instructions.open_in, space)} == {"queued"}
    assert len(ready(house)) == 2
    told = [one.data["state"] for one in house.told if one.type == "workflow.changed"]
    assert told == ["paused", "running"]
    await refused("workflow_not_running", house, pause_workflow, "nothing:main")


async def a_retry_in_a_paused_workflow_waits_for_it(house: House) -> None:
    """A pause holds whatever comes into the lane."""
    space = await house.workflow("alice", kickoff="@alice go")
    await fail(house)
    await house.writer.commit(pause_workflow, space)
    await house.writer.commit(retry, "i1")
    assert (info(house, "i1").status, info(house, "i1").waits_for) == ("waiting", "paused")
    await house.writer.commit(resume_workflow, space)
    assert ready(house) == ["i1"]


async def what_waits_for_a_limit_goes_on_when_a_person_continues_it(house: House) -> None:
    """Until a person continues it. A budget of an agent likewise."""
    space = await house.workflow("alice", kickoff="@alice go")
    await house.writer.commit(wait_for, "hops")
    assert (info(house, "i1").standing, info(house, "i1").waits_for) == ("person", "hops")
    assert await house.writer.commit(continue_workflow, space) == ("i1",)
    await house.writer.commit(wait_for, "budget")
    key = AgentKey(f"alice@{space}")
    assert await house.writer.commit(continue_agent, key) == ("i1",)
    assert ready(house) == ["i1"]
    await refused("workflow_not_running", house, continue_workflow, "nothing:main")


def wait_for(tx: Transaction, reason: str) -> None:
    tx.conn.execute("UPDATE instructions SET state = 'waiting', waits_for = ?", (reason,))


async def a_receipt_follows_the_message_to_its_end(house: House) -> None:
    """contracts 9: queued, leased, injected, acked; messages that were joined name one instruction."""
    space = await house.workflow("alice")
    sent = [await house.said(space, f"@alice {n}") for n in range(2)]

    def states() -> list[list[tuple[str, str | None]]]:
        return [receipts(house, one.seq) for one in sent]

    (first,) = {one for appended in sent for one in appended.instruction_ids}
    assert states() == [[("queued", first)]] * 2
    leased = await house.take(first)
    assert states() == [[("leased", first)]] * 2
    assert [row.state for row in house.reader.now(messages.inbox, leased.agent, space)] == ["leased"] * 2
    await house.writer.commit(journal, first, leased.epoch, Entry(k=0, kind="reply", text="x"))
    assert states() == [[("injected", first)]] * 2
    await house.writer.commit(close, first, leased.epoch, status="done")
    assert states() == [[("acked", first)]] * 2
    assert info(house, first).message_ids == tuple(one.message_id for one in sent)


async def a_queue_says_what_keeps_each_and_until_when(house: House) -> None:
    """Nobody has to guess why nothing happens."""
    await house.agents("alice")
    for text in ("one", "two"):
        await house.said("dm:alice", text)
    leased = await house.take("i1")
    until = house.clock.now_ms + 60_000
    parking = Requeue(
        status="waiting", outcome="rate_limited", waits_for="provider", wait_key="p", not_before_ms=until, holds=True
    )
    await house.writer.commit(requeue, "i1", leased.epoch, parking)
    rows = house.reader.now(instruction_views.queue, "alice", house.clock.now_ms).instructions
    assert [(one.id, one.status, one.waits_for, one.until is None) for one in rows] == [
        ("i1", "waiting", "provider", False),
        ("i2", "queued", "provider", False),
    ]
    stands = house.reader.now(instructions.of, ["i1", "i2", "i9"], house.clock.now_ms)
    assert {one: (how.kind, how.until_ms) for one, how in stands.items()} == {
        "i1": ("time", until),
        "i2": ("time", until),
    }
    assert looks(house) == ("waiting", "provider")


STEERING: Final[tuple[Check, ...]] = (
    what_is_open_can_be_cancelled_and_what_ended_says_how,
    a_retry_goes_on_after_the_last_entry_and_a_fresh_one_begins_again,
    only_what_was_given_up_is_retried,
    a_promoted_instruction_is_done_before_the_others,
    a_paused_agent_is_given_no_work_until_it_is_resumed,
    a_reset_clears_whatever_keeps_an_agent_from_its_work,
    a_reset_lets_an_agent_try_a_refused_key_again_and_nobody_else,
    a_paused_workflow_begins_nothing_and_goes_on_where_it_was,
    a_retry_in_a_paused_workflow_waits_for_it,
    what_waits_for_a_limit_goes_on_when_a_person_continues_it,
    a_receipt_follows_the_message_to_its_end,
    a_queue_says_what_keeps_each_and_until_when,
)
