"""The two dialects as data: conversations to requests, streams to replies, with all their oddities."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.instruction import Usage
from protocol.ipc import Entry, Json, ToolCall, Turn
from tests.worker.fake_kernel import make_start
from worker.conversation import Conversation
from worker.models import anthropic, openai, openai_responses
from worker.models.model import Failed

USE: dict[str, Any] = {"type": "tool_use", "id": "u", "name": "t", "input": {}}


def conversation(*entries: Entry, thread: tuple[Turn, ...] = (), system: str = "S") -> Conversation:
    return Conversation(make_start(system=system, messages=thread, message="go", entries=entries))


def heard(events: Iterable[Mapping[str, Any]]) -> Entry:
    draft = anthropic.AnthropicDraft()
    for event in events:
        draft.take(event)
    return draft.reply(4)


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    start = {"type": "content_block_start", "index": index, "content_block": content}
    return [start, *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)]


def stopped(reason: str | None, **usage: int) -> dict[str, Any]:
    """The event that says why the reply ended."""
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def chunked(*deltas: dict[str, Any], finish: str = "stop", usage: dict[str, Any] | None = None) -> Entry:
    """The reply of an OpenAI stream."""
    draft = openai.ChatDraft()
    for delta in deltas:
        draft.take({"choices": [{"delta": delta, "finish_reason": None}]})
    draft.take({"choices": [{"delta": {}, "finish_reason": finish}]})
    draft.take({"choices": [], "usage": usage})
    return draft.reply(4)


def call(
    arguments: str, index: int | None = 0, identifier: str | None = "c1", name: str | None = "t"
) -> dict[str, Any]:
    """A delta with a piece of one tool call."""
    return {"tool_calls": [{"index": index, "id": identifier, "function": {"name": name, "arguments": arguments}}]}


def test_the_stop_table_has_every_reason_the_sdk_knows() -> None:
    from anthropic.types import StopReason  # seconds, which every process that collects these tests would take

    assert set(get_args(StopReason)) == set(anthropic.STOPS)


def test_openais_stop_table_has_every_reason_the_sdk_knows() -> None:
    from openai.types.chat.chat_completion import Choice

    known = Choice.model_fields["finish_reason"].annotation
    assert set(get_args(known)) <= set(openai.STOPS)


def test_blocks_come_back_as_they_were_sent() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    signed = {"type": "signature_delta", "signature": "sig"}
    events = [
        *block(0, thought, {"type": "thinking_delta", "thinking": "hm"}, signed),
        *block(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in ("hel", "lo"))),
        *block(2, USE, *({"type": "input_json_delta", "partial_json": piece} for piece in ('{"a"', ": 1}"))),
        stopped("tool_use"),
    ]
    reply = heard(events)
    entry = msgspec.structs.replace(reply, k=0)
    result = Entry(k=1, kind="tool", text="ok", call_id="u", name="t")
    said, answered = anthropic.messages(conversation(entry, result))[1:]
    assert said["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "hello"},
        {"type": "tool_use", "id": "u", "name": "t", "input": {"a": 1}},
    ]
    assert answered["role"] == "user"
    assert [part["tool_use_id"] for part in answered["content"]] == ["u"]


def test_results_of_one_reply_are_one_message() -> None:
    calls = (ToolCall(id="a", name="t"), ToolCall(id="b", name="t"))
    entries = (
        Entry(k=0, kind="reply", calls=calls, stop_reason="tool_use"),
        Entry(k=1, kind="tool", text="1", call_id="a"),
        Entry(k=2, kind="tool", text="2", call_id="b", is_error=True),
    )
    turns = anthropic.messages(conversation(*entries))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [(part["content"], part["is_error"]) for part in turns[2]["content"]] == [("1", False), ("2", True)]


def test_the_thread_alternates_and_begins_with_the_user() -> None:
    thread = (Turn(role="assistant", text="hi"), Turn(role="assistant", text="there"), Turn(role="user", text="  "))
    turns = anthropic.messages(conversation(thread=thread))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [part["text"] for part in turns[1]["content"]] == ["hi", "there"]


def test_system_and_newest_block_are_marked_for_the_cache() -> None:
    talk = conversation(Entry(k=0, kind="reply", text="x", stop_reason="pause_turn"))
    assert all("cache_control" in part for part in anthropic.system_blocks(talk))
    marked = [["cache_control" in part for part in turn["content"]] for turn in anthropic.messages(talk)]
    assert marked == [[False], [True]]
    assert anthropic.system_blocks(conversation(system="")) == []


@pytest.mark.promise("P49")
@pytest.mark.parametrize(("stable", "texts"), [(0, ["base\n\nnow"]), (4, ["base", "now"]), (9, ["base\n\nnow"])])
def test_what_other_work_of_the_agent_begins_with_too_is_a_block_of_its_own(stable: int, texts: list[str]) -> None:
    """So that the cache of it holds from one instruction to the next; never more than the four marks allowed."""
    talk = Conversation(make_start(system="base\n\nnow", message="go", system_stable=stable))
    parts = anthropic.system_blocks(talk)
    assert [part["text"] for part in parts] == texts
    blocks = [*parts, *(part for turn in anthropic.messages(talk) for part in turn["content"])]
    assert all("cache_control" in part for part in blocks)
    assert len(blocks) <= 4


def test_usage_counts_what_the_cache_gave_apart() -> None:
    """contracts 9: usage is input, output, cache_read; cache_write: each has a price of its own."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_creation_input_tokens": 2,
             "cache_read_input_tokens": 70, "output_tokens": 1}}}  # fmt: skip
    assert heard([start, stopped("end_turn", output_tokens=9)]).usage == Usage(
        input_tokens=5, output_tokens=9, cache_read_tokens=70, cache_write_tokens=2
    )
    usage = {"prompt_tokens": 77, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 70}}
    assert chunked({"content": "x"}, usage=usage).usage == Usage(input_tokens=7, output_tokens=9, cache_read_tokens=70)


