"""Transcripts: what was done, as people read it, a page at a time."""

import msgspec
import pytest

from kernel.store import entries
from protocol.api.instructions import EntryInfo, EntryList
from protocol.instruction import Usage
from protocol.ipc import Entry, Json, Shown, ToolCall
from tests.kernel.store.running_store import Store
from tests.kernel.store.test_threads import left, take_up, usage
from tests.shorthand import present


def call(id: str, name: str, **args: object) -> ToolCall:
    return ToolCall(id=id, name=name, args=Json(msgspec.json.encode(args)))


def reply(k: int, *calls: ToolCall, text: str = "") -> Entry:
    return Entry(k=k, kind="reply", text=text, calls=calls, usage=Usage(input_tokens=10), duration_ms=40)


def result(k: int, made: ToolCall, text: str = "ok") -> Entry:
    return Entry(k=k, kind="tool", text=text, call_id=made.id, name=made.name, duration_ms=7)


def read(store: Store, instruction: str, after: int = 0, limit: int = 100) -> EntryList:
    return present(entries.transcript(store.database.writer(), instruction, after, limit))


def paged(store: Store, instruction: str, limit: int) -> list[EntryInfo]:
    """All entries, so many at a time."""
    found: list[EntryInfo] = []
    page = read(store, instruction, limit=limit)
    while True:
        assert len(page.entries) <= limit
        found += page.entries
        if page.next is None:
            return found
        page = read(store, instruction, int(page.next), limit)


@pytest.mark.promise("P31")
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_each_result_stands_with_the_arguments_of_its_call_on_whatever_page(store: Store, limit: int) -> None:
    await store.agents("alice")
    one, two = call("same", "bash", command="ls"), call("same", "bash", command="pwd")
    slow, fast = call("a", "mcp__own__add", a=1), call("b", "read", path="x")
    made = (
        reply(0, one, two, text="look"), result(1, one, "here"), result(2, two, "/"),
        Entry(k=3, kind="session", session="s"),
        reply(4, slow, fast), result(5, fast, "text"), result(6, slow, "2"),
        reply(7, text="done"),
    )  # fmt: skip
    instruction = await left(store, "go", *made, status="done", cause=None)
    shown = paged(store, instruction, limit)
    assert [(one.n, one.kind, one.tool, one.input, one.output) for one in shown if one.kind == "tool"] == [
        (2, "tool", "bash", {"command": "ls"}, "here"),
        (3, "tool", "bash", {"command": "pwd"}, "/"),
        (6, "tool", "read", {"path": "x"}, "text"),
        (7, "tool", "add", {"a": 1}, "2"),
    ]
    assert [one.kind for one in shown] == ["reply", "tool", "tool", "session", "reply", "tool", "tool", "reply"]
    assert [one.text for one in shown if one.kind == "reply"] == ["look", "", "done"]
    assert {one.attempt for one in shown} == {1}
    assert (shown[0].duration_ms, shown[1].duration_ms) == (40, 7)
    assert sum(one.usage.input_tokens for one in shown if one.usage) == usage(store, instruction) == 30
    assert read(store, instruction).total == len(shown)


async def test_arguments_that_are_no_object_are_shown_as_one(store: Store) -> None:
    """contracts 4: input is an object, whatever a model gave."""
    await store.agents("alice")
    odd = ToolCall(id="a", name="bash", args=Json(b'"rm"'))
    instruction = await left(store, "go", reply(0, odd), result(1, odd))
    assert read(store, instruction).entries[1].input == {"arguments": "rm"}


@pytest.mark.promise("P31")
async def test_what_is_hidden_is_shown_nowhere(store: Store) -> None:
    await store.agents("alice")
    told, hidden = call("a", "bash", command="echo sesame"), call("a", "bash", command="echo [KEY]")
    asked = msgspec.structs.replace(reply(0, told, text="sesame"), shown=Shown(text="[KEY]", calls=(hidden,)))
    got = msgspec.structs.replace(result(1, told, "sesame"), shown=Shown(text="[KEY]"))
    instruction = await left(store, "go", asked, got)
    page = read(store, instruction)
    assert b"sesame" not in msgspec.json.encode(page)
    assert (page.entries[0].text, page.entries[1].input, page.entries[1].output) == (
        "[KEY]",
        {"command": "echo [KEY]"},
        "[KEY]",
    )


async def test_a_page_ends_where_it_is_long_enough(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "TRANSCRIPT_BYTES", 50_000)
    await store.agents("alice")
    asked = call("a", "bash", command="cat")
    made = [entry for k in range(0, 20, 2) for entry in (reply(k, asked), result(k + 1, asked, "x" * 30_000))]
    instruction = await left(store, "go", *made)
    first = read(store, instruction)
    assert (len(first.entries), first.next) == (4, "4")
    assert [one.n for one in paged(store, instruction, 100)] == list(range(1, 21))


async def test_nobody_else_s_work_is_shown_and_no_instruction_is_none(store: Store) -> None:
    await store.agents("alice")
    await left(store, "count", reply(0, text="one"))
    leased = await take_up(store, "continue")
    assert leased.entries == 2, "it has the reply, and what was said then"
    await store.journal(leased.instruction, leased.epoch, reply(2, text="two"))
    shown = read(store, leased.instruction).entries
    assert [one.text for one in shown] == ["two"]
    assert sum(one.usage.input_tokens for one in shown if one.usage) == usage(store, leased.instruction) == 10
    assert entries.transcript(store.database.writer(), "i99", 0, 10) is None
