"""What work took, seen by agent, workspace and model (contracts 7: ``stats``; 9: its document)."""

import time
from typing import Any, Literal

import pytest

from kernel.store import entries, spending
from kernel.store.attempts import Beginning, started
from kernel.store.instructions import counts
from kernel.store.spending import of_agent, of_run
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import book_late, cancel, close
from kernel.store.transitions.journal import journal
from protocol.errors import Refused
from protocol.instruction import LARGEST, Usage
from protocol.ipc import Entry
from tests.kernel.store.running_store import Store
from tests.shorthand import present

MANY = """
INSERT INTO instructions (agent, name, space, run, lane, state, message, hops, enqueued_ms)
VALUES (?, 'alice', ?, ?, 0, 'done', 1, 0, 1)
"""


@pytest.fixture
async def store(store: Store) -> Store:
    await store.agents("alice")
    return store


async def work(
    store: Store, space: str, model: str, status: Literal["done", "failed"], spent: Usage, *, resumed: str = ""
) -> None:
    """Something is said to bob or alice there, who takes a second for one step with ``model``."""
    to = ("bob",) if space == "review:main" else ()
    (instruction,) = (await store.said(space, "work", to=to)).instruction_ids
    await store.take(instruction)

    def done(tx: Transaction) -> None:
        started(tx, instruction, 1, Beginning(pid=1, backend="sdk", model=model, manifest=("prompt",)))
        if resumed:
            started(tx, instruction, 1, Beginning(pid=2, backend="sdk", model=resumed))
        journal(tx, instruction, 1, Entry(k=0, kind="reply", usage=spent))
        close(tx, instruction, 1, status=status, text="", cause=None if status == "done" else "invalid")

    store.clock.now_ms += 1000
    await store.writer.commit(done)


async def test_the_same_work_is_counted_by_agent_by_workspace_and_by_model(store: Store) -> None:
    """An unknown price is told as such and never as 0; what was never begun has no model."""
    await store.workflow("bob")
    priced, unpriced = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5), Usage(input_tokens=3, cache_read_tokens=7)
    await work(store, "dm:alice", "a/one", "done", priced)
    await work(store, "dm:alice", "b/two", "failed", unpriced)
    await work(store, "review:main", "c/gone", "done", priced, resumed="a/one")
    await work(store, "dm:alice", "", "done", Usage())
    await store.said("dm:alice", "later")
    found = store.reader.now(spending.report)
    alice, bob = found.rows
    assert (alice.key, bob.key) == ("alice", "bob@review:main")
    assert (alice.instructions, alice.failures, alice.steps, alice.unpriced) == (4, 1, 3, 1)
    assert alice.usage == Usage(input_tokens=13, output_tokens=1, cache_read_tokens=7, cost_usd=0.5)
    assert alice.ended == {"done": 2, "failed": 1, "dead": 0, "incomplete": 0, "cancelled": 0}
    assert [(row.key, row.instructions) for row in found.workflows] == [("review:main", 1)]
    assert [(row.key, row.instructions, row.usage.cost_usd) for row in found.models] == [
        ("a/one", 2, 1.0),
        ("b/two", 1, None),
        ("sdk", 1, None),
    ]
    assert (found.total.instructions, found.total.steps, found.total.usage.cost_usd) == (5, 4, 1.0)


async def test_time_is_what_attempts_worked(store: Store) -> None:
    (instruction,) = (await store.said("dm:alice", "work")).instruction_ids
    store.clock.now_ms += 60_000
    await store.take(instruction)
    store.clock.now_ms += 1_500
    await store.close(instruction, 1, status="done", text="")
    assert store.reader.now(spending.report).total.worked_seconds == 1.5


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ({"agent": "alice"}, ["alice"]),
        ({"agent": "bob"}, []),
        ({"space": "review:main"}, ["bob@review:main"]),
        ({"space": "review:main", "name": "bob"}, ["bob@review:main"]),
        ({"space": "review:main", "name": "alice"}, []),
    ],
    ids=str,
)
async def test_a_target_is_all_that_is_counted(store: Store, asked: dict[str, Any], keys: list[str]) -> None:
    """contracts 2: alice, @review, bob@review."""
    await store.workflow("bob")
    await work(store, "dm:alice", "a/one", "done", Usage())
    await work(store, "review:main", "a/one", "done", Usage())
    found = store.reader.now(spending.report, **asked)
    assert [row.key for row in found.rows] == keys
    assert found.total.instructions == len(keys)


@pytest.mark.promise("P9")
async def test_thousands_of_workspaces_are_counted_in_one_pass(store: Store) -> None:
    def many(tx: Transaction) -> None:
        rows = [(f"alice@ci:{n}", f"ci:{n}", n) for n in range(10_000)]
        tx.conn.executemany(MANY, rows)

    await store.writer.commit(many)
    began = time.process_time()
    found = store.reader.now(spending.report)
    assert time.process_time() - began < 1.5
    assert (len(found.rows), len(found.workflows), found.total.instructions) == (10_000, 10_000, 10_000)


@pytest.mark.promise("P10")
async def test_the_largest_numbers_add_up_to_the_largest(store: Store) -> None:
    await store.workflow("bob")
    most = Usage(input_tokens=LARGEST, output_tokens=LARGEST, cache_read_tokens=LARGEST, cost_usd=float(LARGEST))
    for _ in range(3):
        await work(store, "review:main", "a/one", "done", most)
    report = store.reader.now(spending.report)
    assert report.total.usage == most
    assert report.rows[0].usage == most
    assert store.reader.now(counts, 1).usage == most
    assert store.reader.now(of_agent, "bob@review:main", 0).tokens == LARGEST
    money = present(store.reader.now(of_run, 1))
    assert (money.spent_tokens, money.spent_usd) == (LARGEST, float(LARGEST))


SPENT = Usage(input_tokens=2000, output_tokens=10, cache_write_tokens=5, cost_usd=0.5)
TOLD_LATE = Entry(k=1, kind="session", session="s", usage=SPENT)


@pytest.mark.promise("P27")
async def test_what_a_cancelled_attempt_spent_counts_for_its_agent(store: Store) -> None:
    await store.agents("alice")
    leased = await store.given("dm:alice", "go")
    one = leased.instruction
    await store.journal(one, leased.epoch, Entry(k=0, kind="session", session="s"))
    await store.writer.commit(cancel, one)
    await store.writer.commit(book_late, one, leased.epoch, TOLD_LATE)
    with pytest.raises(Refused):
        await store.writer.commit(book_late, one, leased.epoch, TOLD_LATE)
    assert store.reader.now(spending.of_agent, "alice", 0) == spending.SpentAmounts(2015, 0.5)
    assert store.reader.now(spending.report).total.usage == SPENT
    assert store.reader.now(entries.of, one)[1] == TOLD_LATE


@pytest.mark.promise("P27")
async def test_only_the_attempt_that_was_stopped_books_late(store: Store) -> None:
    await store.agents("alice")
    leased = await store.given("dm:alice", "go")
    one = leased.instruction
    for epoch, k in ((leased.epoch, 0), (leased.epoch + 1, 0)):
        with pytest.raises(Refused):
            await store.writer.commit(book_late, one, epoch, Entry(k=k, kind="session", usage=SPENT))
    assert store.reader.now(spending.report).total.usage == Usage()
