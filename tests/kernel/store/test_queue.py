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
from tests.kernel.store.running_store import START_MS, Store, steps_of
from tests.kernel.store.test_circuit_breakers import ready
from tests.shorthand import present, refusal


async def test_a_parked_instruction_keeps_its_place(store: Store) -> None:
    await store.agents("alice")
    for text in ("one", "two"):
        await store.said("dm:alice", text)
    await store.take("i1")
    await store.requeue("i1", 1, Requeue(status="yielded", outcome="yielded", preempted=True))
    assert ready(store) == ["i1"]
    report = store.reader.now(instruction_views.queue, "alice", store.clock.now_ms)
    assert [(one.id, one.status, one.preempted) for one in report.instructions] == [
        ("i1", "yielded", 1),
        ("i2", "queued", 0),
    ]


async def test_what_waits_for_its_time_is_passed_over_until_then(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "one")
    due = START_MS + 5000
    await store.requeue(
        "i1", 1, Requeue(status="queued", not_before_ms=due, outcome="network", cause="network", charge="attempt")
    )
    assert ready(store) == []
    assert store.reader.now(instructions.next_due_ms, store.clock.now_ms) == due
    (process,) = store.reader.now(agents.ps, store.clock.now_ms)
    assert process.shown.state == "backoff"
    store.clock.now_ms = due
    assert ready(store) == ["i1"]
    assert store.reader.now(instructions.next_due_ms, store.clock.now_ms) is None


@pytest.mark.parametrize(
    ("cause", "charge", "expected"),
    [("network", "attempt", (2, 2, 0)), ("crash", "crash", (2, 1, 1)), ("kernel_restart", "none", (1, 1, 0))],
)
async def test_an_attempt_is_charged_where_it_belongs(
    store: Store, cause: str, charge: str, expected: tuple[int, int, int]
) -> None:
    """Counters that are never mixed."""
    await store.agents("alice")
    await store.given("dm:alice", "one")
    await store.requeue("i1", 1, Requeue(status="queued", outcome=cause, cause=cause, charge=charge))  # type: ignore[arg-type]
    store.clock.now_ms += 1
    again = await store.take("i1")
    assert (again.n, again.attempts, again.crashes) == expected


async def test_usage_is_the_sum_of_what_was_booked(store: Store) -> None:
    await store.agents("alice")
    await store.given("dm:alice", "one")
    used = Usage(input_tokens=10, output_tokens=2, cost_usd=0.25)
    await store.journal("i1", 1, Entry(k=0, kind="reply", usage=used))
    await store.journal("i1", 1, Entry(k=1, kind="reply", usage=Usage(input_tokens=1)))
    await store.close("i1", 1, status="done", text="ok", usage=Usage(output_tokens=5, cost_usd=0.5))
    (result,) = store.reader.now(instructions.results, ["i1"])
    assert result.usage == Usage(input_tokens=11, output_tokens=7, cost_usd=0.75)
    (process,) = store.reader.now(agents.ps, store.clock.now_ms)
    assert process.shown.usage == result.usage


@pytest.mark.promise("P6")
async def test_an_agent_speaks_only_as_itself(store: Store) -> None:
    space = await store.workflow("alice", "bob", kickoff="@alice go")
    leased = await store.take("i1")
    author = Author(leased.instruction, leased.epoch)
    for sender, where in (("bob", space), ("alice", "dm:alice")):
        assert (
            await refusal(
                store.writer.commit(append, Draft(kind="said", space=where, sender=sender, text="x", author=author))
            )
            == "forbidden"
        )


async def test_an_agent_acknowledges_only_what_reached_it_here(store: Store) -> None:
    space = await store.workflow("alice", "bob", kickoff="@alice @bob go")
    leased = await store.take("i1")
    kickoff = leased.message_seq
    author = Author(leased.instruction, leased.epoch)
    assert await store.writer.commit(acknowledge, author, [kickoff, 999]) == (kickoff,)
    assert await store.writer.commit(acknowledge, author, [kickoff]) == ()
    assert store.reader.now(messages.inbox, "alice@review:main", space) == ()
    assert len(store.reader.now(messages.inbox, "bob@review:main", space)) == 1


