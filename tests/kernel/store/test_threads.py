"""Journals: large bodies, the prompt they answer, and the instruction that takes one up."""

import pytest

from kernel.store import entries
from kernel.store.entries import INLINE_BYTES, FrozenPrompt
from kernel.store.transitions.append import continue_work
from kernel.store.transitions.close import EndStatus, close
from kernel.store.transitions.journal import PromptSnapshot, journal
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue, requeue
from protocol.errors import Cause, Refused
from protocol.instruction import Usage
from protocol.ipc import Entry, ToolCall, Turn
from protocol.names import AgentKey
from tests.kernel.store.house import House

BIG = "x" * (INLINE_BYTES * 2)
PROMPT = FrozenPrompt(
    backend="sdk",
    dialect="openai",
    model="m",
    system="be alice",
    messages=(Turn(role="user", text="before"),),
    message="go",
    manifest=("system: 8 characters",),
)


def reply(k: int, text: str = "", stop: str = "tool_use", *calls: str) -> Entry:
    made = tuple(ToolCall(id=name, name=name) for name in calls)
    return Entry(k=k, kind="reply", text=text, stop_reason=stop, calls=made, usage=Usage(input_tokens=10))


async def left(
    house: House,
    text: str = "count",
    *made: Entry,
    status: EndStatus = "incomplete",
    cause: Cause | None = "max_steps",
    space: str = "dm:alice",
    to: tuple[str, ...] = (),
) -> str:
    """An instruction that made these entries and ended so."""
    (instruction,) = (await house.said(space, text, to=to)).instruction_ids
    leased = await house.take(instruction)
    for entry in made:
        frozen = PromptSnapshot(PROMPT) if entry.k == leased.entries else None
        await house.writer.commit(journal, instruction, leased.epoch, entry, first=leased.entries, frozen=frozen)
    await house.writer.commit(close, instruction, leased.epoch, status=status, cause=cause)
    return instruction


def usage(house: House, instruction: str) -> int:
    number = int(instruction[1:])
    row = house.database.writer().execute("SELECT input_tokens FROM instructions WHERE id = ?", (number,)).fetchone()
    return int(row[0])  # type: ignore[index]


def count(house: House, table: str) -> int:
    return int(house.database.writer().execute(f"SELECT count(*) FROM {table}").get)


@pytest.mark.promise("SF13")
async def test_a_large_body_is_a_blob_and_reads_as_it_was_written(house: House) -> None:
    """content-addressed; the same entry again changes nothing, another one is refused."""
    await house.agents("alice")
    (instruction,) = (await house.said("dm:alice", "go")).instruction_ids
    await house.take(instruction)
    big = Entry(k=0, kind="tool", text=BIG, name="t")
    await house.writer.commit(journal, instruction, 1, big)
    await house.writer.commit(journal, instruction, 1, big)
    with pytest.raises(Refused) as refused:
        await house.writer.commit(journal, instruction, 1, Entry(k=0, kind="tool", text=BIG + "y", name="t"))
    assert refused.value.code == "conflict"
    assert house.reader.now(entries.of, instruction) == (big,)
    assert count(house, "blobs") == 1


async def test_the_prompt_is_frozen_with_the_first_entry_and_its_system_text_is_kept_once(house: House) -> None:
    """contracts 9: the prompt prefix is frozen at the first durable entry."""
    await house.agents("alice")
    first = await left(house, "one", reply(0))
    second = await left(house, "two", reply(0), status="done", cause=None)
    never = await left(house, "three", status="done", cause=None)
    assert house.reader.now(entries.prompt_of, first) == PROMPT
    assert house.reader.now(entries.prompt_of, second) == PROMPT
    assert house.reader.now(entries.prompt_of, never) is None
    assert count(house, "blobs") == 2


async def test_the_word_continue_takes_up_what_was_left_incomplete(house: House) -> None:
    """Entries, prompt and compaction come along, then what was said; nothing is booked twice."""
    await house.agents("alice")
    old = await left(house, "count", reply(0, "one", "tool_use", "t"), Entry(k=1, kind="tool", text=BIG, name="t"))
    said = await house.said("dm:alice", "Continue, but faster")
    (new,) = said.instruction_ids
    leased = await house.take(new)
    thread = house.reader.now(entries.of, new)
    assert [(entry.k, entry.kind) for entry in thread] == [(0, "reply"), (1, "tool"), (2, "note")]
    assert (thread[1].text, thread[2].text) == (BIG, "Continue, but faster")
    assert (leased.entries, leased.carried_steps, leased.continues) == (3, 1, int(old[1:]))
    assert house.reader.now(entries.prompt_of, new) == PROMPT
    assert house.reader.now(entries.origin_text, new) == "count"
    assert (usage(house, old), usage(house, new)) == (10, 0)
    await house.writer.commit(journal, new, 1, reply(3, "two", "end_turn"), first=3)
    assert usage(house, new) == 10
    state = house.database.writer().execute("SELECT state FROM deliveries WHERE instruction = ?", (int(new[1:]),)).get
    assert state == "injected"


@pytest.mark.parametrize("cause", ["max_steps", "max_tokens", "budget", "total_timeout", "context_overflow"])
async def test_whatever_left_it_incomplete_it_can_be_continued(house: House, cause: Cause) -> None:
    """contracts 7: exit 6 is never the end of the work."""
    await house.agents("alice")
    await left(house, "count", reply(0), cause=cause)
    assert (await take_up(house, "continue")).continues == 1


