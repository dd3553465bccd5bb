"""The loop with the real SDK clients, against a scripted provider and a real MCP server, over real pipes."""

import json
import threading
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import trio

from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.ipc import Entry, Go, Limits, McpAddress, Ping, Pong, Provider, Start, Stop, Yield
from tests.worker.fake_daemon import FakeDaemon
from tests.worker.fake_kernel import Attempt, attempt, sdk_start, untimed, worker
from tests.worker.scripted_api import Call, Events, Fail, Marked, Move, Say, ScriptedApi, Silence
from worker.models.sdk_client import max_tokens

pytestmark = pytest.mark.filterwarnings(
    # The SDKs leave generators of their own to the garbage collector: after [DONE], after an error in the stream.
    "ignore:Async generator '(anthropic|openai|httpx2|httpcore2):ResourceWarning"
)
DIALECTS = ("anthropic", "openai")
SEND = Call("channel_send", '{"message": "hello"}')
ABOUT_TO_SEND = Say("Let me tell them.", (SEND,), input_tokens=10, output_tokens=5, cached_tokens=3)
DONE = Say("All done.", input_tokens=20, output_tokens=2)
LIMITS = Limits(tool_seconds=5.0, idle_seconds=5.0)


def start_for(api: ScriptedApi, dialect: str, daemon: FakeDaemon, **changes: Any) -> Start:
    url = {"anthropic": api.anthropic_url}.get(dialect, api.openai_url)
    if dialect == "responses":
        provider = Provider(name="openai", dialect="openai", base_url=url, api_key="sk-secret", api="responses")
        changes = {"provider": provider, "effort": "high", **changes}
    return sdk_start(dialect, url, mcp=McpAddress(url=daemon.url), limits=LIMITS, **changes)


async def play(daemon: FakeDaemon, dialect: str, *moves: Move, **changes: Any) -> tuple[Attempt, ScriptedApi]:
    with ScriptedApi(moves) as api:
        return await attempt(start_for(api, dialect, daemon, **changes)), api


def shape(entries: list[Entry]) -> list[tuple[str, str | None, str]]:
    return [(entry.kind, entry.stop_reason or entry.name, entry.text) for entry in entries]


TOLD = [
    ("reply", "tool_use", "Let me tell them."),
    ("tool", "channel_send", "said 1"),
    ("reply", "end_turn", "All done."),
]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_calls_a_tool_of_the_kernel_and_ends(daemon: FakeDaemon, dialect: str) -> None:
    """contracts 5: the real clients talk to a scripted server on loopback and call channel_send."""
    made, api = await play(daemon, dialect, ABOUT_TO_SEND, DONE)
    assert (made.result.status, made.result.text) == ("done", "All done.")
    assert shape(made.entries) == TOLD
    assert [entry.k for entry in made.entries] == [0, 1, 2]
    assert daemon.said == ["hello"]
    assert made.entries[0].usage == Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3)
    assert made.result.usage == Usage()
    assert "said 1" in json.dumps(api.requests[1].body)
    assert "channel_send" in json.dumps(api.requests[0].body["tools"])


@pytest.mark.promise("P5")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_resumed_worker_repeats_nothing_durable(daemon: FakeDaemon, dialect: str) -> None:
    whole, _ = await play(daemon, dialect, ABOUT_TO_SEND, DONE)
    for k, moves in ((1, [DONE]), (2, [DONE]), (3, [])):
        resumed, api = await play(daemon, dialect, *moves, entries=tuple(whole.entries[:k]))
        assert untimed(whole.entries[:k] + resumed.entries) == untimed(whole.entries)
        assert resumed.result.text == "All done."
        assert len(api.requests) == len(moves)
    assert daemon.said == ["hello"], "the ledger knew the call by its key"
    assert len(set(daemon.keys)) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_yield_is_answered_and_the_rest_is_done_later(daemon: FakeDaemon, dialect: str) -> None:
    with ScriptedApi([ABOUT_TO_SEND, DONE]) as api:
        begin = start_for(api, dialect, daemon)
        entries: list[Entry] = []
        for expected in ("yielded", "yielded", "done"):
            once = await attempt(
                msgspec.structs.replace(begin, entries=tuple(entries)), answer=lambda entry: Yield(k=entry.k)
            )
            entries += once.entries
            assert once.result.status == expected
    assert shape(entries) == TOLD


