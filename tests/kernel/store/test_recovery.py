"""What a new kernel makes of what the last one left."""

from collections.abc import Callable, Collection
from functools import partial
from typing import cast

import apsw
import pytest

from kernel.rule.draft import Draft
from kernel.store import circuit_breakers, feed, instruction_views, instructions, messages
from kernel.store.attempts import leave
from kernel.store.circuit_breakers import ProviderFailure
from kernel.store.database import Connection
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.close import reply
from kernel.store.transitions.journal import journal
from kernel.store.transitions.recovery import Recovered, asked_to_stop, next_term, recover
from kernel.store.transitions.requeue import Requeue
from protocol.ipc import Entry
from protocol.names import InstructionId, inline_key, instruction_id
from tests.kernel.store.running_store import Store
from tests.shorthand import present

MINUTE_MS = 60_000


async def boot(store: Store, in_flight: Collection[InstructionId] | None = None) -> Recovered:
    """A kernel comes up, a while after the last, which was at work for what was ``in_flight``."""
    store.clock.now_ms += 1000
    return await store.writer.commit(recover, in_flight=in_flight)


async def working(store: Store, *names: str) -> None:
    """Each of these agents works on a message: ``i1`` of the first, and so on."""
    await store.agents(*names)
    for number, name in enumerate(names, 1):
        await store.said(f"dm:{name}", "work")
        await store.take(f"i{number}")


async def step(store: Store, instruction: str, epoch: int, k: int) -> None:
    await store.journal(instruction, epoch, Entry(k=k, kind="reply", stop_reason="tool_use"))


def asked(question: str) -> Callable[[Connection], list[tuple[object, ...]]]:
    def rows(conn: Connection) -> list[tuple[object, ...]]:
        return cast("list[tuple[object, ...]]", conn.execute(question).fetchall())

    return rows


def status(store: Store, instruction: str) -> str:
    return store.reader.now(instructions.results, [instruction])[0].status


@pytest.mark.promise("P13")
async def test_what_is_open_at_three_kernel_deaths_without_getting_further_is_given_up(store: Store) -> None:
    recovered = await boot(store)
    await store.agents("alice", "bob")
    for name in ("alice", "bob"):
        await store.said(f"dm:{name}", "work")
    for number in range(3):
        for instruction in ("i1", "i2"):
            await store.take(instruction)
        await step(store, "i2", number + 1, number)
        recovered = await boot(store)
    assert (recovered.given_up, recovered.requeued, recovered.safe_mode) == (("i1",), ("i2",), False)
    found = present(store.reader.now(instruction_views.info, "i1", store.clock.now_ms))
    assert (found.status, found.error_class, found.cause) == ("dead", "crash", "suspect_kernel_crash")
    *_, notice = store.reader.now(messages.channel, "dm:alice")
    assert (notice.kind, notice.sender) == ("system", "system")
    assert store.reader.now(asked("SELECT attempts, crashes FROM instructions WHERE id = 2")) == [(0, 0)]
    assert store.reader.now(asked("SELECT crash_streak, restarts, state FROM agents")) == [(0, 0, "active")] * 2


@pytest.mark.promise("P13")
async def test_the_death_of_a_kernel_counts_only_against_what_it_was_at_work_for(store: Store) -> None:
    await store.agents("alice", "bob")
    for name in ("alice", "bob"):
        await store.said(f"dm:{name}", "work")
    seen = []
    await boot(store)
    for _ in range(3):
        await store.take("i1")
        await store.take("i2")
        seen.append(await boot(store, {instruction_id(2)}))
    assert [(one.requeued, one.given_up) for one in seen] == [(("i1", "i2"), ())] * 2 + [(("i1",), ("i2",))]
    assert store.reader.now(asked("SELECT kernel_deaths FROM instructions")) == [(0,), (3,)]


async def test_a_kernel_that_ends_because_it_cannot_go_on_has_died(store: Store) -> None:
    await store.agents("alice")
    boots = []
    for _ in range(4):
        boots.append(await boot(store))
        await store.writer.commit(asked_to_stop, "failure of reload", wanted=False)
    assert boots[-1].safe_mode


