"""Who gets what: each message once, in order, and nobody another's."""

from typing import cast

import apsw
import pytest

from kernel.rule.draft import Draft
from kernel.store import instructions, messages
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from protocol.errors import Refused
from protocol.message import TEXT_LIMIT_BYTES
from tests.kernel.store.house import House

MANY = 10_000


def rows(conn: apsw.Connection, question: str) -> list[tuple[object, ...]]:
    return cast("list[tuple[object, ...]]", conn.execute(question).fetchall())


def inbox(house: House, agent: str, space: str) -> list[str]:
    return [row.text for row in house.reader.now(messages.inbox, agent, space)]


async def flood(house: House, agent: str, count: int) -> None:
    """So many messages to one agent, all in one millisecond."""

    def say(tx: Transaction) -> None:
        for number in range(count):
            append(tx, Draft(kind="said", space=f"dm:{agent}", sender="user", text=f"m{number}"))

    await house.writer.commit(say)


async def test_names_that_look_alike_to_a_pattern_share_nothing(house: House) -> None:
    """Fault SF14: ``_`` and ``%`` are wildcards to SQL, ``'`` and ``"`` ends of text; here they are characters."""
    names = ("a_b", "axb", "a-b", "a", "ab")
    await house.agents(*names)
    space = await house.workflow(*names)
    for name in names:
        await house.said(f"dm:{name}", f"for {name}: '; DROP TABLE messages; -- \" %")
        await house.said(space, f"@{name} '%' or 1=1")
    for name in names:
        assert inbox(house, name, f"dm:{name}") == [f"for {name}: '; DROP TABLE messages; -- \" %"]
        assert inbox(house, f"{name}@{space}", space) == [f"@{name} '%' or 1=1"]
    for nobody in ("A", "a%", "a'b", 'a"b'):
        with pytest.raises(Refused):
            await house.said(f"dm:{nobody}", "x")


async def test_ten_thousand_messages_in_one_millisecond_keep_their_order(house: House) -> None:
    """Fault SF15: order is by number, not by time; one delivery and one instruction each."""
    await house.agents("alice")
    await flood(house, "alice", MANY)
    conn = house.database.reader()
    pairs = rows(conn, "SELECT message, instruction FROM deliveries ORDER BY instruction")
    assert [(message,) for message, _ in pairs] == rows(conn, "SELECT seq FROM messages ORDER BY seq")
    assert len({instruction for _, instruction in pairs}) == MANY
    seen: list[str] = []
    since = 0
    while page := house.reader.now(messages.page, messages.ChannelFilter("dm:alice"), 1000, since=since).messages:
        seen += [one.text for one in page]
        since = page[-1].seq
    assert seen == [f"m{number}" for number in range(MANY)]
    for number in range(1, 4):
        (first,) = house.reader.now(instructions.ready, house.clock.now_ms, 10)
        assert first.id == f"i{number}"
        await house.take(first.id)
        await house.writer.commit(close, first.id, 1, status="done", text="ok")


def work_of(conn: apsw.Connection) -> int:
    """How many steps SQLite's machine makes to show alice's inbox."""
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    conn.set_progress_handler(step, 1)
    messages.inbox(conn, "alice", "dm:alice")
    conn.set_progress_handler(None)
    return count


async def test_an_inbox_costs_what_is_in_it_and_a_message_has_a_largest_size(house: House) -> None:
    """Fault SF13: neither what others were told nor what was handled long ago is looked at; 100 MB are refused."""
    await house.agents("alice", "bob")
    await flood(house, "alice", 3)
    little = work_of(house.database.reader())
    await flood(house, "bob", 1000)
    await flood(house, "alice", 1000)
    handled = "UPDATE deliveries SET state = 'acked' WHERE agent = 'alice' AND message > 3"
    await house.writer.commit(lambda tx: rows(tx.conn, handled))
    assert 0 < work_of(house.database.reader()) <= little + 10
    with pytest.raises(Refused) as caught:
        await house.said("dm:alice", "x" * (TEXT_LIMIT_BYTES + 1))
    assert caught.value.code == "too_large"


async def test_what_arrives_while_an_agent_works_is_work_of_its_own(house: House) -> None:
    """Fault TF10: neither acknowledged nor swallowed by what was there before; later mentions join each other."""
    space = await house.workflow("alice", kickoff="@alice go")
    leased = await house.take("i1")
    during = await house.said(space, "@alice also this")
    again = await house.said(space, "@alice and this")
    assert (during.instruction_ids, again.instruction_ids) == (("i2",), ("i2",))
    await house.writer.commit(close, "i1", leased.epoch, status="done", text="went")
    for appended in (during, again):
        report = house.reader.now(messages.report, appended.seq)
        assert report is not None
        assert [(one.state, one.instruction_id) for one in report.receipts] == [("queued", "i2")]
    assert inbox(house, "alice@review:main", space) == ["@alice also this", "@alice and this"]
    assert [one.id for one in house.reader.now(instructions.ready, house.clock.now_ms, 10)] == ["i2"]