@pytest.mark.parametrize(
    ("dialect", "stop", "status", "cause"),
    [
        ("anthropic", "end_turn", "done", None),
        ("anthropic", "stop_sequence", "done", None),
        ("anthropic", "max_tokens", "incomplete", "max_tokens"),
        ("anthropic", "model_context_window_exceeded", "incomplete", "context_overflow"),
        ("anthropic", "refusal", "error", "refusal"),
        ("anthropic", "tool_use", "error", "invalid"),
        ("anthropic", "on_a_whim", "error", "invalid"),
        ("openai", "stop", "done", None),
        ("openai", "length", "incomplete", "max_tokens"),
        ("openai", "model_length", "incomplete", "context_overflow"),
        ("openai", "content_filter", "error", "refusal"),
        ("openai", "function_call", "error", "invalid"),
        ("openai", "insufficient_system_resource", "error", "overloaded"),
        ("openai", "on_a_whim", "error", "invalid"),
    ],
)
async def test_every_stop_reason_has_its_end(
    daemon: FakeDaemon, dialect: str, stop: str, status: str, cause: Cause | None
) -> None:
    made, _ = await play(daemon, dialect, Say("partly", stop=stop))
    if status == "error":
        assert made.error.cause == cause
        assert made.error.partial == made.entries[-1].text if made.entries else made.error.partial == ""
    else:
        assert (made.result.status, made.result.cause, made.result.text) == (status, cause, "partly")


async def test_a_paused_turn_is_continued_with_what_was_said(daemon: FakeDaemon) -> None:
    made, api = await play(daemon, "anthropic", Say("first", stop="pause_turn"), DONE)
    assert made.result.text == "All done."
    assert api.requests[1].body["messages"][-1]["role"] == "assistant"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_steps_are_limited(daemon: FakeDaemon, dialect: str) -> None:
    with ScriptedApi(otherwise=ABOUT_TO_SEND) as api:
        start = msgspec.structs.replace(start_for(api, dialect, daemon), limits=Limits(max_steps=3))
        made = await attempt(start)
    assert (made.result.status, made.result.cause) == ("incomplete", "max_steps")
    assert [entry.kind for entry in made.entries] == ["reply", "tool"] * 3
    assert len(api.requests) == 3


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bad_arguments_are_a_result_the_model_reads(daemon: FakeDaemon, dialect: str) -> None:
    """A model's mistake is its own to mend, never a crash."""
    made, api = await play(daemon, dialect, Say(calls=(Call("channel_send", '{"mess'),)), DONE)
    tool = made.entries[1]
    assert tool.is_error
    assert '{\\"mess' in tool.text
    assert made.result.status == "done"
    assert daemon.said == []
    assert "JSON object" in json.dumps(api.requests[1].body)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["no_such_tool", "naïve tool\n", ""])
async def test_an_unknown_tool_is_a_result_the_model_reads(daemon: FakeDaemon, dialect: str, name: str) -> None:
    made, _ = await play(daemon, dialect, Say(calls=(Call(name, "{}"),)), DONE)
    assert made.entries[1].is_error
    assert made.result.status == "done"


ANTHROPIC_SPEND = {"type": "error", "error": {"type": "rate_limit_error", "message": "no more this month",
                   "details": {"error_code": "enforced_spend_limit_reached"}}}  # fmt: skip
