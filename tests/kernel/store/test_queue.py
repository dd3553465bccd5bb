"""The queue of instructions: order, place, and what the dispatcher asks."""

from collections.abc import Callable
from contextlib import suppress
from typing import cast

import apsw
import pytest

from kernel.policy.instruction_states import TRANSITIONS, Step
from kernel.policy.run_completion import RunWaits
from kernel.rule.draft import Author, Draft
from kernel.store import agents, entries, feed, instruction_views, instructions, messages, waits, workflows
from kernel.store.agents import put_agents, remove_agent, set_agent_state
from kernel.store.messages import acknowledge
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close, close_cancelled, close_incomplete
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.steering import retry
from protocol.errors import Refused
from protocol.instruction import STATUSES, Status, Usage
from protocol.ipc import Entry
from protocol.names import AgentKey
from tests.kernel.store.house import START_MS, House


def ready(house: House) -> list[str]:
    return [one.id for one in house.reader.now(instructions.ready, house.clock.now_ms, 10)]


async def test_the_urgent_lane_goes_first_and_each_lane_is_first_come(house: House) -> None:
    """Issue point 7: FIFO inside a lane; decisions.md: a mention is immediate, a direct send to a workspace normal."""
    space = await house.workflow("alice", "bob")
    await house.said(space, "one", to=("alice",))
    await house.said(space, "two", to=("alice",))
    assert ready(house) == ["i1"]
    await house.said(space, "@alice three")
    await house.said(space, "four", to=("bob",))
    assert ready(house) == ["i3", "i4"]


async def test_a_parked_instruction_keeps_its_place(house: House) -> None:
    """decisions.md: requeued in its lane, before what came later."""
    await house.agents("alice")
    for text in ("one", "two"):
        await house.said("dm:alice", text)
    await house.take("i1")
    await house.writer.commit(requeue, "i1", 1, Requeue(status="yielded", outcome="yielded", preempted=True))
    assert ready(house) == ["i1"]
    report = house.reader.now(instruction_views.queue, "alice", house.clock.now_ms)
    assert [(one.id, one.status, one.preempted) for one in report.instructions] == [
        ("i1", "yielded", 1),
        ("i2", "queued", 0),
    ]


async def test_what_waits_for_its_time_is_passed_over_until_then(house: House) -> None:
    """architecture.md: retry and backoff are a not_before column."""
    await house.agents("alice")
    await house.said("dm:alice", "one")
    await house.take("i1")
    due = START_MS + 5000
    await house.writer.commit(
        requeue,
        "i1",
        1,
        Requeue(status="queued", not_before_ms=due, outcome="network", cause="network", charge="attempt"),
    )
    assert ready(house) == []
    assert house.reader.now(instructions.next_due_ms, house.clock.now_ms) == due
    (process,) = house.reader.now(agents.ps, house.clock.now_ms)
    assert process.shown.state == "backoff"
    house.clock.now_ms = due
    assert ready(house) == ["i1"]
    assert house.reader.now(instructions.next_due_ms, house.clock.now_ms) is None


@pytest.mark.parametrize(
    ("cause", "charge", "expected"),
    [("network", "attempt", (2, 2, 0)), ("crash", "crash", (2, 1, 1)), ("kernel_restart", "none", (1, 1, 0))],
)
async def test_an_attempt_is_charged_where_it_belongs(
    house: House, cause: str, charge: str, expected: tuple[int, int, int]
) -> None:
    """promises.md 4.2: counters that are never mixed."""
    await house.agents("alice")
    await house.said("dm:alice", "one")
    await house.take("i1")
    await house.writer.commit(requeue, "i1", 1, Requeue(status="queued", outcome=cause, cause=cause, charge=charge))  # type: ignore[arg-type]
    house.clock.now_ms += 1
    again = await house.take("i1")
    assert (again.n, again.attempts, again.crashes) == expected


async def test_a_paused_agent_is_not_ready_and_keeps_its_queue(house: House) -> None:
    """decisions.md: states of an agent."""
    await house.agents("alice")
    await house.said("dm:alice", "one")
    await house.writer.commit(set_agent_state, AgentKey("alice"), "paused", "asked")
    assert ready(house) == []
    await house.writer.commit(set_agent_state, AgentKey("alice"), "active")
    assert ready(house) == ["i1"]


