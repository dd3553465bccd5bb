"""Who gets what: each message once, in order, and nobody another's."""

from typing import cast

import apsw
import pytest

from kernel.rule.draft import Draft
from kernel.store import instructions, messages
from kernel.store.messages import add_feedback
from kernel.store.rows import RowPage
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from protocol.errors import Refused
from protocol.message import RESOURCE_LIMIT_BYTES
from tests.kernel.store.running_store import Store, steps_of
from tests.shorthand import present

MANY = 10_000


def rows(conn: apsw.Connection, question: str) -> list[tuple[object, ...]]:
    return cast("list[tuple[object, ...]]", conn.execute(question).fetchall())


def inbox(store: Store, agent: str, space: str) -> list[str]:
    return [row.text for row in store.reader.now(messages.inbox, agent, space)]


async def flood(store: Store, agent: str, count: int) -> None:
    """So many messages to one agent, all in one millisecond."""

    def say(tx: Transaction) -> None:
        for number in range(count):
            append(tx, Draft(kind="said", space=f"dm:{agent}", sender="user", text=f"m{number}"))

    await store.writer.commit(say)


@pytest.mark.promise("SF14")
async def test_names_that_look_alike_to_a_pattern_share_nothing(store: Store) -> None:
    names = ("a_b", "axb", "a-b", "a", "ab")
    await store.agents(*names)
    space = await store.workflow(*names)
    for name in names:
        await store.said(f"dm:{name}", f"for {name}: '; DROP TABLE messages; -- \" %")
        await store.said(space, f"@{name} '%' or 1=1")
    for name in names:
        assert inbox(store, name, f"dm:{name}") == [f"for {name}: '; DROP TABLE messages; -- \" %"]
        assert inbox(store, f"{name}@{space}", space) == [f"@{name} '%' or 1=1"]
    for nobody in ("A", "a%", "a'b", 'a"b'):
        with pytest.raises(Refused):
            await store.said(f"dm:{nobody}", "x")


@pytest.mark.promise("SF15")
async def test_ten_thousand_messages_in_one_millisecond_keep_their_order(store: Store) -> None:
    await store.agents("alice")
    await flood(store, "alice", MANY)
    conn = store.database.reader()
    pairs = rows(conn, "SELECT message, instruction FROM deliveries ORDER BY instruction")
    assert [(message,) for message, _ in pairs] == rows(conn, "SELECT seq FROM messages ORDER BY seq")
    assert len({instruction for _, instruction in pairs}) == MANY
    seen: list[str] = []
    since = 0
    while page := store.reader.now(messages.page, messages.ChannelFilter("dm:alice"), 1000, since=since).messages:
        seen += [one.text for one in page]
        since = page[-1].seq
    assert seen == [f"m{number}" for number in range(MANY)]
    for number in range(1, 4):
        (first,) = store.reader.now(instructions.ready, store.clock.now_ms, 10)
        assert first.id == f"i{number}"
        await store.take(first.id)
        await store.close(first.id, 1, status="done", text="ok")


def work_of(conn: apsw.Connection) -> int:
    return steps_of(conn, lambda conn: messages.inbox(conn, "alice", "dm:alice"))


@pytest.mark.promise("SF13")
async def test_an_inbox_costs_what_is_in_it_and_a_message_has_a_largest_size(store: Store) -> None:
    """Neither what others were told nor what was handled long ago is looked at; 100 MB are refused."""
    await store.agents("alice", "bob")
    await flood(store, "alice", 3)
    little = work_of(store.database.reader())
    await flood(store, "bob", 1000)
    await flood(store, "alice", 1000)
    handled = "UPDATE deliveries SET state = 'acked' WHERE agent = 'alice' AND message > 3"
    await store.writer.commit(lambda tx: rows(tx.conn, handled))
    assert 0 < work_of(store.database.reader()) <= little + 10
    with pytest.raises(Refused) as caught:
        await store.said("dm:alice", "x" * (RESOURCE_LIMIT_BYTES + 1))
    assert (caught.value.code, "split the text" in str(caught.value.hint)) == ("too_large", True)


@pytest.mark.promise("TF10")
async def test_what_arrives_while_an_agent_works_is_work_of_its_own(store: Store) -> None:
    space = await store.workflow("alice", kickoff="@alice go")
    leased = await store.take("i1")
    during = await store.said(space, "@alice also this")
    again = await store.said(space, "@alice and this")
    assert (during.instruction_ids, again.instruction_ids) == (("i2",), ("i2",))
    await store.close("i1", leased.epoch, status="done", text="went")
    for appended in (during, again):
        report = present(store.reader.now(messages.report, appended.seq))
        assert [(one.state, one.instruction_id) for one in report.receipts] == [("queued", "i2")]
    assert inbox(store, "alice@review:main", space) == ["@alice also this", "@alice and this"]
    assert [one.id for one in store.reader.now(instructions.ready, store.clock.now_ms, 10)] == ["i2"]


@pytest.mark.promise("P10")
async def test_an_answer_has_the_newest_and_is_bounded(store: Store) -> None:
    half = messages.FEEDBACK_LIMIT_CHARACTERS // 2
    for text in ("a" * half, "b" * half, "c" * half, "d"):
        await store.writer.commit(add_feedback, text)
    assert _told(store, 1000) == ["c", "d"]
    assert _told(store, 2) == ["c", "d"]
    await store.writer.commit(add_feedback, "e" * (messages.FEEDBACK_LIMIT_CHARACTERS + 1))
    assert _told(store, 1000) == ["e"]


def _told(store: Store, limit: int) -> list[str]:
    return [row.text[0] for row in store.reader.now(messages.feedback_list, RowPage(limit)).feedback]
