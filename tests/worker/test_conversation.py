"""A conversation that others add to, that another worker takes up, or that no longer fits."""

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.ipc import Entry, Limits, Start, ToolCall, Turn
from tests.worker.fake_daemon import FakeDaemon
from tests.worker.fake_kernel import attempt, make_start, script
from tests.worker.scripted_api import Call, Say, ScriptedApi
from tests.worker.test_sdk import DIALECTS, start_for
from worker.attempt import ASK_AGAIN, INCOMPLETE, conclude
from worker.conversation import SHORT_RESULT_BYTES, Conversation
from worker.models import anthropic, openai
from worker.models.model import Failed, Stop, to_native

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(anthropic|openai|httpx2|httpcore2):ResourceWarning")
LIMITS = Limits(max_steps=2)


def reply(k: int, text: str = "", *calls: str, stop: str | None = None, **more: Any) -> Entry:
    made = tuple(ToolCall(id=f"{name}{k}", name=name) for name in calls)
    return Entry(
        k=k, kind="reply", text=text, calls=made, stop_reason=stop or ("tool_use" if calls else "end_turn"), **more
    )


def result(k: int, call_id: str, text: str = "ok") -> Entry:
    return Entry(k=k, kind="tool", text=text, call_id=call_id, name="t")


def note(k: int, text: str = "continue") -> Entry:
    return Entry(k=k, kind="note", text=text)


def conversation(*entries: Entry, **more: Any) -> Conversation:
    return Conversation(make_start(system="S", messages=more.pop("thread", ()), message="go", entries=entries, **more))


BETWEEN = (reply(0, "one", "a", "b"), result(1, "a0"), note(2), result(3, "b0", "late"), reply(4, "two"))


def test_a_note_is_a_turn_of_the_user_and_parts_no_call_from_its_result() -> None:
    """On resume new context is appended as a note; never split a tool call from its result."""
    asked = anthropic.messages(conversation(*BETWEEN))
    assert [turn["role"] for turn in asked] == ["user", "assistant", "user", "assistant"]
    assert [block.get("tool_use_id") or block["text"] for block in asked[2]["content"]] == [
        "c00000000",
        "c00000001",
        "continue",
    ]
    said = openai.messages(conversation(*BETWEEN))
    assert [turn["role"] for turn in said] == ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
    assert said[5]["content"] == "continue"


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.booleans(), max_size=4)), min_size=1, max_size=5), st.data())
def test_wherever_work_broke_off_no_call_is_parted_from_its_result(
    steps: list[tuple[int, list[bool]]], data: st.DataObject
) -> None:
    ledger: list[Entry] = []
    for number, (count, noted) in enumerate(steps):
        asked = reply(len(ledger), f"step {number}", *(f"call-{call}-" for call in range(count)))
        ledger.append(asked)
        for call in range(count):
            ledger += [note(len(ledger))] if call < len(noted) and noted[call] else []
            ledger.append(result(len(ledger), asked.calls[call].id))
        ledger.append(note(len(ledger), f"go on {number}"))
    cut = data.draw(st.integers(0, len(ledger)))
    told = conversation(*ledger[:cut])
    while told.pending:  # the calls of which nobody knows are made first
        step = told.last
        assert step is not None and step.pending is not None
        told.add(result(told.next_k, step.pending.id, "again"))
    turns = anthropic.messages(told)
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        ids = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        answers = [] if following is None else following["content"]
        assert [block["tool_use_id"] for block in answers if block["type"] == "tool_result"] == ids
    shown = openai.messages(told)
    for place, turn in enumerate(shown):
        ids = [call["id"] for call in turn.get("tool_calls") or ()]
        assert [one.get("tool_call_id") for one in shown[place + 1 : place + 1 + len(ids)]] == ids


def test_a_note_before_any_reply_belongs_to_what_is_asked() -> None:
    told = conversation(note(0, "and hurry"), reply(1, "done"))
    assert [block["text"] for block in anthropic.messages(told)[0]["content"]] == ["go", "and hurry"]
    assert told.next_k == 2


def test_after_a_note_the_work_goes_on() -> None:
    told = conversation(reply(0, "done"), note(1))
    assert conclude(told, LIMITS) is None
    assert told.text == ""
    told.add(reply(2, "done again"))
    ended = conclude(told, LIMITS)
    assert ended is not None
    assert (ended.status, ended.text) == ("done", "done again")