async def test_usage_is_the_sum_of_what_was_booked(house: House) -> None:
    """Issue point 7: result, reply, acks and usage in one transaction."""
    await house.agents("alice")
    await house.said("dm:alice", "one")
    await house.take("i1")
    used = Usage(input_tokens=10, output_tokens=2, cost_usd=0.25)
    await house.writer.commit(journal, "i1", 1, Entry(k=0, kind="reply", usage=used))
    await house.writer.commit(journal, "i1", 1, Entry(k=1, kind="reply", usage=Usage(input_tokens=1)))
    await house.writer.commit(close, "i1", 1, status="done", text="ok", usage=Usage(output_tokens=5, cost_usd=0.5))
    (result,) = house.reader.now(instructions.results, ["i1"])
    assert result.usage == Usage(input_tokens=11, output_tokens=7, cost_usd=0.75)
    (process,) = house.reader.now(agents.ps, house.clock.now_ms)
    assert process.shown.usage == result.usage


async def test_an_agent_speaks_only_as_itself(house: House) -> None:
    """Promise P6."""
    space = await house.workflow("alice", "bob", kickoff="@alice go")
    leased = await house.take("i1")
    author = Author(leased.instruction, leased.epoch)
    for sender, where in (("bob", space), ("alice", "dm:alice")):
        with pytest.raises(Refused) as caught:
            await house.writer.commit(append, Draft(kind="said", space=where, sender=sender, text="x", author=author))
        assert caught.value.code == "forbidden"


async def test_an_agent_acknowledges_only_what_reached_it_here(house: House) -> None:
    """decisions.md, who acks: explicit ids, its own."""
    space = await house.workflow("alice", "bob", kickoff="@alice @bob go")
    leased = await house.take("i1")
    kickoff = leased.message_seq
    author = Author(leased.instruction, leased.epoch)
    assert await house.writer.commit(acknowledge, author, [kickoff, 999]) == (kickoff,)
    assert await house.writer.commit(acknowledge, author, [kickoff]) == ()
    assert house.reader.now(messages.inbox, "alice@review:main", space) == ()
    assert len(house.reader.now(messages.inbox, "bob@review:main", space)) == 1


async def test_a_run_knows_when_it_is_quiet(house: House) -> None:
    """Promise P26: one question, one snapshot."""
    space = await house.workflow("alice", kickoff="@alice go")
    (progress,) = house.reader.now(workflows.running_runs, house.clock.now_ms)
    assert (progress.space, progress.waits, progress.failed) == (space, None, 0)
    await house.take("i1")
    await house.writer.commit(close, "i1", 1, status="failed", cause="auth")
    (progress,) = house.reader.now(workflows.running_runs, house.clock.now_ms)
    assert (progress.waits, progress.failed, progress.limited) == (RunWaits(), 1, False)


async def test_a_limit_is_told_once_and_marks_the_run(house: House) -> None:
    """Promise P27, fault TF12."""
    space = await house.workflow("alice", kickoff="@alice go", limits=b'{"instructions":1}')
    for number in (2, 3):
        appended = await house.said(space, "@alice more")
        assert appended.instruction_ids == (f"i{number}",)
    waiting = house.reader.now(instructions.open_in, space)[1:]
    assert [(one.status, one.waits_for) for one in waiting] == [("waiting", "hops")] * 2
    (progress,) = house.reader.now(workflows.running_runs, house.clock.now_ms)
    assert progress.limited
    notices = [one for one in house.told if one.type == "message" and one.data["kind"] == "system"]
    assert len(notices) == 1


async def test_the_roster_tells_changes_only_and_keeps_who_has_work(house: House) -> None:
    """Fault HF26: deleting an agent that has work is refused."""
    await house.agents("alice", "bob")
    told = len(house.told)
    await house.agents("alice", "bob")
    assert len(house.told) == told
    await house.said("dm:alice", "work")
    with pytest.raises(Refused) as caught:
        await house.writer.commit(remove_agent, AgentKey("alice"))
    assert caught.value.code == "conflict"
    await house.writer.commit(remove_agent, AgentKey("bob"))
    assert [one.key for one in house.reader.now(agents.all)] == ["alice"]