OPENAI_QUOTA = {
    "error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}
}
TOO_LONG = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
WAIT = {"retry-after": "7"}
HALF_ANTHROPIC = Events((("message_start", {"type": "message_start", "message": {}}),), cut=True)
HALF_OPENAI = Events(((None, {"choices": [{"delta": {"content": "x"}, "index": 0}]}),), cut=True)
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("dialect", "move", "cause", "status", "retry_after"),
    [
        ("anthropic", Fail(429, {"error": {"type": "rate_limit_error"}}, WAIT), "rate_limited", 429, 7.0),
        ("openai", Fail(429, {"error": {"code": "rate_limit_exceeded"}}, WAIT), "rate_limited", 429, 7.0),
        ("anthropic", Fail(429, ANTHROPIC_SPEND), "quota", 429, None),
        ("openai", Fail(429, OPENAI_QUOTA), "quota", 429, None),
        ("anthropic", Fail(529, OVERLOADED), "overloaded", 529, None),
        ("openai", Fail(503, "<html>oops</html>"), "overloaded", 503, None),
        ("anthropic", Fail(401, {"error": {"type": "authentication_error", "message": "bad"}}), "auth", 401, None),
        ("openai", Fail(401, {"error": {"code": "invalid_api_key"}}), "auth", 401, None),
        ("openai", Fail(402, {"error": {"message": "Insufficient credits", "code": 402}}), "quota", 402, None),
        ("openai", Fail(400, TOO_LONG), "context_overflow", 400, None),
        ("anthropic", Fail(400, {"error": {"type": "invalid_request_error"}}), "invalid", 400, None),
        ("anthropic", Fail(302, "", {"location": "http://127.0.0.1:9/"}), "invalid", 302, None),
        ("anthropic", Events((("error", OVERLOADED),)), "overloaded", None, None),
        ("openai", Events(((None, {"error": {"message": "gone", "code": 429}}),)), "rate_limited", None, None),
        ("anthropic", HALF_ANTHROPIC, "network", None, None),
        ("openai", HALF_OPENAI, "network", None, None),
        ("anthropic", Events((("message_start", "{nonsense"),)), "network", None, None),
        ("openai", Events(((None, "{nonsense"),)), "network", None, None),
        ("anthropic", Events(()), "network", None, None),
        ("openai", Events(()), "network", None, None),
    ],
)
async def test_every_failure_of_a_provider_has_its_cause(
    daemon: FakeDaemon, dialect: str, move: Move, cause: Cause, status: int | None, retry_after: float | None
) -> None:
    """From structured signals only, and nothing is retried here."""
    made, api = await play(daemon, dialect, move)
    assert (made.error.cause, made.error.http_status, made.error.retry_after) == (cause, status, retry_after)
    assert made.entries == []
    assert len(api.requests) == 1


HTML = "<!doctype html><title>Sign in</title>"
PAGE = {"content-type": "text/html; charset=utf-8"}
EVENTS = {"content-type": "text/event-stream"}
WHOLE = {"id": "c", "object": "chat.completion", "choices": [{"message": {"content": "hi"}}]}
BODIES: list[tuple[Any, dict[str, str], Cause, str]] = [
    (OPENAI_QUOTA, {}, "quota", "You exceeded your quota"),
    (OPENAI_QUOTA, EVENTS, "quota", "You exceeded your quota"),
    ([OPENAI_QUOTA], {}, "quota", "You exceeded your quota"),
    ({"error": {"message": "over quota"}}, WAIT, "overloaded", "over quota"),
    ({"error": {"message": "slow down", "code": 429}}, WAIT, "rate_limited", "slow down"),
    ({"error": {"message": "bad key", "type": "authentication_error"}}, {}, "auth", "bad key"),
    ({"error": {"code": "invalid_api_key"}}, {}, "auth", "the answer is an error"),
    ({"error": "no such model"}, {}, "overloaded", "no such model"),
    ("\ufeff" + json.dumps(OPENAI_QUOTA), {}, "quota", "You exceeded your quota"),
    (HTML, PAGE, "network", "not an event stream (text/html; charset=utf-8): <!doctype html><title>Sign in"),
    (HTML + "x" * 100_000, PAGE, "network", "<title>Sign in"),
    (WHOLE, {}, "network", "not an event stream (application/json)"),
    ("Service restarting", {"content-type": "text/plain"}, "network", "(text/plain): Service restarting"),
    ("[" * 3000, {}, "network", "not an event stream (application/json)"),
    ("", {}, "network", "ended before the reply"),
]


