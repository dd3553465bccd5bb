"""What every place a store can live in must do.

Each function takes a running store and asserts one promise. ``CHECKS`` is the suite.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import pytest
import trio

from kernel.rule.draft import Author, Draft
from kernel.store import agents, attempts, entries, feed, instruction_views, instructions, messages, workflows
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Appended, append
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import Leased as Lease
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.runs import stop_workflow
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.ipc import Entry, ToolCall
from protocol.tools import SENDING
from tests.contracts import checks_of
from tests.kernel.store.running_store import Store, token_hash


async def a_message_becomes_work_and_its_answer_a_reply(store: Store) -> None:
    """architecture.md, walk 1."""
    await store.agents("alice")
    appended = await store.said("dm:alice", "look at X")
    (candidate,) = store.reader.now(instructions.ready, store.clock.now_ms, 10)
    leased = await store.take(candidate.id)
    await store.writer.commit(journal, leased.instruction, leased.epoch, Entry(k=0, kind="reply", text="fine"))
    await store.writer.commit(close, leased.instruction, leased.epoch, status="done", text="fine")
    said = store.reader.now(messages.channel, "dm:alice")
    assert [(one.kind, one.sender, one.text) for one in said] == [
        ("said", "user", "look at X"),
        ("reply", "alice", "fine"),
    ]
    report = store.reader.now(messages.report, appended.seq)
    assert report is not None
    assert [(one.agent, one.state, one.instruction_id) for one in report.receipts] == [("alice", "acked", "i1")]
    (result,) = store.reader.now(instructions.results, appended.instruction_ids)
    assert (result.status, result.text) == ("done", "fine")


async def a_refused_append_leaves_nothing(store: Store) -> None:
    """A refusal rolls everything back."""
    newest = store.reader.now(feed.event_range).newest
    with pytest.raises(Refused, match="not found") as caught:
        await store.said("dm:nobody", "hi")
    assert caught.value.code == "unknown_agent"
    assert store.reader.now(messages.newest_seq) == 0
    assert store.reader.now(feed.event_range).newest == newest


async def an_agent_has_one_live_attempt(store: Store) -> None:
    """Promise P3."""
    await store.agents("alice")
    await store.given("dm:alice", "one")
    await store.said("dm:alice", "two")
    assert await store.writer.commit(lease, "i2", token_hash("i2")) is None
    assert await store.writer.commit(lease, "i1", token_hash("again")) is None
    assert store.reader.now(instructions.ready, store.clock.now_ms, 10) == ()
    assert store.reader.now(instructions.live) == {"i1": "active"}


async def a_fenced_attempt_writes_nothing(store: Store) -> None:
    """HF07: the token of attempt k while k+1 runs."""
    await store.agents("alice")
    old = await store.given("dm:alice", "work")
    await store.writer.commit(
        requeue, "i1", old.epoch, Requeue(status="queued", outcome="crash", cause="crash", charge="attempt")
    )
    store.clock.now_ms += 1
    new = await store.take("i1")
    draft = Draft(kind="said", space="dm:alice", sender="alice", text="late", author=Author(old.instruction, old.epoch))
    late: list[Callable[[], Awaitable[object]]] = [
        lambda: store.writer.commit(append, draft),
        lambda: store.writer.commit(journal, "i1", old.epoch, Entry(k=0, kind="reply")),
        lambda: store.writer.commit(close, "i1", old.epoch, status="done", text="late"),
        lambda: store.writer.commit(
            requeue, "i1", old.epoch, Requeue(status="queued", outcome="late", charge="attempt")
        ),
    ]
    for attempt in late:
        with pytest.raises(Refused) as caught:
            await attempt()
        assert caught.value.code == "stale_attempt"
    assert new.epoch == old.epoch + 1
    assert store.reader.now(entries.of, "i1") == ()
    assert len(store.reader.now(messages.channel, "dm:alice")) == 1


async def a_token_speaks_for_its_attempt_only_while_that_lives(store: Store) -> None:
    """Promise P6, fault HF06."""
    await store.agents("alice")
    leased = await store.given("dm:alice", "work")
    token = token_hash("i1", store.clock.now_ms)
    identity = store.reader.now(attempts.identify, token)
    assert identity is not None
    assert (identity.agent, identity.space, identity.instruction, identity.live) == ("alice", "dm:alice", "i1", True)
    await store.writer.commit(close, "i1", leased.epoch, status="done", text="")
    ended = store.reader.now(attempts.identify, token)
    assert ended is not None
    assert not ended.live
    assert store.reader.now(attempts.identify, b"nobody") is None


async def entries_are_written_once_and_in_order(store: Store) -> None:
    """Promise P5."""
    await store.agents("alice")
    await store.given("dm:alice", "work")
    first = Entry(k=0, kind="reply", text="a", calls=(ToolCall(id="c", name="t"),), usage=Usage(input_tokens=5))
    for _ in range(2):
        await store.writer.commit(journal, "i1", 1, first)
    for wrong in (Entry(k=2, kind="reply"), Entry(k=0, kind="reply", text="b")):
        with pytest.raises(Refused) as caught:
            await store.writer.commit(journal, "i1", 1, wrong)
        assert caught.value.code == "conflict"
    await store.writer.commit(journal, "i1", 1, Entry(k=1, kind="tool", call_id="c", name="t"))
    assert [entry.k for entry in store.reader.now(entries.of, "i1")] == [0, 1]
    info = store.reader.now(instruction_views.info, "i1", store.clock.now_ms)
    assert info is not None
    assert (info.usage.input_tokens, len(info.steps)) == (5, 1)


async def a_call_that_is_repeated_has_one_effect(store: Store) -> None:
    """Promise P4."""
    space = await store.workflow("alice", "bob", kickoff="@alice go")
    leased = await store.take("i1")
    author = Author(leased.instruction, leased.epoch)

    async def say(key: str) -> Appended:
        calling = msgspec.structs.replace(author, call=key)
        draft = Draft(kind="said", space=space, sender="alice", text="@bob look", author=calling)
        return await store.writer.commit(append, draft)

    first, again, other = await say("call-1"), await say("call-1"), await say("call-2")
    assert first == again
    assert other.seq != first.seq
    assert len(store.reader.now(messages.channel, space)) == 4


async def a_call_without_a_key_is_the_same_again_after_an_interruption(store: Store) -> None:
    """P4: once, for a call whose result was in no entry; what is repeated on purpose is not lost."""
    space = await store.workflow("alice", "bob", kickoff="@alice go")

    async def say(leased: Lease, text: str) -> str:
        author = Author(leased.instruction, leased.epoch)
        draft = Draft(kind="said", space=space, sender="alice", text=text, author=author)
        return (await store.writer.commit(append, draft)).message_id

    async def interrupted(leased: Lease) -> Lease:
        parking = Requeue(status="queued", outcome="kernel_restart", cause="kernel_restart")
        await store.writer.commit(requeue, leased.instruction, leased.epoch, parking)
        store.clock.now_ms += 1
        return await store.take(leased.instruction)

    first = await store.take("i1")
    seen, twice, unseen = [await say(first, text) for text in ("seen", "seen", "unseen")]
    assert len({seen, twice, unseen}) == 3
    shown = Entry(k=0, kind="tool", name="channel_send", text=f'{{"message_id":"{seen}"}}')
    await store.writer.commit(journal, "i1", first.epoch, shown)
    second = await interrupted(first)
    assert [await say(second, "unseen"), await say(second, "seen")] == [unseen, twice]
    third = await interrupted(second)
    assert await say(third, "unseen") == unseen
    assert await say(third, "unseen") != unseen
    assert await say(third, "seen") == twice
    assert await say(third, "seen") not in {seen, twice}


async def a_key_of_a_sending_is_no_name_of_a_call(store: Store) -> None:
    """P4: a lost answer is the same again, and so is the call after a crash."""
    space = await store.workflow("alice", "bob", kickoff="@alice go")

    async def say(leased: Lease, key: str) -> str:
        author = Author(leased.instruction, leased.epoch, f"{SENDING}{key}")
        draft = Draft(kind="said", space=space, sender="alice", text="ok", author=author)
        return (await store.writer.commit(append, draft)).message_id

    first = await store.take("i1")
    once = await say(first, "a.1")
    assert await say(first, "a.1") == once
    twice = await say(first, "a.2")
    assert twice != once
    parking = Requeue(status="queued", outcome="kernel_restart", cause="kernel_restart")
    await store.writer.commit(requeue, "i1", first.epoch, parking)
    store.clock.now_ms += 1
    second = await store.take("i1")
    assert [await say(second, key) for key in ("b.1", "b.1", "b.2", "b.2")] == [once, once, twice, twice]
    assert await say(second, "b.3") not in {once, twice}


async def a_request_that_is_repeated_is_answered_the_same(store: Store) -> None:
    """Promise P2, fault HF15."""
    await store.agents("alice")
    draft = Draft(kind="said", space="dm:alice", sender="user", text="hi")
    first = await store.writer.commit(append, draft, request=RequestKey("admin", "k", b"1"))
    again = await store.writer.commit(append, draft, request=RequestKey("admin", "k", b"1"))
    assert first == again
    assert store.reader.now(messages.newest_seq) == 1
    with pytest.raises(Refused) as caught:
        await store.writer.commit(append, draft, request=RequestKey("admin", "k", b"2"))
    assert caught.value.code == "key_reused"
    store.clock.now_ms += 24 * 3600 * 1000 + 1
    late = await store.writer.commit(append, draft, request=RequestKey("admin", "k", b"2"))
    assert late.seq != first.seq


async def what_the_last_kernel_had_begun_is_queued_again(store: Store) -> None:
    """P1: not charged, in its place, resumed after its last entry."""
    await store.agents("alice", "bob", "carol")
    for name in ("alice", "bob", "carol"):
        await store.said(f"dm:{name}", "work")
    for instruction in ("i1", "i2"):
        await store.take(instruction)
    call = Entry(k=0, kind="reply", calls=(ToolCall(id="c", name="t"),), stop_reason="tool_use")
    await store.writer.commit(journal, "i1", 1, call)
    await store.writer.commit(journal, "i2", 1, Entry(k=0, kind="reply", text="all done", stop_reason="end_turn"))
    recovered = await store.writer.commit(recover)
    assert (recovered.requeued, recovered.closed) == (("i1",), ("i2",))
    store.clock.now_ms += 1
    again = await store.take("i1")
    assert (again.epoch, again.n, again.entries) == (2, 1, 1)
    (finished,) = store.reader.now(instructions.results, ["i2"])
    assert (finished.status, finished.text) == ("done", "all done")


async def a_failure_is_told_by_the_system_and_listed(store: Store) -> None:
    """Neither acked nor left unread."""
    await store.agents("alice")
    appended = await store.said("dm:alice", "work")
    leased = await store.take("i1")
    await store.writer.commit(close, "i1", leased.epoch, status="failed", cause="auth", text="my own words")
    *_, notice = store.reader.now(messages.channel, "dm:alice")
    assert (notice.kind, notice.sender) == ("system", "system")
    assert "auth" in notice.text
    assert "my own words" not in notice.text
    (row,) = store.reader.now(instructions.dead).instructions
    assert (row.id, row.error_class, row.cause, row.text) == ("i1", "permanent", "auth", "work")
    report = store.reader.now(messages.report, appended.seq)
    assert report is not None
    assert report.receipts[0].state == "dead"


async def a_stopped_workflow_leaves_nothing_open(store: Store) -> None:
    """Fault TF08."""
    space = await store.workflow("alice", "bob", kickoff="@alice @bob go")
    await store.take("i1")
    stopped = await store.writer.commit(stop_workflow, space, "cancelled", 130, "asked to")
    assert (stopped.cancelled, stopped.live) == (("i1", "i2"), ("i1-1",))
    assert store.reader.now(instructions.open_in, space) == ()
    assert store.reader.now(workflows.running) == ()
    with pytest.raises(Refused) as caught:
        await store.writer.commit(journal, "i1", 1, Entry(k=0, kind="reply"))
    assert caught.value.code == "stale_attempt"
    with pytest.raises(Refused) as closed:
        await store.said(space, "still there?")
    assert closed.value.code == "workflow_not_running"
    record = store.reader.now(workflows.latest, space)
    assert record is not None
    counts = store.reader.now(instructions.counts, record.id)
    assert counts.statuses == {"cancelled": 2}


async def the_event_stream_tells_what_was_published(store: Store) -> None:
    """P22: what a live reader saw is what the log holds."""
    await store.agents("alice")
    leased = await store.given("dm:alice", "work")
    await store.writer.commit(close, "i1", leased.epoch, status="done", text="fine")
    stored = store.reader.now(feed.since, 0)
    assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
    assert [(one.seq, one.type, one.space, one.agent, one.instruction) for one in stored] == [
        (one.seq, one.type, one.space, one.agent, one.instruction) for one in store.told
    ]
    assert [one.data for one in stored if one.type == "message"] == [
        one.data for one in store.told if one.type == "message"
    ]
    wanted = feed.EventFilter(instruction="i1", type="instruction.ended")
    assert [one.type for one in store.reader.now(feed.since, 0, 100, wanted)] == ["instruction.ended"]


async def readers_cannot_write(store: Store) -> None:
    """One writer."""
    with pytest.raises(Exception, match=r"(?i)readonly|read-only|not permitted"):
        store.reader.now(lambda conn: str(conn.execute("DELETE FROM messages").fetchall()))


async def readers_see_commits_while_the_writer_works(store: Store) -> None:
    """A question is answered from the last commit, also while a transaction is open elsewhere or just ended."""
    await store.agents("alice")

    async def write() -> None:
        for number in range(20):
            await store.said("dm:alice", f"m{number}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        seen = 0
        while seen < 20:
            seen = await store.reader.read(messages.newest_seq)
    assert len(store.reader.now(messages.inbox, "alice", "dm:alice")) == 20
    (process,) = await store.reader.read(agents.ps, store.clock.now_ms)
    assert (process.shown.queue.immediate, process.shown.unread) == (20, 20)


async def a_job_that_fails_harms_no_other(store: Store) -> None:
    """A savepoint per job."""
    await store.agents("alice")

    def broken(tx: Transaction) -> None:
        append(tx, Draft(kind="said", space="dm:alice", sender="user", text="half"))
        raise ZeroDivisionError

    async def bad() -> None:
        with pytest.raises(ZeroDivisionError):
            await store.writer.commit(broken)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(store.said, "dm:alice", f"good {number}")
            nursery.start_soon(bad)
    said = store.reader.now(messages.channel, "dm:alice")
    assert sorted(one.text for one in said) == [f"good {number}" for number in range(5)]
    told = [one for one in store.told if one.type == "message"]
    assert [one.data["text"] for one in told] == [one.text for one in said]


CHECKS: Final = checks_of(globals())
