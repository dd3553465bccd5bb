"""The stream of events: ordered, gap-free, resumable; a gap is announced, a slow reader is told."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from kernel.operations import events
from kernel.store import feed as events_table
from kernel.store.transaction import Transaction, emit_log
from kernel.store.transitions.journal import journal
from protocol.ipc import Entry
from protocol.message import Event
from tests.builders.api import ServedKernel
from tests.kernel.api.client import Events, Sse, Wire, connected

pytestmark = pytest.mark.promise("P22")


@asynccontextmanager
async def watching(kernel: ServedKernel, query: str = "", **headers: str) -> AsyncGenerator[tuple[Wire, Events], None]:
    async with connected(kernel.port) as wire:
        await wire.send("GET", f"/events?{query}", kernel.headers(**headers).items(), b"")
        head = await wire.event()
        assert head.status_code == 200
        first = await wire.event()
        assert first.data == events.PING, "something comes at once, so that a client knows it is connected"
        yield wire, Events(wire)


async def say(kernel: ServedKernel, text: str) -> None:
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": text})).status == 202


async def say_much(kernel: ServedKernel) -> None:
    """16 MB of messages, each as long as one that is shown whole: more than a socket holds for who does not read."""
    messages = [{"to": "alice", "text": "x" * 16_000} for _ in range(200)]
    for _ in range(5):
        assert (await kernel.ask("POST", "/messages", {"messages": messages})).status == 202


async def logged(kernel: ServedKernel, query: str = "since=0") -> list[Sse]:
    async with watching(kernel, f"follow=0&{query}") as (_, events):
        return [event async for event in events]


async def test_a_reader_that_reconnects_again_and_again_sees_the_whole_log_once(kernel: ServedKernel) -> None:
    seen: list[int] = []
    done = trio.Event()

    async def write() -> None:
        for number in range(20):
            await say(kernel, f"message {number}")
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        with trio.fail_after(20):
            newest = 0
            while not done.is_set() or not seen or seen[-1] < newest:
                headers = {"Last_Event_ID": str(seen[-1])} if seen else {}
                async with watching(kernel, "" if seen else "since=0", **headers) as (_, events):
                    for _ in range(3):
                        with trio.move_on_after(0.2):
                            event = await anext(events)
                            assert event.id is not None
                            seen.append(event.id)
                newest = kernel.reader.now(events_table.event_range).newest
    assert seen == [event.id for event in await logged(kernel)] == list(range(1, len(seen) + 1))


async def test_following_starts_with_what_comes_unless_told_where(kernel: ServedKernel) -> None:
    """contracts 4: since, else from now on."""
    await say(kernel, "before")
    async with watching(kernel, "type=message") as (_, events):
        await say(kernel, "after")
        with trio.fail_after(5):
            assert (await anext(events)).data["data"]["text"] == "after"


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("type=message", {"message"}),
        ("type=message,instruction.queued", {"message", "instruction.queued"}),
        ("space=dm:alice", {"message", "instruction.queued"}),
        ("space=dm:bob", set[str]()),
        ("instruction=i1", {"instruction.queued"}),
        ("instruction=nonsense", set[str]()),
    ],
)
async def test_filters_hold_for_stored_and_for_live_events(kernel: ServedKernel, query: str, types: set[str]) -> None:
    """contracts 4: filters space, agent, type, instruction."""
    async with watching(kernel, query) as (_, events):
        await say(kernel, "hello")
        kernel.feed.live(Event(type="bye", at=""))
        with trio.fail_after(5):
            live = {event.event async for event in events} - {"bye"}
    stored = {event.event for event in await logged(kernel, f"since=0&{query}")}
    assert (live, stored) == (types, types)


@pytest.mark.promise("HF13")
async def test_text_cannot_forge_an_event(kernel: ServedKernel) -> None:
    text = "a\n\nevent: bye\ndata: {}\n\n\r\n\r\rid: 9\u2028\u2029\x85 b"
    await say(kernel, text)
    messages = [event for event in await logged(kernel) if event.event == "message"]
    assert [event.data["data"]["text"] for event in messages] == [text]


@pytest.mark.promise("HF12")
async def test_what_is_no_longer_kept_is_announced_as_a_gap(kernel: ServedKernel) -> None:
    """Never silent."""
    await say(kernel, "one")
    await say(kernel, "two")

    def forget(tx: Transaction) -> None:
        tx.conn.execute("DELETE FROM events WHERE seq <= 3")

    await kernel.writer.commit(forget)
    async with watching(kernel, "since=1") as (_, events):
        with trio.fail_after(5):
            gap, following = await anext(events), await anext(events)
    assert (gap.event, gap.id, gap.data["data"]) == ("gap", None, {"from": 2, "to": 3})
    assert following.id == 4


async def test_an_id_from_another_log_is_announced_as_a_gap(kernel: ServedKernel) -> None:
    await say(kernel, "one")
    newest = kernel.reader.now(events_table.event_range).newest
    async with watching(kernel, Last_Event_ID=str(newest + 1000)) as (_, events):
        with trio.fail_after(5):
            gap = await anext(events)
            await say(kernel, "two")
            following = await anext(events)
    assert gap.event == "gap"
    assert following.id == newest + 1


@pytest.mark.promise("HF11")
async def test_a_slow_reader_is_told_what_it_missed_and_loses_nothing_durable(kernel: ServedKernel) -> None:
    count = 2000
    async with watching(kernel) as (_, events):
        first = kernel.reader.now(events_table.event_range).newest + 1
        for number in range(count):
            kernel.feed.live(Event(type="delta", at="", data={"text": "x" * 2000}))
            if number % 100 == 0:
                note_data = {"level": "info", "text": str(number)}
                await kernel.writer.commit(emit_log, "worker.log", agent="alice", data=note_data)
        last = kernel.reader.now(events_table.event_range).newest
        seen: list[Sse] = []
        with trio.fail_after(10):
            while not seen or seen[-1].id != last:
                seen.append(await anext(events))
    assert [event.id for event in seen if event.id is not None] == list(range(first, last + 1))
    missed = sum(event.data["data"]["n"] for event in seen if event.event == "lagged")
    assert missed >= count - sum(event.event == "delta" for event in seen) > 0


async def test_an_event_that_was_read_from_the_store_is_not_shown_again_when_it_is_published(
    kernel: ServedKernel,
) -> None:
    await say(kernel, "one")
    newest = kernel.reader.now(events_table.event_range).newest
    async with watching(kernel, "since=0") as (_, events):
        with trio.fail_after(5):
            while (await anext(events)).id != newest:
                pass
            kernel.feed.publish([Event(type="message", at="", seq=newest)])
            await say(kernel, "two")
            assert (await anext(events)).id == newest + 1


async def test_silence_is_broken_by_comments(kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PING_SECONDS", 0.01)
    with trio.fail_after(5):
        async with watching(kernel) as (wire, _):
            assert (await wire.event()).data == events.PING


@pytest.mark.promise("LF04")
async def test_a_reader_that_leaves_is_forgotten(kernel: ServedKernel) -> None:
    async with watching(kernel) as (_, events):
        await say(kernel, "hello")
        await anext(events)
        await kernel.until_watched()
    await kernel.until_watched(watched=False)


async def test_a_call_that_failed_is_told_from_one_that_did_not(kernel: ServedKernel) -> None:
    """contracts 4: what a model was refused leaves a trace that others can read."""
    instruction = await kernel.attempt()
    for entry in (
        Entry(k=0, kind="reply"),
        Entry(k=1, kind="tool", name="write"),
        Entry(k=2, kind="tool", name="write", is_error=True, refused="expired"),
    ):
        await kernel.writer.commit(journal, instruction, 1, entry)
    steps = [one.data["data"] for one in await logged(kernel) if one.event == "instruction.step"]
    assert [(step.get("is_error"), step.get("refused")) for step in steps] == [
        (None, None),
        (None, None),
        (True, "expired"),
    ]
