"""The scripted model: its words, its place, its failures, through the real loop."""

import json
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.agent import MockExit, Rule
from protocol.instruction import Usage
from protocol.ipc import Entry, Error, Go, Limits, McpAddress, Result, ToolCall, Yield
from tests.worker.fake_daemon import FakeDaemon
from tests.worker.fake_kernel import Journal, attempt, attempt_process, make_start, script, untimed
from worker.attempt import run_loop
from worker.conversation import Conversation
from worker.io.trio_io import TrioIO
from worker.models.mock import MockModel
from worker.models.model import Failed
from worker.tool import BuiltinTool, ToolOutcome, ToolRunners


async def test_tools_are_real_calls_and_the_last_text_is_the_reply(daemon: FakeDaemon) -> None:
    """contracts 1: every tool a real call over Daemon MCP; an error result is recorded, the script goes on."""
    actions = (
        {"text": "first"},
        {"tool": "channel_send", "args": {"message": "@coder look"}},
        {"tool": "nope"},
        {"usage": {"input_tokens": 1000, "output_tokens": 200}},
        {"text": "last"},
    )
    made = await attempt(make_start(mcp=McpAddress(url=daemon.url), mock=script(*actions)))
    assert made.result == Result(status="done", text="last")
    kinds = [(entry.kind, entry.stop_reason or entry.name, entry.is_error) for entry in made.entries]
    assert kinds == [
        ("reply", "pause_turn", False),
        ("reply", "tool_use", False),
        ("tool", "channel_send", False),
        ("reply", "tool_use", False),
        ("tool", "nope", True),
        ("reply", "pause_turn", False),
        ("reply", "end_turn", False),
    ]
    assert [call.id for entry in made.entries for call in entry.calls] == ["mock-1", "mock-3"]
    assert made.entries[5].usage == Usage(input_tokens=1000, output_tokens=200)
    assert daemon.said == ["@coder look"]


async def test_a_tool_at_the_end_needs_no_further_step(daemon: FakeDaemon) -> None:
    """contracts 1: each action is one step; no text means an empty reply."""
    send = {"tool": "channel_send", "args": {"message": "x"}}
    made = await attempt(make_start(mcp=McpAddress(url=daemon.url), mock=script(send)))
    assert made.result == Result(status="done", text="")
    assert [entry.kind for entry in made.entries] == ["reply", "tool"]


@pytest.mark.parametrize("backend", ["mock", "sdk"])
async def test_backend_and_model_play_the_same_script(backend: str) -> None:
    """contracts 1: a mock/... model plays the same script inside the SDK runner."""
    provider = {"name": "mock", "dialect": "mock"} if backend == "sdk" else None
    fields: dict[str, Any] = {"backend": backend, "mock": script({"text": "hi"})}
    start = msgspec.convert({**msgspec.to_builtins(make_start(**fields)), "provider": provider}, type(make_start()))
    assert (await attempt(start)).result.text == "hi"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("line 7 of a.py", "a.py: 7"), ("nothing of the kind", "else: nothing of the kind"), ("", "else: ")],
)
async def test_the_first_rule_that_matches_plays(text: str, expected: str) -> None:
    """contracts 1: re.search on the text as sent, rules in order, without when: always."""
    rules = (
        *script({"text": "${{ match.file }}: ${{match.1}}"}, when=r"line (\d+) of (?P<file>\S+)"),
        *script({"text": "else: ${{ message.text }}"}),
    )
    made = await attempt(make_start(message="assembled prompt", source_text=text or "", mock=rules))
    assert made.result.text == (expected if text else "else: assembled prompt")


async def test_no_rule_means_an_empty_reply() -> None:
    """contracts 1: none: empty reply."""
    made = await attempt(make_start(mock=script({"text": "x"}, when="never")))
    assert made.result == Result(status="done", text="")