async def test_a_kernel_that_was_asked_to_stop_has_not_died(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "work")
    for _ in range(4):
        await boot(store)
        await store.take("i1")
        await store.writer.commit(asked_to_stop)
    recovered = await boot(store)
    assert (recovered.requeued, recovered.given_up, recovered.safe_mode) == (("i1",), (), False)
    assert [one.data.get("died") for one in store.told if one.type == "kernel.started"] == [None] * 5


@pytest.mark.promise("PF24")
async def test_what_a_kernel_was_at_when_it_died_is_told_by_the_next(store: Store) -> None:
    await store.agents("alice", "bob")
    await store.said("dm:alice", "work")
    await store.said("dm:bob", "rest")
    await boot(store)
    await store.take("i1")
    await boot(store)
    *_, told = (one.data for one in store.told if one.type == "kernel.started")
    assert told["died"] == {"pid": 0, "working": ["i1"]}


async def test_kernels_that_die_one_after_the_other_end_in_safe_mode(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "work")
    assert [(await boot(store)).safe_mode for _ in range(5)] == [False, False, False, True, True]
    assert [row[-1] for row in store.reader.now(asked("SELECT safe FROM boots ORDER BY id"))] == [0, 0, 0, 1, 1]
    await store.writer.commit(asked_to_stop)
    assert [(await boot(store)).safe_mode for _ in range(4)] == [False, False, False, True]
    store.clock.now_ms += 6 * MINUTE_MS
    assert not (await boot(store)).safe_mode


async def test_kernels_that_die_but_get_something_done_go_on(store: Store) -> None:
    await working(store, "alice")
    for number in range(6):
        await step(store, "i1", number + 1, number)
        assert not (await boot(store)).safe_mode
        await store.take("i1")


@pytest.mark.promise("P13")
async def test_a_poisonous_instruction_is_given_up_before_safe_mode_is_thought_of(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "work")
    seen = []
    for _ in range(4):
        seen.append(await boot(store))
        if status(store, "i1") == "queued":
            await store.take("i1")
    assert [(one.given_up, one.safe_mode) for one in seen] == [((), False)] * 3 + [(("i1",), False)]


@pytest.mark.promise("TF14", "TF01")
async def test_what_waits_keeps_its_wait_and_a_clock_put_back_makes_it_no_longer(store: Store) -> None:
    await working(store, "alice", "bob")
    now = store.clock.now_ms
    for number in (1, 2):
        parking = Requeue(status="queued", outcome="network", cause="network", not_before_ms=now + 5000)
        await store.requeue(f"i{number}", 1, parking)
    await boot(store)
    due = asked("SELECT not_before_ms FROM instructions ORDER BY id")
    assert store.reader.now(due) == [(now + 5000,)] * 2
    store.clock.now_ms = now - 365 * 24 * 60 * MINUTE_MS
    await boot(store)
    assert store.reader.now(due) == [(store.clock.now_ms + 5000,)] * 2


@pytest.mark.promise("TF14", "P21")
async def test_agents_in_backoff_stay_so_and_no_longer_than_the_longest(store: Store) -> None:
    await store.agents("alice")

    def back_off(tx: Transaction) -> None:
        tx.conn.execute("UPDATE agents SET resume_at_ms = ?, crashed_ms = ?", (tx.now_ms + 8000, tx.now_ms))

    await store.writer.commit(back_off)
    now = store.clock.now_ms
    resume = asked("SELECT resume_at_ms FROM agents")
    await boot(store)
    assert store.reader.now(resume) == [(now + 8000,)]
    store.clock.now_ms = now - 365 * 24 * 60 * MINUTE_MS
    await boot(store)
    assert store.reader.now(resume) == [(store.clock.now_ms + 30_000,)]