@pytest.mark.parametrize("bad", ['{"a": ', "[1]", "tool(x)", '{"a": "\\ud800"}', "[" * 100_000])
def test_arguments_that_are_no_object_are_kept_as_text(bad: str) -> None:
    anthropic = heard([*block(0, USE, {"type": "input_json_delta", "partial_json": bad}), stopped("tool_use")])
    openai = chunked(call(bad), finish="tool_calls")
    for reply in (anthropic, openai):
        assert not isinstance(msgspec.json.decode(reply.calls[0].args), dict)
    assert json.loads(bytes(anthropic.native))["anthropic"][0]["input"] == {}
    assert json.loads(bytes(openai.native))["openai"]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_cut_reply_runs_no_calls() -> None:
    cut = heard([*block(0, USE), stopped("max_tokens")])
    assert (cut.stop_reason, cut.calls) == ("max_tokens", ())
    cut = chunked(call('{"a"'), finish="length")
    assert (cut.stop_reason, cut.calls) == ("max_tokens", ())


def test_an_unknown_stop_goes_through_unread() -> None:
    assert heard([stopped("tired")]).stop_reason == "tired"
    assert chunked(finish="tired").stop_reason == "tired"


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ((call("", 0), call('{"a":', 0, None, None), call("1}", 0, None, None)), [("c1", "t", {"a": 1})]),
        ((call("{}", 0, "c1"), call("{}", 1, "c2", "u")), [("c1", "t", {}), ("c2", "u", {})]),
        ((call("{}", 0, "c1"), call("{}", 0, "c2", "u")), [("c1", "t", {}), ("c2", "u", {})]),
        ((call('{"a"', None, "c1"), call(":1}", None, None, None)), [("c1", "t", {"a": 1})]),
        ((call("{}", 0, None), call("{}", 1, "")), [("call-4-0", "t", {}), ("call-4-1", "t", {})]),
        ((call("", 0),), [("c1", "t", {})]),
    ],
    ids=["in pieces", "two", "two at one index", "no index", "no ids", "no arguments"],
)
def test_calls_are_put_together_from_every_servers_pieces(
    deltas: tuple[dict[str, Any], ...], expected: list[tuple[str, str, dict[str, Any]]]
) -> None:
    """Compatible servers leave out or repeat index and id; OpenAI's order is only one of them."""
    reply = chunked(*deltas, finish="stop")
    assert reply.stop_reason == "tool_use"
    assert [(made.id, made.name, msgspec.json.decode(made.args)) for made in reply.calls] == expected


def test_what_a_server_adds_to_its_message_goes_back_to_it() -> None:
    piece = {
        "index": 0,
        "id": "c",
        "function": {"name": "t", "arguments": "{}"},
        "extra_content": {"google": {"s": "x"}},
    }
    reply = chunked(
        {"reasoning_content": "h", "reasoning_details": [{"a": 1}]},
        {"reasoning_content": "m", "reasoning_details": [{"a": 2}]},
        {"tool_calls": [piece]},
        finish="tool_calls",
    )
    entry = Entry(k=0, kind="reply", calls=reply.calls, native=reply.native, stop_reason="tool_use")
    said = openai.messages(conversation(entry))[2]
    assert said["reasoning_content"] == "hm"
    assert said["reasoning_details"] == [{"a": 1}, {"a": 2}]
    assert said["tool_calls"][0]["extra_content"] == {"google": {"s": "x"}}


def test_a_refusal_in_its_own_field_is_a_refusal() -> None:
    reply = chunked({"refusal": "I can"}, {"refusal": "not"})
    assert (reply.stop_reason, reply.text) == ("refusal", "I cannot")


def test_content_in_parts_shows_its_text() -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "yes"}]
    assert chunked({"content": parts}).text == "yes"


