"""send, ask and serve: a message taken once, and waited for whatever happens to the kernel."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from interface.cli.commands.send import AT_ONCE
from protocol.api.messages import (
    MOST_AT_ONCE,
    BatchOutcome,
    BatchReceipt,
    InstructionResult,
    Refusal,
    SendReceipt,
    SendReport,
)
from protocol.discovery import BODY_LIMIT_BYTES
from protocol.instruction import Usage
from tests.interface.conftest import Cli
from tests.interface.kernel_double import PING, Answer, Asked, KernelDouble, Stream, in_turn, problem, sse
from tests.interface.samples import AT, event, instruction

RECEIPT = SendReceipt(message_id="m1", instruction_ids=("i7",))
ENDED = Stream([PING, sse("instruction.ended", event("instruction.ended", 9, instruction="i7"), 9)])


def _result(
    text: str = "the answer", status: Any = "done", name: str = "i7", agent: str = "alice"
) -> InstructionResult:
    return InstructionResult(instruction_id=name, agent=agent, status=status, text=text, usage=Usage(input_tokens=5))


def _report(*results: InstructionResult) -> SendReport:
    return SendReport(message_id="m1", instruction_ids=tuple(r.instruction_id for r in results), results=results)


def _waits(kernel: KernelDouble, stream: Answer | Callable[[Asked], Answer], *stands: Answer) -> None:
    kernel.answers |= {"POST /messages": RECEIPT, "GET /events": stream, "GET /instructions/i7": in_turn(*stands)}


def test_a_message_is_sent_with_a_key(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = RECEIPT
    ran = cli("send", "alice@review", "look at X")
    assert (ran.code, ran.out, ran.err) == (0, "m1 i7\n", "")
    (asked,) = kernel.of("POST", "/messages")
    assert asked.body == {"to": "alice@review", "text": "look at X", "trust": False}
    assert len(asked.headers["idempotency-key"]) == 32


def test_one_word_is_a_message_for_the_default_agent(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = RECEIPT
    assert cli("send", "look at X").out == "m1 i7\n"
    assert cli("send", "-", stdin="from a pipe").code == 0
    bodies = [asked.body for asked in kernel.of("POST", "/messages")]
    assert [(one["to"], one["text"]) for one in bodies] == [(None, "look at X"), (None, "from a pipe")]
    assert cli("send", "alice", "").code == 2


@pytest.mark.parametrize("word", ["alice", "@review", "@Somebody", "alice@review"])
def test_a_target_without_a_message_is_not_a_message(word: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {"GET /agents": {"agents": [{"name": "alice"}]}, "POST /messages": RECEIPT}
    ran = cli("send", word)
    assert (ran.code, f"the message for {word} is missing" in ran.err) == (2, True)
    assert kernel.of("POST", "/messages") == []
    assert cli("send", "yes").code == 0


def test_who_trusts_the_files_says_so_with_the_message(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: AGENT_WORKER_TRUST=1 in the client's environment, for what that client asks."""
    cli.environ["AGENT_WORKER_TRUST"] = "1"
    kernel.answers |= {"POST /messages": RECEIPT, "POST /serve": _report(), "POST /run": Stream([])}
    for word in ("send", "serve", "ask"):
        cli(word, "alice", "hi")
    assert [asked.body["trust"] for asked in kernel.asked if asked.method == "POST"] == [True] * 3


