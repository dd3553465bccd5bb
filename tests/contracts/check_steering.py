"""What every place a store can live in must do when a person steers work. ``STEERING`` is the suite."""

from collections.abc import Callable
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
from tests.contracts import checks_of
from tests.kernel.store.running_store import Store

ALICE: Final = AgentKey("alice")


def ready(store: Store) -> list[str]:
    return [one.id for one in store.reader.now(instructions.ready, store.clock.now_ms, 10)]


def info(store: Store, instruction: str) -> InstructionInfo:
    found = store.reader.now(instruction_views.info, instruction, store.clock.now_ms)
    assert found is not None
    return found


def receipts(store: Store, seq: int) -> list[tuple[str, str | None]]:
    report = store.reader.now(messages.report, seq)
    assert report is not None
    return [(one.state, one.instruction_id) for one in report.receipts]


def looks(store: Store) -> tuple[Any, ...]:
    (process,) = store.reader.now(agents.ps, store.clock.now_ms)
    return process.shown.state, process.shown.reason


async def refused(code: str, store: Store, commit: Callable[..., object], *args: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await store.writer.commit(commit, *args)
    assert caught.value.code == code
    return caught.value


async def fail(store: Store, instruction: str = "i1", *, steps: int = 1) -> None:
    """One attempt with ``steps`` replies that ends for good."""
    leased = await store.take(instruction)
    for k in range(steps):
        await store.writer.commit(journal, instruction, leased.epoch, Entry(k=k, kind="reply", text=str(k)))
    await store.writer.commit(close, instruction, leased.epoch, status="failed", text="no", cause="invalid")


async def refuse_key(store: Store, instruction: str, key: str = "p#k") -> None:
    """An attempt that the provider answers with 401."""
    store.clock.now_ms += 1
    leased = await store.take(instruction)
    trip = ProviderFailure(key=key, cause="auth", retry_after_seconds=None, jitter=0.5)
    parking = Requeue(status="queued", outcome="auth", cause="auth", charge="none", trip=trip)
    await store.writer.commit(requeue, instruction, leased.epoch, parking)


async def what_is_open_can_be_cancelled_and_what_ended_says_how(store: Store) -> None:
    """contracts 4: POST /instructions/:id/cancel; the deliveries die with it, a live attempt writes no more (P3)."""
    await store.agents("alice")
    first, second = await store.said("dm:alice", "one"), await store.said("dm:alice", "two")
    leased = await store.take("i1")
    for instruction in ("i1", "i2"):
        await store.writer.commit(cancel, instruction)
    assert [info(store, one).status for one in ("i1", "i2")] == ["cancelled", "cancelled"]
    assert receipts(store, first.seq) + receipts(store, second.seq) == [("dead", "i1"), ("dead", "i2")]
    await refused("stale_attempt", store, journal, "i1", leased.epoch, Entry(k=0, kind="reply"))
    assert "cancelled" in (await refused("conflict", store, cancel, "i1")).text
    await refused("not_found", store, cancel, "i99")
    await refused("not_found", store, cancel, "m1")


async def a_retry_goes_on_after_the_last_entry_and_a_fresh_one_begins_again(store: Store) -> None:
    """contracts 9: retry takes failed and dead, keeps finished entries unless --fresh."""
    await store.agents("alice")
    sent = await store.said("dm:alice", "work")
    await fail(store, steps=2)
    assert receipts(store, sent.seq) == [("dead", "i1")]
    store.clock.now_ms += 3_600_000
    await store.writer.commit(retry, "i1")
    again = info(store, "i1")
    assert (again.status, again.cause, again.error_class, again.text, len(again.steps)) == ("queued", None, None, "", 2)
    assert receipts(store, sent.seq) == [("queued", "i1")]
    leased = await store.take("i1")
    assert (leased.attempts, leased.crashes, leased.entries) == (1, 0, 2)
    await store.writer.commit(close, "i1", leased.epoch, status="dead", cause="crash")
    await store.writer.commit(lambda tx: retry(tx, "i1", fresh=True))
    assert (info(store, "i1").steps, store.reader.now(entries.of, "i1")) == ((), ())
    store.clock.now_ms += 1
    assert (await store.take("i1")).entries == 0


async def only_what_was_given_up_is_retried(store: Store) -> None:
    """contracts 9; and never detached from its workflow (fault TF08)."""
    await store.agents("alice")
    await store.said("dm:alice", "work")
    assert "queued" in (await refused("conflict", store, retry, "i1")).text
    leased = await store.take("i1")
    await refused("conflict", store, retry, "i1")
    await store.writer.commit(close, "i1", leased.epoch, status="incomplete", cause="max_steps")
    assert "continue" in str((await refused("conflict", store, retry, "i1")).hint)
    space = await store.workflow("bob", kickoff="@bob go")
    await fail(store, "i2")
    await store.writer.commit(close_workflow, space)
    await refused("workflow_not_running", store, retry, "i2")


def close_workflow(tx: Transaction, space: str) -> None:
    tx.conn.execute("UPDATE workflows SET state = 'stopped' WHERE space = ?", (space,))


async def a_promoted_instruction_is_done_before_the_others(store: Store) -> None:
    """contracts 7: promote ID. What runs or has ended is refused."""
    await store.agents("alice")
    for text in ("one", "two"):
        await store.said("dm:alice", text)
    await store.writer.commit(demote)
    await store.writer.commit(promote, "i2")
    assert ready(store) == ["i2"]
    row = store.reader.now(instruction_views.queue, "alice", store.clock.now_ms).instructions[0]
    assert (row.id, row.lane, row.promoted) == ("i2", "immediate", True)
    assert (await store.take("i2")).promoted
    await refused("conflict", store, promote, "i2")
    await store.writer.commit(cancel, "i1")
    await refused("conflict", store, promote, "i1")


def demote(tx: Transaction) -> None:
    tx.conn.execute("UPDATE instructions SET lane = 2")


async def a_paused_agent_is_given_no_work_until_it_is_resumed(store: Store) -> None:
    """contracts 4: pause, resume. Doing it twice changes nothing; what it is in error for is not resumed."""
    await store.agents("alice")
    await store.said("dm:alice", "work")
    for _ in range(2):
        await store.writer.commit(pause_agent, ALICE)
    assert (ready(store), looks(store)[0], info(store, "i1").standing) == ([], "paused", "person")
    for _ in range(2):
        await store.writer.commit(resume_agent, ALICE)
    assert (ready(store), looks(store)[0]) == (["i1"], "idle")
    told = [one.data["state"] for one in store.told if one.type == "agent.changed"]
    assert told[-2:] == ["paused", "active"]
    await store.writer.commit(stop_agent, ALICE)
    assert (ready(store), looks(store)[0]) == ([], "stopped")
    await refused("conflict", store, pause_agent, ALICE)
    await store.writer.commit(resume_agent, ALICE)
    assert ready(store) == ["i1"]
    await refused("unknown_agent", store, pause_agent, AgentKey("nobody"))


async def a_reset_clears_whatever_keeps_an_agent_from_its_work(store: Store) -> None:
    """contracts 7: reset works in any state (P13): error, crash records, backoff; its queue was kept."""
    await store.agents("alice")
    await store.said("dm:alice", "work")
    await store.writer.commit(crash_loop)
    assert (ready(store), looks(store)) == ([], ("error", "too many crashes"))
    await refused("conflict", store, resume_agent, ALICE)
    await store.writer.commit(reset_agent, ALICE)
    assert (ready(store), looks(store)) == (["i1"], ("idle", None))
    left = store.reader.now(lambda conn: conn.execute("SELECT count(*) FROM crashes").get)
    assert left == 0


def crash_loop(tx: Transaction) -> None:
    tx.conn.execute(
        "UPDATE agents SET state = 'error', reason = 'too many crashes', crash_streak = 5, resume_at_ms = ?",
        (tx.now_ms + 30_000,),
    )
    tx.conn.execute("INSERT INTO crashes (agent, at_ms) VALUES ('alice', ?)", (tx.now_ms,))
    tx.conn.execute("UPDATE instructions SET not_before_ms = ?", (tx.now_ms + 30_000,))


async def a_reset_lets_an_agent_try_a_refused_key_again_and_nobody_else(store: Store) -> None:
    """needs_auth is left by reset or resume; one probe, no herd (fault TF15)."""
    await store.agents("alice", "bob")
    for name in ("alice", "bob"):
        await store.said(f"dm:{name}", "work")
    await store.said("dm:alice", "more")
    for one in ("i1", "i2"):
        await refuse_key(store, one)
    assert [info(store, one).waits_for for one in ("i1", "i2", "i3")] == ["credentials"] * 3
    assert [info(store, one).standing for one in ("i1", "i2", "i3")] == ["person"] * 3
    assert ready(store) == []
    freed = await store.writer.commit(resume_agent, ALICE)
    assert (freed, ready(store)) == (("i1",), ["i1"])
    breaker = store.reader.now(circuit_breakers.breaker, "p#k")
    assert breaker is not None
    assert (breaker.state, breaker.probe) == ("half_open", 1)
    assert info(store, "i2").status == "waiting"
    await refuse_key(store, "i1")
    assert ready(store) == []


async def a_paused_workflow_begins_nothing_and_goes_on_where_it_was(store: Store) -> None:
    """contracts 4: POST /workflows/:name/:tag/{pause,resume}; also what comes meanwhile, and what is given back."""
    space = await store.workflow("alice", "bob", "carol")
    await store.said(space, "@alice go")
    leased = await store.given(space, "@bob go")
    later_ms = store.clock.now_ms + 1000
    await store.given(space, "@carol go")
    await store.writer.commit(requeue, "i3", 1, Requeue(status="queued", outcome="network", not_before_ms=later_ms))
    for _ in range(2):
        await store.writer.commit(pause_workflow, space)
    await store.said(space, "@alice again")
    await store.writer.commit(requeue, "i2", leased.epoch, Requeue(status="yielded", outcome="yielded"))
    states = [(one.status, one.waits_for) for one in store.reader.now(instructions.open_in, space)]
    assert (states, ready(store)) == ([("waiting", "paused")] * len(states), [])
    record = store.reader.now(workflows.by_space, space)
    assert record is not None
    assert store.reader.now(workflows.paused, record.id)
    await store.writer.commit(resume_workflow, space)
    assert {one.status for one in store.reader.now(instructions.open_in, space)} == {"queued"}
    assert (len(ready(store)), "i3" in ready(store)) == (2, False)
    store.clock.now_ms = later_ms
    assert "i3" in ready(store)
    told = [one.data["state"] for one in store.told if one.type == "workflow.changed"]
    assert told == ["paused", "running"]
    await refused("workflow_not_running", store, pause_workflow, "nothing:main")


async def a_retry_in_a_paused_workflow_waits_for_it(store: Store) -> None:
    """A pause holds whatever comes into the lane."""
    space = await store.workflow("alice", kickoff="@alice go")
    await fail(store)
    await store.writer.commit(pause_workflow, space)
    await store.writer.commit(retry, "i1")
    assert (info(store, "i1").status, info(store, "i1").waits_for) == ("waiting", "paused")
    await store.writer.commit(resume_workflow, space)
    assert ready(store) == ["i1"]


async def what_waits_for_a_limit_goes_on_when_a_person_continues_it(store: Store) -> None:
    """Until a person continues it. A budget of an agent likewise."""
    space = await store.workflow("alice", kickoff="@alice go")
    await store.writer.commit(wait_for, "hops")
    assert (info(store, "i1").standing, info(store, "i1").waits_for) == ("person", "hops")
    assert await store.writer.commit(continue_workflow, space) == ("i1",)
    await store.writer.commit(wait_for, "budget")
    key = AgentKey(f"alice@{space}")
    assert await store.writer.commit(continue_agent, key) == ("i1",)
    assert ready(store) == ["i1"]
    queued = [one.type for one in store.told].count("instruction.queued")
    assert queued == 3, "at first, and each time that it is continued"
    await refused("workflow_not_running", store, continue_workflow, "nothing:main")


def wait_for(tx: Transaction, reason: str) -> None:
    tx.conn.execute("UPDATE instructions SET state = 'waiting', waits_for = ?", (reason,))


async def a_receipt_follows_the_message_to_its_end(store: Store) -> None:
    """contracts 9: queued, leased, injected, acked; messages that were joined name one instruction."""
    space = await store.workflow("alice")
    sent = [await store.said(space, f"@alice {n}") for n in range(2)]

    def states() -> list[list[tuple[str, str | None]]]:
        return [receipts(store, one.seq) for one in sent]

    (first,) = {one for appended in sent for one in appended.instruction_ids}
    assert states() == [[("queued", first)]] * 2
    leased = await store.take(first)
    assert states() == [[("leased", first)]] * 2
    assert [row.state for row in store.reader.now(messages.inbox, leased.agent, space)] == ["leased"] * 2
    await store.writer.commit(journal, first, leased.epoch, Entry(k=0, kind="reply", text="x"))
    assert states() == [[("injected", first)]] * 2
    await store.writer.commit(close, first, leased.epoch, status="done")
    assert states() == [[("acked", first)]] * 2
    assert info(store, first).message_ids == tuple(one.message_id for one in sent)


async def a_queue_says_what_keeps_each_and_until_when(store: Store) -> None:
    """Nobody has to guess why nothing happens."""
    await store.agents("alice")
    for text in ("one", "two"):
        await store.said("dm:alice", text)
    leased = await store.take("i1")
    until = store.clock.now_ms + 60_000
    parking = Requeue(
        status="waiting", outcome="rate_limited", waits_for="provider", wait_key="p", not_before_ms=until, holds=True
    )
    await store.writer.commit(requeue, "i1", leased.epoch, parking)
    rows = store.reader.now(instruction_views.queue, "alice", store.clock.now_ms).instructions
    assert [(one.id, one.status, one.waits_for, one.until is None) for one in rows] == [
        ("i1", "waiting", "provider", False),
        ("i2", "queued", "provider", False),
    ]
    stands = store.reader.now(instructions.of, ["i1", "i2", "i9"], store.clock.now_ms)
    assert {one: (how.kind, how.until_ms) for one, how in stands.items()} == {
        "i1": ("time", until),
        "i2": ("time", until),
    }
    assert looks(store) == ("waiting", "provider")


STEERING: Final = checks_of(globals())