def test_a_reply_of_the_other_dialect_is_told_in_neutral_form() -> None:
    call = ToolCall(id="u", name="t", args=Json(b'{"a":1}'))
    entry = Entry(k=0, kind="reply", text="hi", calls=(call,), native=Json(b'{"anthropic":[]}'), stop_reason="tool_use")
    talk = conversation(entry, Entry(k=1, kind="tool", text="ok", call_id="u"))
    said, answered = openai.messages(talk)[2:]
    function = {"name": "t", "arguments": '{"a":1}'}
    assert said["tool_calls"][0] == {"id": "c00000000", "type": "function", "function": function}
    assert answered == {"role": "tool", "tool_call_id": "c00000000", "content": "ok"}
    entry = Entry(k=0, kind="reply", text="hi", calls=(call,), native=Json(b'{"openai":{}}'), stop_reason="tool_use")
    assert [part["type"] for part in anthropic.messages(conversation(entry))[1]["content"]] == ["text", "tool_use"]


NATIVES = {
    "anthropic": b'{"anthropic":[{"type":"thinking","thinking":"hm","signature":"s"},'
    b'{"type":"tool_use","id":"toolu_1","name":"t","input":{"a":1}}]}',
    "openai": b'{"openai":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":'
    b'[{"id":"functions.t:0","type":"function","function":{"name":"t","arguments":"{}"}}]}}',
    "openai-responses": b'{"openai-responses":[{"type":"reasoning"},{"type":"function_call","call_id":"fc"}]}',
}


@pytest.mark.parametrize("spoken", NATIVES)
@pytest.mark.parametrize("asked", NATIVES)
def test_a_conversation_goes_on_at_another_api(spoken: str, asked: str) -> None:
    """Calls, failed results, notes and replies that were cut: every id that is answered was asked, and none twice."""
    if spoken == asked:
        return
    calls = tuple(ToolCall(id="functions.t:0", name="t", args=Json(args)) for args in (b'{"a":1}', b'"broken"'))
    entries = [
        Entry(k=0, kind="reply", text="hi", calls=calls, native=Json(NATIVES[spoken]), stop_reason="tool_use"),
        Entry(k=1, kind="tool", text="ok", call_id="functions.t:0"),
        Entry(k=2, kind="tool", text="failed", call_id="functions.t:0", is_error=True),
        Entry(k=3, kind="note", text="look here"),
        Entry(k=4, kind="reply", text="I", native=Json(NATIVES[spoken]), stop_reason="max_tokens"),
        Entry(k=5, kind="note", text="continue"),
        Entry(k=6, kind="reply", calls=calls[:1], native=Json(NATIVES[spoken]), stop_reason="tool_use"),
        Entry(k=7, kind="tool", text="again", call_id="functions.t:0"),
    ]
    talk = conversation(*entries)
    made = {"anthropic": anthropic.messages, "openai": openai.messages, "openai-responses": openai_responses.items}[
        asked
    ](talk)
    text = json.dumps(made)
    for word in ("thinking", "reasoning", "signature", "functions.t", "toolu_1"):
        assert word not in text
    ids = ["c00000000", "c00000001", "c00006000"]
    assert [text.count(f'"{one}"') for one in ids] == [2, 2, 2]
    told = [text.index(word) for word in ('"ok"', '"failed"', "look here", '"I"', "continue", '"again"')]
    assert told == sorted(told)
    assert all(
        json.loads(one["arguments"]) in ({"a": 1}, {})
        for one in made
        if asked == "openai-responses" and "arguments" in one
    )
    assert anthropic.may_think(talk) is (spoken == "anthropic"), "the API requires its own thinking before a call"


EVENTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["content_block_start", "content_block_delta", "message_delta", "other"])},
        optional={"index": st.integers(0, 2), "delta": st.dictionaries(st.just("stop_reason"), st.text(max_size=3))},
    ),
    max_size=6,
)


@given(EVENTS)
def test_events_in_any_order_make_a_reply_that_can_be_replayed(events: list[dict[str, Any]]) -> None:
    reply = heard(events)
    entry = msgspec.structs.replace(reply, k=0)
    anthropic.messages(conversation(msgspec.json.decode(msgspec.json.encode(entry), type=Entry)))


@pytest.mark.parametrize("nonsense", [-5, 2**62, "12", 1.5, True, [1]])
def test_a_provider_that_counts_as_nobody_can_is_not_believed(nonsense: Any) -> None:
    with pytest.raises(Failed, match="invalid token count"):
        heard([{"type": "message_start", "message": {"usage": {"input_tokens": nonsense}}}, stopped("end_turn")])
    for name in ("prompt_tokens", "completion_tokens"):
        with pytest.raises(Failed, match="invalid token count"):
            chunked({"content": "a"}, usage={name: nonsense})
    with pytest.raises(Failed, match="invalid token count"):
        chunked({"content": "a"}, usage={"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": nonsense}})
