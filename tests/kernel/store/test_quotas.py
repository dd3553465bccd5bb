"""What one instruction may do through the kernel's tools, and how much may wait for an agent."""

import msgspec
import pytest
import trio

from kernel.rule.draft import Author, Draft
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.approvals import GatedCall
from kernel.store.attempts import QuotaReached, tell_reached
from kernel.store.messages import add_feedback
from kernel.store.transitions.append import append
from kernel.store.transitions.approvals import ask
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.voting import vote
from protocol.errors import Refused
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store
from tests.shorthand import present

pytestmark = pytest.mark.promise("P10")


async def at_work(store: Store, **limits: int) -> Author:
    """alice, who may do so much, is at work."""
    definition = msgspec.json.encode({"model": "mock/m", "limits": limits})
    await store.agent("alice", definition)
    (instruction,) = (await store.said("dm:alice", "go")).instruction_ids
    return Author(instruction, (await store.take(instruction)).epoch)


async def says(store: Store, author: Author, text: str = "x", key: str | None = None) -> None:
    calling = msgspec.structs.replace(author, call=key)
    draft = Draft(kind="said", space="dm:alice", sender="alice", text=text, author=calling)
    await store.writer.commit(append, draft)


async def test_what_is_over_a_quota_is_refused_and_changes_nothing(store: Store) -> None:
    author = await at_work(store, messages=2)
    await says(store, author)
    await says(store, author)
    with pytest.raises(QuotaReached, match=r"used up: 2 messages .* \(limits.messages\)") as reached:
        await says(store, author, "one too many")
    assert (reached.value.code, reached.value.meaning.http_status) == ("quota_reached", 429)
    assert "next instruction has a new quota" in str(reached.value.hint)
    texts = [one.data["text"] for one in store.told if one.type == "message"]
    assert texts.count("x") == 2
    assert "one too many" not in texts


async def test_neither_calls_at_once_nor_another_attempt_lift_a_quota(store: Store) -> None:
    author = await at_work(store, messages=5)
    refused: list[Exception] = []

    async def one(number: int) -> None:
        try:
            await says(store, author, f"n{number}", key=f"k{number}")
        except QuotaReached as reached:
            refused.append(reached)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert len(refused) == 15
    parking = Requeue(status="queued", outcome="kernel_restart")
    await store.requeue(author.instruction, author.epoch, parking)
    again = present(await store.writer.commit(lease, author.instruction, b"another token"))
    with pytest.raises(QuotaReached):
        await says(store, Author(author.instruction, again.epoch), "n21")


@pytest.mark.promise("P4")
async def test_a_call_that_is_made_again_counts_once(store: Store) -> None:
    author = await at_work(store, messages=1)
    for _ in range(3):
        await says(store, author, key="k1")
    with pytest.raises(QuotaReached):
        await says(store, author, key="k2")


async def test_each_quota_is_counted_by_itself(store: Store) -> None:
    author = await at_work(store, feedback=1, approvals=1, bytes=2000)
    await store.writer.commit(add_feedback, "too slow", author)
    with pytest.raises(QuotaReached, match="feedback"):
        await store.writer.commit(add_feedback, "still", author)
    call = GatedCall(key="a", tool="bash", input=b"{}", why="", held=False)
    await store.writer.commit(ask, author, call, store.clock.now_ms + 1000)
    await store.writer.commit(ask, author, call, store.clock.now_ms + 1000)  # the same request
    other = msgspec.structs.replace(call, key="b", input=b'{"x":1}')
    with pytest.raises(QuotaReached, match="requests for approval"):
        await store.writer.commit(ask, author, other, store.clock.now_ms + 1000)
    with pytest.raises(QuotaReached, match="bytes"):
        await says(store, author, "x" * 2000)
    await says(store, author, "y" * 1000)