async def test_values_are_filled_in_once_and_everywhere() -> None:
    """contracts 1: values are not expanded again."""
    shell = {"shell": "printf '%s' '${{ message.text }}'"}
    made = await attempt(make_start(message="${{ match.0 }}", mock=script(shell, {"text": "${{ message.text }}!"})))
    assert made.entries[1].text == "${{ match.0 }}"
    assert made.result.text == "${{ match.0 }}!"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (script({"text": "${{ params.x }}"}), "params.x"),
        (script({"text": "${{ match.1 }}"}), "match.1"),
        ((msgspec.convert({"do": [], "when": "("}, Rule),), "regular expression"),
    ],
)
async def test_a_script_that_cannot_be_played_says_why(rules: tuple[Rule, ...], words: str) -> None:
    """contracts 1: unknown is an error; and no retry mends it."""
    made = await attempt(make_start(mock=rules))
    assert made.error.cause == "invalid"
    assert words in made.error.text


async def test_a_scripted_error_is_as_if_the_provider_had_said_so() -> None:
    """contracts 1: http_status, retry_after, code; without times it happens every time, with no entry."""
    error = {"error": {"http_status": 429, "retry_after": 2, "text": "slow down"}}
    for _ in range(2):
        made = await attempt(make_start(mock=script({"text": "so far"}, error)))
        assert made.error == Error(
            cause="rate_limited", text="slow down", http_status=429, retry_after=2.0, partial="so far", fired="0.1"
        )
        assert [entry.text for entry in made.entries] == ["so far"]


async def test_a_counted_error_fires_so_often_over_all_attempts() -> None:
    """contracts 1: times counts over all attempts."""
    rules = script({"error": {"http_status": 503, "times": 2}}, {"text": "at last"})
    entries: list[Entry] = []
    ends = []
    for _ in range(3):
        made = await attempt(make_start(mock=rules, entries=tuple(entries)))
        entries += made.entries
        ends.append(made.ended)
    assert [type(end) for end in ends] == [Error, Error, Result]
    assert [(entry.stop_reason, entry.note) for entry in entries] == [
        ("fired", "0.0"), ("fired", "0.0"), ("end_turn", None)
    ]  # fmt: skip


async def test_failures_counted_by_the_kernel_are_passed_too() -> None:
    rules = script({"error": {"http_status": 503, "times": 1}}, {"text": "at last"})
    made = await attempt(make_start(mock=rules, mock_counts={"0.0": 1}))
    assert made.result.text == "at last"


@pytest.mark.promise("PF01", "PF02")
@pytest.mark.parametrize(
    ("exit_", "code"),
    [
        ({"signal": "KILL"}, -signal.SIGKILL),
        ({"signal": "SIGTERM"}, -signal.SIGTERM),
        ({"code": 3}, 3),
        ({"code": 0}, 0),
    ],
)
async def test_a_scripted_exit_is_a_real_death(exit_: dict[str, Any], code: int) -> None:
    """contracts 1: the worker dies here, by a signal or with a code, and says nothing."""
    made = await attempt_process(make_start(mock=script({"text": "x"}, {"exit": {**exit_, "times": 1}})))
    assert made.ended is None
    assert made.exit_code == code
    assert [entry.stop_reason for entry in made.entries] == ["pause_turn", "fired"]


@pytest.mark.promise("P4")
async def test_shell_runs_in_the_working_directory_with_a_key(tmp_path: Any) -> None:
    """contracts 1: cwd, AGENT_IDEMPOTENCY_KEY; a non-zero exit is recorded, the script goes on."""
    command = "pwd; printenv AGENT_IDEMPOTENCY_KEY SEEN HOME; exit 4"
    start = make_start(cwd=str(tmp_path), env={"PATH": "/usr/bin:/bin", "SEEN": "yes"}, mock=script({"shell": command}))
    first, again = await attempt(start), await attempt(start)
    lines = first.entries[1].text.splitlines()
    assert lines[0] == str(tmp_path)
    assert lines[1].startswith("i1")
    assert lines[2:] == ["yes", "[exit 4]"]
    assert first.entries[1].is_error
    assert first.result.status == "done"
    assert untimed(first.entries) == untimed(again.entries), "the key is the same on every attempt"


async def test_max_steps_holds_for_scripts_too() -> None:
    """contracts 1: max_steps per instruction."""
    rules = script({"text": "a"}, {"text": "b"}, {"text": "c"})
    made = await attempt(make_start(mock=rules, limits=Limits(max_steps=2)))
    assert made.result == Result(status="incomplete", text="b", cause="max_steps")


# -- resume anywhere ----------------------------------------------------------------------------------