@pytest.mark.promise("TF01")
async def test_a_schedule_is_no_further_off_than_its_interval(store: Store) -> None:
    await store.agents("alice")

    def schedule(tx: Transaction) -> None:
        tx.emit("agent.changed", agent="alice")
        timer = (
            "INSERT INTO timers (agent, home, schedule, period_ms, next_ms) VALUES ('alice', 'dm:alice', x'7b7d', ?, ?)"
        )
        tx.conn.execute(timer, (MINUTE_MS, tx.now_ms + 1000))

    await store.writer.commit(schedule)
    store.clock.now_ms -= 365 * 24 * 60 * MINUTE_MS
    await boot(store)
    assert store.reader.now(asked("SELECT next_ms FROM timers")) == [(store.clock.now_ms + MINUTE_MS,)]


@pytest.mark.parametrize(("cause", "reason"), [("auth", "credentials"), ("quota", "quota")])
async def test_a_new_kernel_asks_once_more_where_only_a_person_could_help(
    cause: str, reason: str, store: Store
) -> None:
    await working(store, "alice")
    failure = ProviderFailure("openai#1", cause, None, 0.0)  # type: ignore[arg-type]
    parking = Requeue(status="queued", outcome=cause, cause=cause, trip=failure)  # type: ignore[arg-type]
    await store.requeue("i1", 1, parking)
    assert status(store, "i1") == "waiting"
    assert [one.reason for one in store.reader.now(circuit_breakers.breakers)] == [reason]
    await boot(store)
    assert status(store, "i1") == "queued"
    assert store.reader.now(circuit_breakers.breakers) == ()
    assert store.reader.now(asked("SELECT hold_key, hold_until_ms FROM agents")) == [(None, 0)]


@pytest.mark.promise("P12", "TF14")
async def test_a_provider_that_said_when_is_left_alone_until_then(store: Store) -> None:
    await working(store, "alice")
    failure = ProviderFailure("openai#1/m", "rate_limited", 60.0, 0.0)
    await store.requeue("i1", 1, Requeue(status="queued", outcome="rate_limited", cause="rate_limited", trip=failure))
    (before,) = store.reader.now(circuit_breakers.breakers)
    await boot(store)
    assert store.reader.now(circuit_breakers.breakers) == (before,)
    assert status(store, "i1") == "waiting"
    await store.writer.commit(lambda tx: tx.conn.execute("UPDATE breakers SET state = 'half_open', probe = 1"))
    await boot(store)
    assert [(one.state, one.probe) for one in store.reader.now(circuit_breakers.breakers)] == [("open", None)]


async def test_who_waits_for_an_answer_that_is_there_goes_on(store: Store) -> None:
    await working(store, "alice", "bob", "carol")
    for number, key in ((1, "i2"), (3, "i1")):
        parking = Requeue(status="waiting", outcome="asked", waits_for="answer", wait_key=key)
        await store.requeue(f"i{number}", 1, parking)
    await store.journal("i2", 1, Entry(k=0, kind="reply", text="42", stop_reason="end_turn"))
    recovered = await boot(store)
    assert recovered.closed == ("i2",)
    assert [status(store, f"i{number}") for number in (1, 2, 3)] == ["queued", "done", "waiting"]


async def test_work_of_a_paused_workflow_stays_paused(store: Store) -> None:
    space = await store.workflow("alice", kickoff="@alice go")
    await store.take("i1")
    await store.writer.commit(lambda tx: tx.conn.execute("UPDATE workflows SET paused = 1 WHERE space = ?", (space,)))
    await boot(store)
    assert store.reader.now(asked("SELECT state, waits_for FROM instructions")) == [("waiting", "paused")]


async def test_recovery_that_is_cut_short_leaves_all_as_it_was(store: Store) -> None:
    await working(store, "alice", "bob")
    before = store.reader.now(feed.event_range), store.reader.now(asked("SELECT id, state, epoch FROM instructions"))

    def dies(tx: Transaction) -> None:
        recover(tx)
        raise apsw.AbortError("killed")

    with pytest.raises(apsw.AbortError):
        await store.writer.commit(dies)
    after = store.reader.now(feed.event_range), store.reader.now(asked("SELECT id, state, epoch FROM instructions"))
    assert after == before
    assert (await boot(store)).requeued == ("i1", "i2")