def steps_of(conn: apsw.Connection, now_ms: int) -> int:
    """How many instructions SQLite's machine needs for what the dispatcher asks."""
    count = 0

    def tick() -> bool:
        nonlocal count
        count += 1
        return False

    conn.set_progress_handler(tick, 1)
    instructions.ready(conn, now_ms, 10)
    instructions.next_due_ms(conn, now_ms)
    conn.set_progress_handler(None)
    return count


async def test_asking_who_is_ready_does_not_depend_on_the_length_of_the_queue(house: House) -> None:
    """Fault LF07."""
    await house.agents("alice", *(f"idle{number}" for number in range(20)))

    def queue(tx: Transaction, count: int) -> None:
        for _ in range(count):
            append(tx, Draft(kind="said", space="dm:alice", sender="user", text="x"))

    conn = house.database.reader()
    await house.writer.commit(queue, 5)
    short = steps_of(conn, house.clock.now_ms)
    await house.writer.commit(queue, 1000)
    assert 0 < steps_of(conn, house.clock.now_ms) <= short + 10


async def test_an_answer_about_events_reads_messages_where_they_are(house: House) -> None:
    """A message's text is stored once: its event refers to it."""
    await house.agents("alice")
    await house.said("dm:alice", "only once")
    (count,) = house.reader.now(
        lambda conn: conn.execute("SELECT count(*) FROM events WHERE instr(data, 'only once') > 0").fetchone() or (9,)
    )
    assert count == 0
    assert any(one.data.get("text") == "only once" for one in house.reader.now(feed.since, 0))


async def test_putting_the_same_agents_again_leaves_their_state(house: House) -> None:
    """decisions.md: attempts and budget are stored, so a reboot does not launder them."""
    await house.agents("alice")
    await house.writer.commit(set_agent_state, AgentKey("alice"), "error", "crash loop")
    await house.writer.commit(put_agents, [])
    await house.agents("alice")
    record = house.reader.now(agents.row, "alice")
    assert record is not None
    assert (record.state, record.reason) == ("error", "crash loop")


@pytest.mark.parametrize("state", STATUSES)
async def test_every_commit_does_what_the_table_of_states_says(house: House, state: Status) -> None:
    """style.md 32: guarded writes; the guards in SQL and the table in policy are one."""

    def force(tx: Transaction) -> None:
        tx.conn.execute("UPDATE instructions SET state = ?, epoch = 1 WHERE id = 1", (state,))

    def reset(tx: Transaction) -> None:
        tx.conn.execute(RESET).fetchall()

    async def outcome(step: Step) -> str | None:
        await house.writer.commit(force)
        with suppress(Refused):
            await house.writer.commit(COMMITS[step])
        row = house.reader.now(lambda conn: conn.execute("SELECT state, epoch FROM instructions").fetchone())
        assert row is not None
        changed = row[0] != state or (step == "entry" and house.reader.now(entries.of, "i1") != ())
        await house.writer.commit(reset)
        return cast(str, row[0]) if changed else None

    await house.agents("alice")
    await house.said("dm:alice", "work")
    for step in COMMITS:
        assert await outcome(step) == TRANSITIONS[state].get(step), step


RESET = "DELETE FROM entries; DELETE FROM attempts; UPDATE instructions SET entries = 0"
COMMITS: dict[Step, Callable[[Transaction], object]] = {
    "lease": lambda tx: lease(tx, "i1", b"t"),
    "entry": lambda tx: journal(tx, "i1", 1, Entry(k=0, kind="reply")),
    "retry": lambda tx: requeue(tx, "i1", 1, Requeue(status="queued", outcome="x", charge="attempt")),
    "yield": lambda tx: requeue(tx, "i1", 1, Requeue(status="yielded", outcome="x", charge="none")),
    "wait": lambda tx: requeue(tx, "i1", 1, Requeue(status="waiting", outcome="x", charge="none")),
    "done": lambda tx: close(tx, "i1", 1, status="done"),
    "resume": lambda tx: waits.wake(tx, (1,)),
    "incomplete": lambda tx: close_incomplete(tx, 1, 1, "budget"),
    "fail": lambda tx: close(tx, "i1", 1, status="failed"),
    "bury": lambda tx: close(tx, "i1", 1, status="dead"),
    "cancel": lambda tx: close_cancelled(tx, 1, 1),
    "revive": lambda tx: retry(tx, "i1"),
}