def test_steps_of_the_work_that_is_taken_up_do_not_count() -> None:
    """max_steps counts the new ones only."""
    old = (reply(0, "", "a"), result(1, "a0"), reply(2, "", "a"), result(3, "a2"), note(4))
    taken = conversation(*old, earlier_steps=2)
    assert conclude(taken, LIMITS) is None
    for entry in (reply(5, "", "a"), result(6, "a5")):
        taken.add(entry)
    assert conclude(taken, LIMITS) is None
    for entry in (reply(7, "", "a"), result(8, "a7")):
        taken.add(entry)
    ended = conclude(taken, LIMITS)
    assert ended is not None
    assert ended.cause == "max_steps"


def test_a_shortened_conversation_keeps_its_last_steps_and_every_call() -> None:
    long = "x" * 10_000
    steps = [entry for k in range(0, 8, 2) for entry in (reply(k, "", "a"), result(k + 1, f"a{k}", long))]
    thread = (Turn(role="user", text="before"), Turn(role="assistant", text="yes"))
    shown = openai.messages(conversation(*steps, thread=thread, compact=True))
    assert [turn["role"] for turn in shown] == ["system", "user", *["assistant", "tool"] * 4]
    sizes = [len(turn["content"]) for turn in shown if turn["role"] == "tool"]
    assert max(sizes[:2]) <= SHORT_RESULT_BYTES
    assert sizes[2:] == [10_000, 10_000]
    assert "left out" in shown[3]["content"]
    whole = openai.messages(conversation(*steps, thread=thread))
    assert len(whole) == len(shown) + 2


def test_a_reply_that_was_cut_off_is_sent_back_as_what_it_said() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "so far"},
        {"type": "tool_use", "id": "u", "name": "t", "input": {}},
    ]
    cut = reply(0, "so far", stop="max_tokens", native=to_native("anthropic", blocks))
    turns = anthropic.messages(conversation(cut, note(1)))
    assert [[block["text"] for block in turn["content"]] for turn in turns] == [["go"], ["so far"], ["continue"]]


ENDS: dict[str, str] = {
    "end_turn": "done", "tool_use": "on", "max_tokens": "incomplete", "context_overflow": "incomplete",
    "refusal": "refusal", "pause_turn": "on", "fired": "on", "a word nobody knows": "invalid",
}  # fmt: skip


@pytest.mark.parametrize("stop", [*get_args(Stop), "a word nobody knows"])
def test_every_stop_reason_ends_the_work_or_goes_on_with_it(stop: str) -> None:
    """Every stop reason; one that is not known is a failure with its name, never a loop."""
    calls = ("a",) if stop == "tool_use" else ()
    told = conversation(reply(0, "text", *calls, stop=stop), *([result(1, "a0")] if calls else []))
    try:
        ended = conclude(told, Limits())
        found: str = "on" if ended is None else ended.status
    except Failed as failed:
        found = failed.cause
    assert found == ENDS[stop]


def test_every_word_of_both_dialects_leads_to_a_known_stop() -> None:
    known = {"end_turn", "refusal", *INCOMPLETE, *ASK_AGAIN}
    assert set(get_args(Stop)) == known
    assert {*anthropic.STOPS.values(), *openai.STOPS.values()} <= known


async def test_a_script_that_is_taken_up_goes_on_where_it_stopped() -> None:
    actions = tuple({"text": str(number)} for number in range(5))
    start = make_start(mock=script(*actions), limits=Limits(max_steps=2, tool_seconds=5.0, idle_seconds=5.0))
    first = await attempt(start)
    assert (first.result.status, first.result.cause) == ("incomplete", "max_steps")
    carried = (*first.entries, note(2))
    second = await attempt(
        make_start(mock=script(*actions), limits=start.limits, entries=carried, earlier_steps=2, source_text="do it")
    )
    assert [entry.text for entry in second.entries] == ["2", "3"]
    assert [entry.k for entry in second.entries] == [3, 4]
    assert second.result.cause == "max_steps"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_real_client_takes_up_the_thread(daemon: FakeDaemon, dialect: str) -> None:
    send = Say("Telling.", (Call("channel_send", '{"message": "hello"}'),))
    limits = Limits(max_steps=1, tool_seconds=5.0, idle_seconds=5.0)
    with ScriptedApi([send, Say("All done.")]) as api:
        first = await attempt(_start(api, dialect, daemon, limits))
        assert first.result.cause == "max_steps"
        carried = (*first.entries, note(2, "continue, please"))
        second = await attempt(_start(api, dialect, daemon, limits, entries=carried, earlier_steps=1))
    assert (second.result.status, second.result.text) == ("done", "All done.")
    sent = json.dumps(api.requests[1].body["messages"])
    assert sent.index("hello") < sent.index("said 1") < sent.index("continue, please")
    assert daemon.said == ["hello"]


def _start(api: ScriptedApi, dialect: str, daemon: FakeDaemon, limits: Limits, **changes: Any) -> Start:
    return msgspec.structs.replace(start_for(api, dialect, daemon, **changes), limits=limits)