@pytest.mark.promise("P2", "P12", "P21")
@pytest.mark.parametrize("days", [-400, -1, 1, 400])
async def test_a_clock_that_was_set_while_no_kernel_ran_changes_no_wait_and_no_window(store: Store, days: int) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "one")
    key = RequestKey("admin", "k1", b"hash")
    draft = Draft(kind="said", space="dm:alice", sender="user", text="two", to=("alice",))
    first = await store.writer.commit(append, draft, request=key)
    await store.take("i1")
    due = store.clock.now_ms + 60_000
    await store.requeue("i1", 1, Requeue(status="queued", not_before_ms=due, outcome="network", cause="network"))
    await store.writer.commit(recover, machine=HostClock("boot", 1_000))
    by_ms = days * 86_400_000
    store.clock.now_ms += by_ms
    await store.writer.commit(recover, machine=HostClock("boot", 1_000 + by_ms))
    assert store.reader.now(instructions.next_due_ms, store.clock.now_ms) == due + by_ms
    assert await store.writer.commit(append, draft, request=key) == first


@pytest.mark.promise("P91")
async def test_each_start_has_a_higher_term_than_any_before(store: Store) -> None:
    terms: list[int] = []
    for _ in range(3):
        expected = store.reader.now(next_term)
        recovered = await boot(store)
        assert recovered.term == expected
        terms.append(recovered.term)
    store.database.writer().execute("DELETE FROM boots WHERE id < (SELECT max(id) FROM boots)")
    terms.append((await boot(store)).term)
    assert terms == sorted(set(terms))
    told = [one.data["term"] for one in store.told if one.type == "kernel.started"]
    assert told == terms


@pytest.mark.promise("P3", "PF27")
async def test_an_attempt_that_had_replied_when_its_kernel_died_is_ended_by_the_next(store: Store) -> None:
    await working(store, "alice", "bob")
    for instruction in ("i1", "i2"):
        entry = Entry(k=0, kind="reply", text="hi", stop_reason="end_turn", last=True)
        await store.writer.commit(reply, instruction, 1, "hi", partial(journal, entry=entry))
    store.clock.now_ms += 500
    await store.writer.commit(leave, "i2", 1, "0", store.clock.now_ms - 300)
    await store.writer.commit(leave, "i2", 1, "1", store.clock.now_ms)
    recovered = await boot(store)
    assert (recovered.requeued, recovered.closed) == ((), ())
    assert [status(store, one) for one in ("i1", "i2")] == ["done", "done"]
    began = store.clock.now_ms - 1500
    assert store.reader.now(asked("SELECT outcome, exit, ended_ms, worked_ms FROM attempts")) == [
        ("done", None, began + 1500, 0),
        ("done", "0", began + 200, 0),
    ]
    await boot(store)
    ended = [(one.instruction, one.data["exit"]) for one in store.told if one.type == "attempt.ended"]
    assert ended == [("i2", "0"), ("i1", None)]


TREE = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder)
VALUES (1, ?, 'bob', 'review:main#1', ?, '/r', 'c0', 'awk/review/r1/bob', '/t', '')
"""


@pytest.mark.promise("P5", "P32")
@pytest.mark.parametrize(
    ("agent", "state", "closed"), [(None, "", True), ("bob", "made", False), ("", "made", False), ("bob", "gone", True)]
)
async def test_a_last_word_in_a_working_tree_is_no_end_before_the_tree_is_committed(
    agent: str | None, state: str, closed: bool, store: Store
) -> None:
    space = await store.workflow("bob")
    await store.given(space, "@bob work")
    if agent is not None:
        key = agent and inline_key(agent, space)
        await store.writer.commit(lambda tx: tx.write(TREE, (key, state)))
    entry = Entry(k=0, kind="reply", text="it is written", stop_reason="end_turn")
    await store.journal("i1", 1, entry)
    recovered = await boot(store)
    assert (recovered.closed, recovered.requeued) == ((("i1",), ()) if closed else ((), ("i1",)))
    assert status(store, "i1") == ("done" if closed else "queued")