ACTION = st.one_of(
    st.fixed_dictionaries({"text": st.sampled_from(["", "one", "two ${{ message.text }}"])}),
    st.fixed_dictionaries({"tool": st.sampled_from(["send", "fail"]), "args": st.just({"n": 1})}),
    st.fixed_dictionaries({"shell": st.sampled_from(["a", "b"])}),
    st.just({"sleep": 0.0}),
    st.just({"usage": {"input_tokens": 3}}),
    st.fixed_dictionaries({"error": st.fixed_dictionaries({"times": st.integers(1, 2), "http_status": st.just(503)})}),
    st.fixed_dictionaries({"exit": st.fixed_dictionaries({"times": st.integers(1, 2), "code": st.just(1)})}),
)


class _Cut(Exception):
    """The worker is gone: what it had sent is durable, nothing else is known."""


class _Store(Journal):
    """What is durable, and who is allowed to add to it: at most ``cut`` entries, then the worker is gone."""

    def __init__(self, cut: int | None) -> None:
        super().__init__()
        self.ran: list[str] = []
        self.cut = cut

    async def record(self, entry: Entry) -> Go | Yield:
        answer = await super().record(entry)
        if self.cut == len(self.entries):
            self.cut = None
            raise _Cut
        return answer


class _Counting:
    """Tools that remember the keys they were called with."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        self._store.ran.append(key)
        return ToolOutcome(f"{name} {json.dumps(args)}", name == "fail")


def _die(how: MockExit) -> None:
    raise _Cut


async def _to_the_end(rules: tuple[Rule, ...], store: _Store) -> Result:
    hands = ToolRunners(
        kernel=_Counting(store), own={"shell": BuiltinTool(hand=_Counting(store))}, seconds=5, waits=TrioIO()
    )
    for _ in range(100):
        talk = Conversation(make_start(message="m", entries=tuple(store.entries)))
        try:
            return await run_loop(
                conversation=talk,
                model=MockModel(rules, {}, TrioIO(), _die),
                hands=hands,
                limits=Limits(max_steps=9),
                link=store,
            )
        except (_Cut, Failed):
            continue
    raise AssertionError("the script never ends")


@pytest.mark.promise("P5")
@given(st.lists(ACTION, max_size=12), st.data())
@settings(max_examples=2 * settings.get_profile("untimed").max_examples, deadline=None)
def test_a_script_resumes_after_any_entry(actions: list[dict[str, Any]], data: st.DataObject) -> None:
    async def both() -> None:
        whole = _Store(cut=None)
        undisturbed = await _to_the_end(script(*actions), whole)
        cut = _Store(cut=data.draw(st.integers(1, max(1, len(whole.entries)))))
        resumed = await _to_the_end(script(*actions), cut)
        assert untimed(cut.entries) == untimed(whole.entries)
        assert resumed == undisturbed
        assert cut.ran == whole.ran, "no call whose result was durable ran again"
        assert [entry.k for entry in cut.entries] == list(range(len(cut.entries)))

    trio.run(both)


@pytest.mark.promise("P4")
def test_calls_of_one_reply_are_told_apart_by_place() -> None:
    calls = (ToolCall(id="same", name="t"), ToolCall(id="same", name="t"))
    talk = Conversation(make_start(message="m", entries=(Entry(k=0, kind="reply", calls=calls),)))
    keys = []
    for k in (1, 2):
        assert talk.last is not None
        keys.append(talk.last.pending_key)
        talk.add(Entry(k=k, kind="tool", call_id="same"))
    assert talk.last is not None
    assert talk.last.pending is None
    assert len(set(keys)) == 2


LEFTOVERS = """
import os, threading
from worker.main import anything_left

own = {int(name) for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")}
found = [anything_left(own)]
with open(os.devnull):
    found.append(anything_left(own))
done = threading.Event()
for name in ("download", "Trio thread 7"):
    thread = threading.Thread(target=done.wait, name=name)
    thread.start()
    found.append(anything_left(own))
    done.set()
    thread.join()
    done.clear()
print(found)
"""


@pytest.mark.promise("P36")
def test_a_worker_sees_what_an_attempt_left_in_it() -> None:
    ran = subprocess.run([sys.executable, "-c", LEFTOVERS], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[False, True, True, False]"