def test_the_receipt_is_a_document(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = RECEIPT
    assert cli("send", "alice", "hi", "--json").json() == {
        "schema": "awk/send/1", "message_id": "m1", "instruction_ids": ["i7"], "not_woken": [], "held": {},
        "unasked": {}, "left_behind": 0, "outdated": None,
    }  # fmt: skip


def test_a_message_can_come_from_standard_input(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = RECEIPT
    assert cli("send", "alice", "-", stdin="a\n  审查\n").code == 0
    assert kernel.of("POST", "/messages")[0].body["text"] == "a\n  审查\n"


@pytest.mark.parametrize(("message", "stdin"), [(" \n", ""), ("-", "\udcff")])
def test_a_message_that_says_nothing_is_a_usage_error(message: str, stdin: str, cli: Cli, kernel: KernelDouble) -> None:
    assert cli("send", "alice", message, stdin=stdin).code == 2
    assert kernel.asked == []


@pytest.mark.parametrize(("message", "stdin"), [("caf\udce9", ""), ("-", "caf\udce9")], ids=["argument", "input"])
def test_a_message_that_is_no_text_starts_nothing(message: str, stdin: str, cli: Cli) -> None:
    """contracts 7: bytes of another encoding reach us as lone surrogates; the error speaks of the message."""
    ran = cli("send", "alice", message, stdin=stdin)
    assert (ran.code, ran.err) == (2, "error: the message is not UTF-8 text\n")
    assert list(cli.home.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    ["run caf\udce9", "start review -- caf\udce9", "run review --dry-run --exit-code-from caf\udce9"],
    ids=["name", "params", "option"],
)
def test_other_words_that_are_no_text_are_a_usage_error(words: str, cli: Cli, kernel: KernelDouble) -> None:
    ran = cli(*words.split())
    assert (ran.code, "not UTF-8 text" in ran.err) == (2, True)
    assert cli("show", "caf\udce9").code == 5


def test_a_message_is_sent_in_as_many_bytes_as_it_has(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 4: the limit is 4 MiB of text as it is; escapes would triple most alphabets."""
    kernel.answers["POST /messages"] = {"message_id": "m1", "instruction_ids": ["i1"]}
    assert cli("send", "alice", "é" * 1000).code == 0
    (asked,) = kernel.of("POST", "/messages")
    assert asked.body["text"] == "é" * 1000
    assert int(asked.headers["content-length"]) < 2100


@pytest.mark.parametrize("place", [None, ".agents/alice.yaml:2:1"])
def test_files_that_an_agent_does_not_see_are_reported(cli: Cli, kernel: KernelDouble, place: str | None) -> None:
    receipt = SendReceipt(message_id="m1", instruction_ids=("i7",), outdated=place)
    for count, said in ((1, "note: 1 file is not committed"), (7, "note: 7 files are not committed")):
        kernel.answers["POST /messages"] = msgspec.structs.replace(receipt, left_behind=count)
        ran = cli("send", "alice", "hi")
        assert (said in ran.err, ran.out) == (True, "m1 i7\n")
        assert (f"note: error at {place}; the previous version" in ran.err) == (place is not None)
        assert cli("send", "alice", "hi", "--json").json()["left_behind"] == count


def test_who_is_not_woken_is_told(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 2: a ninth mention; and a message that wakes no agent."""
    kernel.answers["POST /messages"] = SendReceipt(message_id="m1", instruction_ids=(), not_woken=("ivan",))
    ran = cli("send", "@review", "hi", "--wait", "--json")
    assert (ran.code, ran.json()["results"]) == (0, [])
    assert ("not woken: ivan" in ran.err, "wakes no agent" in ran.err) == (True, True)


def test_a_message_to_an_agent_that_does_no_work_is_kept_and_says_so(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: what was stopped gets its messages, and whoever sends one learns what to do."""
    kernel.answers["POST /messages"] = SendReceipt(message_id="m1", instruction_ids=("i7",), held={"i7": "stopped"})
    ran = cli("send", "alice", "hi")
    assert (ran.code, ran.out) == (0, "m1 i7\n")
    assert ran.err == "note: i7 waits: its agent was stopped; resume it: awk resume\n"


def test_a_missing_key_is_not_called_a_refused_one(cli: Cli, kernel: KernelDouble) -> None:
    why = "no key for anthropic: set ANTHROPIC_API_KEY where the kernel starts"
    held = SendReceipt(message_id="m1", instruction_ids=("i7",), held={"i7": "credentials"}, unasked={"i7": why})
    kernel.answers["POST /messages"] = held
    assert cli("send", "alice", "hi").err == f"note: i7 waits: {why}; set it and run awk restart --kernel\n"
    kernel.answers["POST /messages"] = msgspec.structs.replace(held, unasked={})
    assert "its provider refused the key" in cli("send", "alice", "hi").err


def test_a_refusal_names_what_to_do(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = problem(404, "workflow_not_running", "not running", hint="awk start review")
    ran = cli("send", "alice@review", "hi")
    assert (ran.code, ran.err) == (5, "error: not running\n  hint: awk start review\n")


def test_a_message_is_asked_again_with_its_key_when_the_kernel_goes_away(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 4: the recorded answer is replayed; the message is there once."""
    kernel.answers["POST /messages"] = in_turn(None, RECEIPT)
    ran = cli("send", "alice", "hi")
    assert (ran.code, ran.out) == (0, "m1 i7\n")
    first, second = kernel.of("POST", "/messages")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_waiting_ends_with_the_instruction(cli: Cli, kernel: KernelDouble) -> None:
    _waits(kernel, ENDED, instruction(status="running"), instruction(status="running"), instruction())
    ran = cli("send", "alice", "hi", "--wait")
    assert (ran.code, ran.out, ran.err) == (0, "the answer\n", "")
    paths = [asked.path for asked in kernel.asked if asked.path != "/health"]
    assert paths[:3] == ["/messages", "/events", "/instructions/i7"]
    kinds = "agent.changed,approval.requested,instruction.ended,instruction.queued"
    assert kernel.of("GET", "/events")[0].query == {"type": kinds}


@pytest.mark.parametrize("terminal", [False, True], ids=["nobody there", "somebody there"])
def test_an_approval_is_waited_for_only_by_who_may_give_it(terminal: bool, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: exit 7, also where somebody watches the run itself and its request has a deadline."""
    asks = instruction(status="waiting", standing="time", waits_for="approval", approval="a3", until=AT)
    _waits(kernel, ENDED, asks, instruction())
    ran = cli("send", "alice", "hi", "--wait", terminal=terminal)
    assert ran.code == (0 if terminal else 7)
    assert ("approve" in ran.err) is not terminal


@pytest.mark.parametrize(("terminal", "typed", "code"), [(True, "yes\n\n", 0), (True, "\n", 7), (False, "yes\n\n", 7)])
def test_who_sends_to_a_person_answers_in_place(
    terminal: bool, typed: str, code: int, cli: Cli, kernel: KernelDouble
) -> None:
    """As `run` and `ask` do; who leaves it open, or is not there, gets exit code 7 at once."""
    asks = instruction(status="waiting", standing="person", waits_for="person")

    def answered(asked: Asked) -> dict[str, str]:
        kernel.answers["GET /instructions/i7"] = instruction()
        return {}

    _waits(kernel, Stream([PING]), asks)
    kernel.answers |= {
        "GET /instructions/i7/prompt": {"messages": [{"role": "user", "text": "may we ship?"}]},
        "POST /instructions/i7/answer": answered,
    }
    ran = cli("send", "alice", "hi", "--wait", terminal=terminal, stdin=typed)
    assert (ran.code, "may we ship?" in ran.err) == (code, terminal), ran
    bodies = [asked.body for asked in kernel.of("POST", "/instructions/i7/answer")]
    assert bodies == ([{"text": "yes", "as": "alice"}] if code == 0 else [])


def test_waiting_survives_the_kernel(cli: Cli, kernel: KernelDouble) -> None:
    other = event("instruction.ended", 8, instruction="i6")
    streams = Stream([sse("instruction.ended", other, 8)], cut=True), Stream([], cut=True), None, Stream([PING])
    _waits(kernel, in_turn(*streams), instruction(status="running"), instruction(status="queued"), instruction())
    ran = cli("send", "alice", "hi", "--wait", "--json")
    assert (ran.code, [r["text"] for r in ran.json()["results"]]) == (0, ["the answer"])
    assert [asked.headers.get("last-event-id") for asked in kernel.of("GET", "/events")][:3] == [None, "8", "8"]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["done", "done"], 0),
        (["done", "incomplete"], 6),
        (["incomplete", "failed"], 1),
        (["dead", "done"], 1),
        (["cancelled"], 1),
    ],
)
def test_the_exit_code_is_the_worst_of_the_results(
    statuses: list[str], code: int, cli: Cli, kernel: KernelDouble
) -> None:
    results = [_result(status=status, name=f"i{n}", agent=f"a{n}") for n, status in enumerate(statuses)]
    kernel.answers["POST /serve"] = _report(*results)
    ran = cli("serve", "@review", "@a0 @a1 hi")
    assert (ran.code, [r["status"] for r in ran.json()["results"]]) == (code, statuses)
    lines = ran.err.splitlines()
    errors, hints = ([line for line in lines if line.startswith(begin)] for begin in ("error: ", "  hint: "))
    assert errors == [f"error: a{n}: i{n} ended {s}" for n, s in enumerate(statuses) if s != "done"]
    assert hints == [f"  hint: awk retry i{n}" for n, s in enumerate(statuses) if s in {"failed", "dead"}]


def test_waiting_has_an_end(cli: Cli, kernel: KernelDouble) -> None:
    """send --wait --timeout: exit 124, the document all the same, and the work goes on."""
    _waits(kernel, lambda asked: Stream(_silence(kernel)), instruction(status="running"))
    ran = cli("send", "alice", "hi", "--wait", "--timeout", "100ms", "--json")
    assert (ran.code, ran.json()["results"]) == (124, [])
    assert "i7 not done before the timeout" in ran.err


def _silence(kernel: KernelDouble) -> Any:
    yield PING
    import threading

    threading.Event().wait(0.5)
    yield PING


def test_answers_of_several_are_told_apart(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {
        "POST /messages": SendReceipt(message_id="m1", instruction_ids=("i7", "i8")),
        "GET /events": Stream([PING]),
        "GET /instructions/i7": instruction(text="one"),
        "GET /instructions/i8": instruction("i8", text="two\nlines"),
    }
    assert cli("send", "@review", "@alice @bob", "--wait").out == "alice:\none\nalice:\ntwo\nlines\n"


def _delta(text: str) -> bytes:
    return sse("delta", event("delta", data={"instruction": "i7", "text": text}))


def _accepted(*ids: str) -> bytes:
    return sse("accepted", {"message_id": "m1", "instruction_ids": list(ids), "seq": 4})


STEP = sse("instruction.step", event("instruction.step", 5), 5)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([_delta("the "), _delta("answer"), STEP], "the answer\n"),
        ([], "the answer\n"),
        ([_delta("let me look"), STEP, _delta("the answer"), STEP], "let me look\nthe answer\n"),
        (
            [_delta("the an"), sse("attempt.ended", event("attempt.ended", 6), 6), _delta("the answer")],
            "the an\nthe answer\n",
        ),
        ([_delta("thinking\n"), STEP], "thinking\nthe answer\n"),
        ([_delta("\x1b[2Jthe answer")], "\\x1b[2Jthe answer\nthe answer\n"),
    ],
    ids=["streamed", "not streamed", "two steps", "retried", "unlike", "hostile"],
)
def test_an_answer_is_shown_as_it_is_written_and_once(
    pieces: list[bytes], shown: str, cli: Cli, kernel: KernelDouble
) -> None:
    kernel.answers["POST /run"] = Stream([_accepted("i7"), PING, *pieces, sse("result", _report(_result()))])
    ran = cli("ask", "alice", "hi")
    assert (ran.code, ran.out, ran.err) == (0, shown, "")
    assert kernel.of("POST", "/run")[0].body == {"to": "alice", "text": "hi", "trust": False}


def test_asking_for_json_prints_the_report_only(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = Stream([_accepted("i7"), _delta("x"), sse("result", _report(_result()))])
    assert cli("ask", "alice", "hi", "--json").json()["results"][0]["text"] == "the answer"


def test_asking_for_lines_prints_every_event_and_the_result_last(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = Stream([_accepted("i7"), _delta("x"), STEP, sse("result", _report(_result()))])
    lines = cli("ask", "alice", "hi", "--jsonl").jsonl()
    assert [line["type"] for line in lines] == ["accepted", "delta", "instruction.step", "result"]
    assert lines[-1]["results"][0]["status"] == "done"


def test_an_answer_comes_though_its_stream_is_lost(cli: Cli, kernel: KernelDouble) -> None:
    """The message is durable; only the view of it broke."""
    kernel.answers |= {
        "POST /run": Stream([_accepted("i7"), _delta("the an")], cut=True),
        "GET /events": Stream([PING]),
        "GET /instructions/i7": instruction(),
    }
    ran = cli("ask", "alice", "hi")
    assert (ran.code, ran.out) == (0, "the an\nthe answer\n")
    assert "connection to the kernel lost" in ran.err


@pytest.mark.parametrize("answer", [None, Stream([]), Stream([PING], cut=True)], ids=["closed", "empty", "cut"])
def test_a_question_that_was_not_taken_is_no_kernel(answer: Answer, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = answer
    assert cli("ask", "alice", "hi").code == 69


def test_the_report_of_serve_is_passed_on(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /serve"] = json.loads(
        '{"schema":"awk/send/1","message_id":"m1","instruction_ids":[],"results":[],"new":1}'
    )
    assert cli("serve", "alice", "hi").json()["new"] == 1


def test_an_agent_is_made_without_a_file(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /agents"] = {"name": "agent-1", "model": "mock/x"}
    assert cli("new", "-m", "mock/x").out == "agent-1\n"
    assert cli("new", "eve", "-m", "mock/x", "-b", "mock", "-s", "Be brief.", "--json").json()["name"] == "agent-1"
    assert cli("new", "-m", "sonnet").code == 0
    echo = [{"text": "You said: ${{ message.text }}"}]
    assert [asked.body for asked in kernel.of("POST", "/agents")] == [
        {"model": "mock/x", "mock": echo},
        {"name": "eve", "model": "mock/x", "backend": "mock", "system": "Be brief.", "mock": echo},
        {"model": "sonnet", "system": "You are a helpful assistant."},
    ]
    assert cli("new", "eve", "--tag", "pr-1", "-m", "mock/x").code == 0
    assert kernel.of("POST", "/agents")[-1].body["name"] == "eve-pr-1"


def _taken(asked: Asked) -> BatchReceipt:
    refused = Refusal(status=404, code="unknown_agent", detail="there is no agent 'olga'", hint="awk ls lists them")
    results = [
        BatchOutcome(refused=refused)
        if one["to"] == "olga"
        else BatchOutcome(sent=SendReceipt(message_id=f"m-{one['text']}", instruction_ids=("i1",)))
        for one in asked.body["messages"]
    ]
    accepted = sum(one.refused is None for one in results)
    return BatchReceipt(accepted=accepted, refused=len(results) - accepted, results=tuple(results))


def _line(to: str, text: str, **more: str) -> str:
    return json.dumps({"to": to, "text": text, **more})


def test_many_messages_come_from_lines_and_each_has_its_receipt(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = _taken
    lines = "\n".join((_line("alice", "a", key="k1"), _line("olga", "b"), _line("alice", "c")))
    ran = cli("send", "--batch", "-", stdin=lines)
    assert (ran.code, ran.out) == (5, "m-a i1\nm-c i1\n")
    assert ran.err == "error: line 2: there is no agent 'olga'\n  hint: awk ls lists them\n"
    (asked,) = kernel.of("POST", "/messages")
    assert asked.body["messages"][0] == {"to": "alice", "text": "a", "key": "k1"}
    (cli.root / "lines").write_text(lines)
    document = cli("send", "--batch", str(cli.root / "lines"), "--json").json()
    assert (document["schema"], document["accepted"], document["refused"]) == ("awk/send-batch/1", 2, 1)
    assert ["sent" in one for one in document["results"]] == [True, False, True]


def test_more_than_a_request_takes_are_several(cli: Cli, kernel: KernelDouble) -> None:
    assert AT_ONCE == MOST_AT_ONCE
    kernel.answers["POST /messages"] = _taken
    lines = [_line("alice", str(number)) for number in range(AT_ONCE)] + [_line("olga", "x")]
    ran = cli("send", "--batch", "-", stdin="\n".join(lines))
    assert [len(asked.body["messages"]) for asked in kernel.of("POST", "/messages")] == [AT_ONCE, 1]
    assert f"line {AT_ONCE + 1}: " in ran.err
    kernel.asked.clear()
    cli("send", "--batch", "-", stdin="\n".join(_line("alice", "x" * 250_000) for _ in range(20)))
    assert [len(asked.body["messages"]) for asked in kernel.of("POST", "/messages")] == [8, 8, 4]


@pytest.mark.promise("P2")
def test_a_batch_is_asked_again_with_its_key_when_the_kernel_goes_away(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = in_turn(None, _taken)
    assert cli("send", "--batch", "-", stdin=_line("alice", "a")).out == "m-a i1\n"
    first, second = kernel.of("POST", "/messages")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize(
    "line",
    ["", "hi", "[]", "3", '{"to": "a"}', '{"to": "a", "text": 3}', '{"to": "a", "text": "b", "x": "y"}', "[" * 9000],
)
def test_a_line_that_is_no_message_ends_the_batch_there(line: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = _taken
    ran = cli("send", "--batch", "-", stdin=f"{_line('alice', 'a')}\n{line}\n{_line('alice', 'b')}\n")
    assert (ran.code, ran.out) == (2, "m-a i1\n")
    assert "error: line 2 is not a message" in ran.err
    assert "earlier messages were sent" in ran.err


def test_lines_that_are_no_text_are_a_usage_error(cli: Cli, kernel: KernelDouble) -> None:
    (cli.root / "lines").write_bytes(b'{"to": "alice", "text": "\xff"}\n')
    ran = cli("send", "--batch", str(cli.root / "lines"))
    assert (ran.code, kernel.of("POST", "/messages")) == (2, [])
    assert "error: line 1 is not a message" in ran.err


@pytest.mark.parametrize("words", ["send alice -", "doc write @main a.md -", "doc append @main a.md -"])
def test_a_text_that_no_kernel_takes_is_refused_before_one_is_asked(words: str, cli: Cli, kernel: KernelDouble) -> None:
    """Fault F11: 71 s, and then a broken pipe."""
    ran = cli(*words.split(), stdin="x" * (BODY_LIMIT_BYTES + 1))
    assert (ran.code, "the text is longer than 4,194,304 bytes" in ran.err) == (2, True), ran.err
    assert [asked.path for asked in kernel.asked if asked.path != "/health"] == []
