"""What an attempt spent is booked, also where somebody took its instruction back meanwhile."""

import pytest

from kernel.store import entries, spending
from kernel.store.transitions.close import book_late, cancel
from kernel.store.transitions.journal import journal
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.ipc import Entry
from tests.kernel.store.running_store import open_store

pytestmark = pytest.mark.promise("P27")

SPENT = Usage(input_tokens=2000, output_tokens=10, cache_write_tokens=5, cost_usd=0.5)
TOLD_LATE = Entry(k=1, kind="session", session="s", usage=SPENT)


async def test_what_a_cancelled_attempt_spent_counts_for_its_agent() -> None:
    async with open_store(":memory:") as store:
        await store.agents("alice")
        leased = await store.given("dm:alice", "go")
        one = leased.instruction
        await store.writer.commit(journal, one, leased.epoch, Entry(k=0, kind="session", session="s"))
        await store.writer.commit(cancel, one)
        await store.writer.commit(book_late, one, leased.epoch, TOLD_LATE)
        with pytest.raises(Refused):
            await store.writer.commit(book_late, one, leased.epoch, TOLD_LATE)
        assert store.reader.now(spending.of_agent, "alice", 0) == spending.Spent(2015, 0.5)
        assert store.reader.now(spending.report).total.usage == SPENT
        assert store.reader.now(entries.of, one)[1] == TOLD_LATE


async def test_only_the_attempt_that_was_stopped_books_late() -> None:
    async with open_store(":memory:") as store:
        await store.agents("alice")
        leased = await store.given("dm:alice", "go")
        one = leased.instruction
        for epoch, k in ((leased.epoch, 0), (leased.epoch + 1, 0)):
            with pytest.raises(Refused):
                await store.writer.commit(book_late, one, epoch, Entry(k=k, kind="session", usage=SPENT))
        assert store.reader.now(spending.report).total.usage == Usage()