async def test_work_for_others_is_counted_however_it_came_about(store: Store) -> None:
    space = await store.workflow("alice", "bob", "carol")
    limits = msgspec.json.encode({"limits": {"instructions": 2}})
    await store.writer.commit(lambda tx: tx.write("UPDATE agents SET definition = ?", (limits,)))
    (instruction,) = (await store.said(space, "go", to=("alice",))).instruction_ids
    author = Author(instruction, (await store.take(instruction)).epoch)
    draft = Draft(kind="said", space=space, sender="alice", text="@bob @carol look", author=author)
    await store.writer.commit(append, draft)
    again = msgspec.structs.replace(draft, author=msgspec.structs.replace(author, call="2"))
    with pytest.raises(QuotaReached, match="2 instructions for others"):
        await store.writer.commit(append, again)
    with pytest.raises(Refused, match="not found"):  # what wakes nobody is not counted as such
        await store.writer.commit(vote, space, "p1", "yes", author=author)
    await store.writer.commit(append, msgspec.structs.replace(draft, text="well"))


async def test_that_a_quota_is_reached_is_told_once_and_forgotten_at_the_end(store: Store) -> None:
    author = await at_work(store, messages=0)
    for _ in range(3):
        with pytest.raises(QuotaReached) as reached:
            await says(store, author)
        await store.writer.commit(tell_reached, author, reached.value.quota, reached.value.limit)
    (event,) = [one for one in store.told if one.type == "quota.reached"]
    assert (event.agent, event.instruction, event.data) == ("alice", "i1", {"quota": "messages", "limit": 0})
    await store.close(author.instruction, author.epoch, status="done")
    assert store.database.reader().execute("SELECT count(*) FROM quotas").fetchall() == [(0,)]


async def test_a_full_queue_takes_no_more_until_something_is_done(store: Store) -> None:
    author = await at_work(store, queue=2)
    await store.said("dm:alice", "one")
    await store.said("dm:alice", "two")
    with pytest.raises(Refused, match=r"queue of agent alice full: 2 instructions wait .*limits.queue: 2") as refused:
        await store.said("dm:alice", "three")
    assert (refused.value.code, *refused.value.meaning) == ("queue_full", 429, 1)
    await store.close(author.instruction, author.epoch, status="done")
    await store.take("i2")
    assert (await store.said("dm:alice", "four")).instruction_ids == ("i4",)


@pytest.mark.promise("P10")
async def test_what_waits_for_others_fills_no_queue_of_its_own(store: Store) -> None:
    await at_work(store, queue=2)
    await store.agents("bob")
    await store.said("dm:alice", "one")
    for _ in range(10):
        await store.said("dm:bob", "x")
    await store.said("dm:alice", "two")
    waiting = "UPDATE instructions SET state = 'waiting', lane = 2 WHERE agent = 'alice' AND state = 'queued'"
    await store.writer.commit(lambda tx: tx.write(waiting, ()))
    with pytest.raises(Refused, match="queue of agent alice full: 2 instructions wait"):
        await store.said("dm:alice", "three")


async def test_a_reply_is_not_lost_because_a_queue_is_full(store: Store) -> None:
    space = await store.workflow("alice", "bob")
    full = msgspec.json.encode({"limits": {"queue": 1}})
    bob = AgentSpec(key=AgentKey(f"bob@{space}"), origin="inline", home_space=space, definition=full)
    await store.writer.commit(put_agents, [bob])
    leased = await store.given(space, "go", to=("alice",))
    instruction = leased.instruction
    await store.said(space, "first", to=("bob",))
    author = Author(instruction, leased.epoch)
    with pytest.raises(Refused, match="queue of agent bob full"):
        await store.writer.commit(append, Draft(kind="said", space=space, sender="alice", text="@bob 2", author=author))
    closed = await store.close(instruction, leased.epoch, status="done", text="@bob over to you")
    assert closed.instruction_ids == ()
    texts = store.database.reader().execute("SELECT text FROM messages").fetchall()
    assert ("@bob over to you",) in texts