@pytest.mark.parametrize("dialect", [*DIALECTS, "responses"])
@pytest.mark.parametrize(("body", "headers", "cause", "text"), BODIES)
async def test_an_answer_of_200_that_is_no_stream_is_read_for_what_it_is(
    daemon: FakeDaemon, dialect: str, body: Any, headers: dict[str, str], cause: Cause, text: str
) -> None:
    """Fault F4: a page, or an error as JSON, with its code, its words and its retry-after."""
    made, _ = await play(daemon, dialect, Fail(200, body, headers))
    assert (made.error.cause, text in made.error.text) == (cause, True), made.error
    assert made.error.retry_after == (7.0 if headers == WAIT else None)
    assert len(made.error.text) < 1100


@pytest.mark.parametrize("dialect", [*DIALECTS, "responses"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_a_byte_order_mark_before_a_stream_takes_nothing_of_it(
    daemon: FakeDaemon, dialect: str, size: int
) -> None:
    """Fault F4: the first piece was dropped, and the rest was a good reply. WHATWG: one leading mark is stripped."""
    said = Say("DO NOT delete the database", input_tokens=20, output_tokens=2)
    made, _ = await play(daemon, dialect, Marked(said, size))
    assert made.result.text == said.text
    assert made.entries[0].usage == Usage(input_tokens=20, output_tokens=2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_endpoint_that_is_not_there_is_a_network_failure(daemon: FakeDaemon, dialect: str) -> None:
    made = await attempt(sdk_start(dialect, "http://127.0.0.1:9", mcp=McpAddress(url=daemon.url)))
    assert made.error.cause == "network"
    assert "scripted: " in made.error.text


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("base_url", ["nonsense", "ftp://x", "http://"])
async def test_an_address_that_is_none_is_invalid(daemon: FakeDaemon, dialect: str, base_url: str) -> None:
    made = await attempt(sdk_start(dialect, base_url, mcp=McpAddress(url=daemon.url)))
    assert made.error.cause == "invalid"


@pytest.mark.promise("P18")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_echoed_key_is_not_repeated(daemon: FakeDaemon, dialect: str) -> None:
    body = {"error": {"type": "authentication_error", "message": "key sk-secret is not valid"}}
    made, _ = await play(daemon, dialect, Fail(401, body))
    assert "sk-secret" not in made.error.text
    assert "[key]" in made.error.text


@pytest.mark.promise("P18")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_environment_does_not_choose_where_requests_go(
    daemon: FakeDaemon, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-of-someone-else")
    made, api = await play(daemon, dialect, DONE)
    assert made.result.status == "done"
    assert "sk-of-someone-else" not in str(api.requests[0].headers)
    assert "sk-secret" in str(api.requests[0].headers)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_text_is_shown_while_it_comes_and_pings_are_answered(daemon: FakeDaemon, dialect: str) -> None:
    hold = threading.Event()
    with ScriptedApi([Say("in two parts", chunk=4, hold=hold)]) as api:
        async with worker() as kernel:
            await kernel.greet(start_for(api, dialect, daemon))
            await trio.to_thread.run_sync(api.asked.wait)
            await kernel.tell(Ping(n=7))
            while not isinstance(await kernel.hear(), Pong):
                pass
            hold.set()
            ended = await kernel.serve()
    shown = "".join(getattr(frame, "text", "") for frame in kernel.frames if type(frame).__name__ == "Delta")
    assert shown == "in two parts"
    assert type(ended).__name__ == "Result"


@pytest.mark.promise("P8")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stop_ends_a_pending_model_call(daemon: FakeDaemon, dialect: str) -> None:
    release = threading.Event()
    with ScriptedApi([Silence(release)]) as api:
        async with worker() as kernel:
            await kernel.greet(start_for(api, dialect, daemon))
            await trio.to_thread.run_sync(api.asked.wait)
            await kernel.tell(Stop(reason="shutdown"))
            ended = await kernel.serve()
            assert await kernel.hear() is None
        release.set()
    assert ended is not None
    assert getattr(ended, "cause", None) == "cancelled"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_allowance_caps_the_next_answer(daemon: FakeDaemon, dialect: str) -> None:
    """contracts 6: allowance is the budget reserved for the next model call."""
    with ScriptedApi([ABOUT_TO_SEND, DONE]) as api:
        await attempt(start_for(api, dialect, daemon), answer=lambda entry: Go(k=entry.k, allowance=77))
    assert [request.body["max_tokens"] for request in api.requests] == [8192, 77]


def test_an_allowance_never_asks_for_nothing() -> None:
    """Providers refuse an answer of 0 tokens; the kernel stops a worker without budget itself."""
    assert [max_tokens(Limits(max_tokens=100), allowance) for allowance in (None, 500, 50, 0, -3)] == [
        100,
        100,
        50,
        1,
        1,
    ]


async def test_openai_itself_is_asked_in_its_own_words(daemon: FakeDaemon) -> None:
    with ScriptedApi([DONE]) as api:
        start = start_for(api, "openai", daemon)
        provider = Provider(name="openai", dialect="openai", base_url=api.openai_url)
        await attempt(msgspec.structs.replace(start, provider=provider))
    body = api.requests[0].body
    assert body["max_completion_tokens"] == 8192
    assert "max_tokens" not in body
    assert api.requests[0].headers["authorization"] == "Bearer none"


async def test_a_server_that_names_the_limit_otherwise_is_asked_in_its_words(daemon: FakeDaemon) -> None:
    error = {"code": "unsupported_parameter", "param": "max_tokens", "type": "invalid_request_error", "message": "no"}
    made, api = await play(daemon, "openai", Fail(400, {"error": error}), ABOUT_TO_SEND, DONE)
    assert made.result.text == "All done."
    names = ("max_tokens", "max_completion_tokens")
    limits = [[name for name in names if name in request.body] for request in api.requests]
    assert limits == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]


async def test_a_server_that_knows_neither_name_of_the_limit_is_not_asked_for_ever(daemon: FakeDaemon) -> None:
    refusals = [
        Fail(400, {"error": {"code": "unsupported_parameter", "param": name, "message": "no"}})
        for name in ("max_tokens", "max_completion_tokens")
    ]
    made, api = await play(daemon, "openai", *refusals, DONE)
    assert (made.error.cause, len(api.requests)) == ("invalid", 2)


@pytest.mark.parametrize(
    ("dialect", "changes", "sent"),
    [
        ("anthropic", {"effort": "max"}, {"output_config": {"effort": "max"}}),
        ("anthropic", {"thinking_tokens": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
        ("anthropic", {"temperature": 0.0}, {"temperature": 0.0}),
        ("openai", {"effort": "high"}, {"reasoning_effort": "high"}),
        ("openai", {"temperature": 1.5}, {"temperature": 1.5}),
    ],
)
async def test_a_model_is_told_how_to_think(
    daemon: FakeDaemon, dialect: str, changes: dict[str, Any], sent: dict[str, Any]
) -> None:
    keys = {"output_config", "thinking", "temperature", "reasoning_effort"}
    _, api = await play(daemon, dialect, DONE, **changes)
    assert {key: api.requests[0].body[key] for key in keys & api.requests[0].body.keys()} == sent
    _, plain = await play(daemon, dialect, DONE)
    assert not keys & plain.requests[0].body.keys()


async def test_a_model_without_money_for_a_thought_answers_without(daemon: FakeDaemon) -> None:
    """The API refuses a thought that is not shorter than the answer, and one of less than 1024 tokens."""
    _, api = await play(daemon, "anthropic", DONE, thinking_tokens=2000, allowance=1500)
    assert (api.requests[0].body["max_tokens"], api.requests[0].body["thinking"]["budget_tokens"]) == (1500, 1499)
    _, api = await play(daemon, "anthropic", DONE, thinking_tokens=2000, allowance=1000)
    assert "thinking" not in api.requests[0].body


async def test_bad_arguments_go_back_over_responses_as_an_object(daemon: FakeDaemon) -> None:
    wrong = Say(calls=(Call("channel_send", '{"mess', id="c1"),))
    made, api = await play(daemon, "responses", wrong, DONE)
    assert (made.result.status, made.entries[1].is_error) == ("done", True)
    (call,) = (item for item in api.requests[1].body["input"] if item.get("type") == "function_call")
    assert (call["call_id"], json.loads(call["arguments"])) == ("c1", {})


async def test_a_model_served_over_responses_alone_works_and_keeps_its_reasoning(daemon: FakeDaemon) -> None:
    made, api = await play(daemon, "responses", replace(ABOUT_TO_SEND, thinking="hm"), DONE)
    assert (made.result.text, daemon.said, shape(made.entries)) == ("All done.", ["hello"], TOLD)
    assert made.entries[0].usage == Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3)
    first, second = (request.body for request in api.requests)
    assert {request.path for request in api.requests} == {"/v1/responses"}
    assert (first["store"], first["include"]) == (False, ["reasoning.encrypted_content"])
    assert (first["reasoning"], first["instructions"]) == ({"effort": "high"}, "You are Alice.")
    assert "channel_send" in {tool["name"] for tool in first["tools"]}
    kinds = [item.get("type", item.get("role")) for item in second["input"]]
    assert kinds == ["user", "reasoning", "message", "function_call", "function_call_output"]
    assert second["input"][1]["encrypted_content"] == "sealed:hm"


@pytest.mark.promise("P5")
async def test_a_conversation_over_responses_is_resumed_with_its_reasoning(daemon: FakeDaemon) -> None:
    whole, _ = await play(daemon, "responses", Say("", (SEND,), thinking="hm"), DONE)
    resumed, api = await play(daemon, "responses", DONE, entries=tuple(whole.entries[:2]))
    assert (resumed.result.text, daemon.said) == ("All done.", ["hello"])
    assert api.requests[0].body["input"][1]["encrypted_content"] == "sealed:hm"


RESPONSE = {"id": "r", "object": "response", "output": []}
FAILED_RESPONSE = {
    "type": "response.failed",
    "response": {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "oops"}},
}
CUT_RESPONSE = {
    "type": "response.incomplete",
    "response": {
        **RESPONSE,
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "usage": {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14},
    },
}


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (Events((("response.failed", FAILED_RESPONSE),)), "overloaded"),
        (Events((("response.incomplete", CUT_RESPONSE),)), "max_tokens"),
        (Events((), cut=True), "network"),
        (Fail(429, {"error": {"code": "rate_limit_exceeded", "message": "slow"}}), "rate_limited"),
        (Fail(400, {"error": {"code": "context_length_exceeded", "message": "long"}}), "context_overflow"),
    ],
)
async def test_what_goes_wrong_over_responses_has_a_cause(daemon: FakeDaemon, move: Move, expected: str) -> None:
    made, _ = await play(daemon, "responses", move)
    assert made.ended is not None and made.ended.cause == expected, made.ended


async def test_a_provider_nobody_named_is_an_error_with_words(daemon: FakeDaemon) -> None:
    made = await attempt(sdk_start("openai", "http://127.0.0.1:9", provider=None))
    assert made.error.cause == "invalid"
    assert "provider" in made.error.text