async def take_up(house: House, text: str) -> Leased:
    (new,) = (await house.said("dm:alice", text)).instruction_ids
    return await house.take(new)


async def test_what_was_continued_can_be_continued_again(house: House) -> None:
    """The thread grows; the steps of all earlier ones do not count."""
    await house.agents("alice")
    await left(house, "count", reply(0), reply(1))
    again = await left(house, "continue", reply(3))
    leased = await take_up(house, "continue")
    assert [entry.k for entry in house.reader.now(entries.of, leased.instruction)] == [0, 1, 2, 3, 4]
    assert (leased.carried_steps, leased.continues) == (3, int(again[1:]))
    assert house.reader.now(entries.origin_text, leased.instruction) == "count"


@pytest.mark.parametrize(
    ("status", "text"),
    [("done", "continue"), ("failed", "continue"), ("incomplete", "please continue"), ("incomplete", "continued")],
)
async def test_nothing_else_is_taken_up(house: House, status: EndStatus, text: str) -> None:
    """Only the last one, only where it is incomplete, only by the word."""
    await house.agents("alice")
    await left(house, "count", reply(0), status=status, cause="max_steps" if status == "incomplete" else None)
    assert (await take_up(house, text)).continues is None


async def test_incomplete_work_is_taken_up_once_and_only_while_it_is_the_last(house: House) -> None:
    """Sent twice, the second is a message; work that ended since is what a continue would mean."""
    await house.agents("alice")
    await left(house, "count", reply(0))
    first = (await house.said("dm:alice", "continue")).instruction_ids[0]
    second = (await house.said("dm:alice", "continue")).instruction_ids[0]
    assert (await house.take(first)).continues == 1
    await house.writer.commit(close, first, 1, status="done")
    assert (await house.take(second)).continues is None


async def test_work_without_a_journal_begins_anew_as_the_same_work(house: House) -> None:
    """It ended before its first entry, or its journal is kept no longer."""
    await house.agents("alice")
    await left(house, "count", cause="total_timeout")
    leased = await take_up(house, "continue")
    assert (leased.continues, leased.entries) == (1, 0)
    assert house.reader.now(entries.origin_text, leased.instruction) == "count"


async def test_in_a_workspace_a_direct_message_continues_and_a_mention_does_not(house: House) -> None:
    """The same agent has a thread for each space."""
    space = await house.workflow("coder")
    await left(house, "count", reply(0), space=space, to=("coder",))
    mentioned = (await house.said(space, "continue @coder")).instruction_ids[0]
    direct = (await house.said(space, "continue", to=("coder",))).instruction_ids[0]
    assert (await house.take(mentioned)).continues is None
    await house.writer.commit(close, mentioned, 1, status="cancelled", cause="cancelled")
    assert (await house.take(direct)).continues == 1


async def test_a_person_can_have_an_agent_go_on_wherever_it_stopped(house: House) -> None:
    """contracts 7: awk continue TARGET."""
    await house.agents("alice", "bob")
    await left(house, "count", reply(0))
    assert await house.writer.commit(continue_work, AgentKey("bob")) == ()
    (new,) = await house.writer.commit(continue_work, AgentKey("alice"))
    assert (await house.take(new)).continues == 1
    assert await house.writer.commit(continue_work, AgentKey("alice")) == ()


async def test_a_prompt_for_another_backend_sets_the_entries_aside(house: House) -> None:
    """contracts 9: what cannot be replayed is not; the numbers go on, so no call's key comes twice."""
    await house.agents("alice")
    await left(house, "count", reply(0), reply(1))
    leased = await take_up(house, "continue")
    other = FrozenPrompt(backend="mock", message="go anew")
    await house.writer.commit(
        journal,
        leased.instruction,
        1,
        reply(3),
        first=leased.entries,
        frozen=PromptSnapshot(other, aside=leased.entries),
    )
    assert house.reader.now(entries.prompt_of, leased.instruction) == other
    first = house.reader.now(entries.set_aside, leased.instruction)
    assert [entry.k for entry in house.reader.now(entries.of, leased.instruction, first)] == [3]
    await house.writer.commit(close, leased.instruction, 1, status="incomplete", cause="max_steps")
    again = await take_up(house, "continue")
    assert [entry.k for entry in house.reader.now(entries.of, again.instruction)] == [3, 4]
    assert again.carried_steps == 1


@pytest.mark.parametrize(("stop", "noted"), [("context_overflow", True), ("tool_use", False)])
async def test_the_retry_after_an_overflow_is_shortened_and_not_concluded(house: House, stop: str, noted: bool) -> None:
    """One compacted retry. A reply that was cut for want of room would else be the last word."""
    await house.agents("alice")
    (instruction,) = (await house.said("dm:alice", "go")).instruction_ids
    await house.take(instruction)
    await house.writer.commit(journal, instruction, 1, reply(0, "so far", stop))
    await house.writer.commit(
        requeue, instruction, 1, Requeue(status="queued", outcome="context_overflow", charge="attempt", compact=True)
    )
    house.clock.now_ms += 1
    leased = await house.take(instruction)
    assert leased.compacted
    last = house.reader.now(entries.of, instruction)[-1]
    assert (last.kind == "note") is noted
    assert leased.entries == last.k + 1