@pytest.mark.promise("P26")
async def test_a_run_knows_when_it_is_quiet(store: Store) -> None:
    space = await store.workflow("alice", kickoff="@alice go")
    (progress,) = store.reader.now(workflows.running_runs, store.clock.now_ms)
    assert (progress.space, progress.waits, progress.failed) == (space, None, 0)
    await store.take("i1")
    await store.close("i1", 1, status="failed", cause="auth")
    (progress,) = store.reader.now(workflows.running_runs, store.clock.now_ms)
    assert (progress.waits, progress.failed, progress.limited) == (RunWaits(), 1, False)


@pytest.mark.promise("P27", "TF12")
async def test_a_limit_is_told_once_and_marks_the_run(store: Store) -> None:
    space = await store.workflow("alice", kickoff="@alice go", limits=b'{"instructions":1}')
    for number in (2, 3):
        appended = await store.said(space, "@alice more")
        assert appended.instruction_ids == (f"i{number}",)
    waiting = store.reader.now(instructions.open_in, space)[1:]
    assert [(one.status, one.waits_for) for one in waiting] == [("waiting", "hops")] * 2
    (progress,) = store.reader.now(workflows.running_runs, store.clock.now_ms)
    assert progress.limited
    notices = [one for one in store.told if one.type == "message" and one.data["kind"] == "system"]
    assert len(notices) == 1


@pytest.mark.promise("HF26")
async def test_the_roster_tells_changes_only_and_keeps_who_has_work(store: Store) -> None:
    await store.agents("alice", "bob")
    told = len(store.told)
    await store.agents("alice", "bob")
    assert len(store.told) == told
    await store.said("dm:alice", "work")
    assert await refusal(store.writer.commit(remove_agent, AgentKey("alice"))) == "conflict"
    await store.writer.commit(remove_agent, AgentKey("bob"))
    assert [one.key for one in store.reader.now(agents.all)] == ["alice"]


@pytest.mark.promise("LF07")
async def test_asking_who_is_ready_does_not_depend_on_the_length_of_the_queue(store: Store) -> None:
    await store.agents("alice", *(f"idle{number}" for number in range(20)))

    def queue(tx: Transaction, count: int) -> None:
        for _ in range(count):
            append(tx, Draft(kind="said", space="dm:alice", sender="user", text="x"))

    def ask(conn: apsw.Connection) -> None:
        instructions.ready(conn, store.clock.now_ms, 10)
        instructions.next_due_ms(conn, store.clock.now_ms)

    conn = store.database.reader()
    await store.writer.commit(queue, 5)
    short = steps_of(conn, ask)
    await store.writer.commit(queue, 1000)
    assert 0 < steps_of(conn, ask) <= short + 10


async def test_an_answer_about_events_reads_messages_where_they_are(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "only once")
    (count,) = store.reader.now(
        lambda conn: conn.execute("SELECT count(*) FROM events WHERE instr(data, 'only once') > 0").fetchone() or (9,)
    )
    assert count == 0
    assert any(one.data.get("text") == "only once" for one in store.reader.now(feed.since, 0))


async def test_putting_the_same_agents_again_leaves_their_state(store: Store) -> None:
    await store.agents("alice")
    await store.writer.commit(set_agent_state, AgentKey("alice"), "error", "crash loop")
    await store.writer.commit(put_agents, [])
    await store.agents("alice")
    record = present(store.reader.now(agents.row, "alice"))
    assert (record.state, record.reason) == ("error", "crash loop")


@pytest.mark.parametrize("state", STATUSES)
async def test_every_commit_does_what_the_table_of_states_says(store: Store, state: Status) -> None:
    def force(tx: Transaction) -> None:
        tx.conn.execute("UPDATE instructions SET state = ?, epoch = 1 WHERE id = 1", (state,))

    def reset(tx: Transaction) -> None:
        tx.conn.execute(RESET).fetchall()

    async def outcome(step: Step) -> str | None:
        await store.writer.commit(force)
        with suppress(Refused):
            await store.writer.commit(COMMITS[step])
        row = present(store.reader.now(lambda conn: conn.execute("SELECT state, epoch FROM instructions").fetchone()))
        changed = row[0] != state or (step == "entry" and store.reader.now(entries.of, "i1") != ())
        await store.writer.commit(reset)
        return cast(str, row[0]) if changed else None

    await store.agents("alice")
    await store.said("dm:alice", "work")
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
