"""Commands that read: the kernel's document passed on, or text for people."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from interface.cli.commands import status
from interface.cli.exits import of_failure
from interface.cli.output import Screen
from protocol.api.instructions import AskedApproval, QueueReport, QueueRow
from protocol.api.kernel import UsageGroup
from protocol.api.messages import Channel
from protocol.api.processes import Ps
from protocol.instruction import Usage
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import Asked, KernelDouble, Stream, problem, sse
from tests.interface.samples import (
    AT,
    READS,
    VOTE,
    event,
    instruction,
    message,
    message_event,
    ps_row,
    read_answers,
    report,
)

ALL_HOSTILE = " ".join(HOSTILE).encode("utf-8", "replace").decode()
"""As it can come over the wire: JSON has no lone surrogates."""
every_read = pytest.mark.parametrize(("words", "route"), [(words.split(), route) for words, route in READS.items()])


@every_read
def test_json_is_the_kernels_own_document(words: list[str], route: str, cli: Cli, kernel: KernelDouble) -> None:
    document = json.loads(msgspec.json.encode(read_answers("text")[route])) | {"later": [1]}
    kernel.answers[route] = document
    ran = cli(*words, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json() == document


@every_read
def test_text_on_a_pipe_is_plain_and_whole(words: list[str], route: str, cli: Cli, kernel: KernelDouble) -> None:
    long = "word " * 38 + "end"
    kernel.answers |= read_answers(long)
    ran = cli(*words)
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    if route not in ("GET /agents/alice/queue", f"POST {VOTE}/vote"):  # which say nothing of an agent
        assert long in ran.out


@pytest.mark.promise("P16")
@every_read
def test_hostile_text_is_shown_and_not_obeyed(words: list[str], route: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers(ALL_HOSTILE)
    cli.environ["NO_COLOR"] = "1"
    for more, terminal in (([], False), ([], True), (["--json"], True)):
        ran = cli(*words, *more, terminal=terminal)
        assert ran.code == 0
        assert obeyed(ran.out + ran.err) == []


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_in_a_refusal_is_not_obeyed(text: str, cli: Cli, kernel: KernelDouble) -> None:
    safe = text.encode("utf-8", "replace").decode()
    error = {"path": safe, "line": 1, "column": 2, "where": safe, "message": safe, "hint": safe, "source": safe}
    kernel.answers["GET /ps"] = problem(422, "bad_definition", safe, hint=safe, errors=[error])
    ran = cli("ps")
    assert ran.code == 78
    assert obeyed(ran.err) == []


def test_a_mistake_in_a_file_is_shown_with_its_place(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: error, at file:line:col path with the line and a caret, hint."""
    error = {
        "path": ".workflows/review.yaml", "line": 14, "column": 10, "where": "agents.bob.ref",
        "message": "no agent 'bobb'", "hint": "did you mean 'bob'?", "source": "    ref:\tbobb",
    }  # fmt: skip
    kernel.answers["GET /ps"] = problem(422, "bad_definition", "review.yaml has a mistake", errors=[error])
    assert cli("ps").err.splitlines() == [
        "error: review.yaml has a mistake",
        "  at .workflows/review.yaml:14:10 agents.bob.ref: no agent 'bobb'",
        "        ref: bobb",
        "             ^",
        "  hint: did you mean 'bob'?",
    ]


def test_the_process_table_says_what_runs(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /ps"] = Ps(
        agents=(ps_row(age_s=1200.0, step_age_s=900.0), ps_row("bob", "", space=None, state="idle", pid=None))
    )
    header, alice, bob = cli("ps").out.splitlines()
    assert header.split() == [
        "NAME", "STATE", "AGE", "DOING", "QUEUE", "COST$", "SILENT", "STEP", "STATUS", "PID", "BACKEND", "MODEL",
        "RESTARTS", "EXIT", "CPU%", "RSS", "TOKENS", "DIFF", "TASKS", "LAST",
    ]  # fmt: skip
    assert alice.startswith("alice@review:main  running (reads)  20m  reads 15m  0/0/0")
    assert bob.split()[:3] == ["bob", "idle", "-"]


def test_a_terminal_gets_what_fits(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: COLUMNS is honoured; colour only on a terminal, and not with NO_COLOR."""
    cli.environ |= {"COLUMNS": "40", "NO_COLOR": "1"}
    kernel.answers |= read_answers("reads")
    assert max(map(len, cli("ps", terminal=True).out.splitlines())) <= 40, "only whole columns"
    del cli.environ["NO_COLOR"]
    assert "\x1b[1m" in cli("ps", terminal=True).out
    cli.environ["CI"] = "true"
    assert "\x1b" not in cli("ps", terminal=True).out


def test_wide_characters_keep_columns_straight(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /ps"] = Ps(agents=(ps_row(text="审查代码"), ps_row(text="abcdefgh")))
    first, second = (line.split("0/0/0")[0] for line in cli("ps").out.splitlines()[1:])
    assert len(first) + 8 == len(second), "four wide characters in each of two columns"


def test_many_idle_agents_are_one_line_and_the_others_are_all_listed(cli: Cli, kernel: KernelDouble) -> None:
    """-a, a target, --sort and -q list each."""
    rows = (ps_row("bob", state="error"), *(ps_row(f"a{n}", state="idle") for n in range(95)))
    kernel.answers["GET /ps"] = kernel.answers["GET /ps?all=true"] = Ps(agents=rows)
    header, bob, folded = cli("ps").out.splitlines()
    assert (header.split()[0], bob.split()[0], folded) == ("NAME", "bob@review:main", "95 idle (awk ps -a lists them)")
    assert [len(cli("ps", *words).out.splitlines()) for words in (["-a"], ["@review"], ["-q"])] == [97, 97, 96]
    kernel.answers["GET /ps"] = Ps(agents=rows[:11])
    assert len(cli("ps").out.splitlines()) == 12
    kernel.answers["GET /ps"] = Ps(agents=rows[:1], idle=9_999)
    assert cli("ps").out.splitlines()[-1] == "9,999 idle (awk ps -a lists them)"
    asked = [one.query for one in kernel.of("GET", "/ps")]
    assert asked == [{"idle": "10"}, {"all": "true"}, {}, {}, {"idle": "10"}, {"idle": "10"}]


def test_facts_that_people_do_not_read_are_left_out(cli: Cli, kernel: KernelDouble) -> None:
    said = (message(1, "a\nb", to=("bob",)), message(2, "x", kind="done"), message(3, "@bob y", "system", to=("bob",)))
    kernel.answers["GET /spaces/review:main/channel"] = Channel(space="review:main", messages=said)
    assert cli("channel", "@review").out.splitlines() == ["alice -> bob: a", "  b", "system: @bob y"]


def test_the_channel_is_asked_for_as_many_as_were_wanted(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers("x")
    cli("channel", "@review", "-n", "3")
    assert kernel.of("GET", "/spaces/review:main/channel")[0].query == {"limit": "3"}
    assert cli("channel", "@review", "-n", "0").code == 0
    assert kernel.of("GET", "/spaces/review:main/channel")[1].query == {"limit": "1000"}


def test_an_agents_part_of_a_channel(cli: Cli, kernel: KernelDouble) -> None:
    said = (message(1, "1", "alice"), message(2, "@alice 2", "bob"))
    kernel.answers["GET /spaces/review:main/channel"] = Channel(space="review:main", messages=said, total=2)
    shown = cli("peek", "alice@review", "--json").json()["messages"]
    assert [m["text"] for m in shown] == ["1", "@alice 2"]
    assert kernel.of("GET", "/spaces/review:main/channel")[-1].query == {"limit": "50", "agent": "alice"}


def test_peek_without_a_target_takes_the_only_one(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers("hello")
    row = {"name": "review", "tag": "main", "state": "running", "members": [], "started_at": AT}
    kernel.answers["GET /workflows"] = {"workflows": [row]}
    assert "hello" in cli("peek").out
    assert len(kernel.of("GET", "/spaces/review:main/channel")) == 1
    kernel.answers["GET /workflows"] = {"workflows": [row, {**row, "tag": "pr-1"}]}
    ran = cli("peek")
    assert (ran.code, "@review, @review:pr-1" in ran.err) == (2, True)


def test_an_agent_inside_a_workflow_is_named_by_its_target(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /agents/alice@review:main/queue"] = {"agent": "alice", "instructions": []}
    assert cli("queue", "alice@review").out == "no queued instructions of alice\n"


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ([], {}),
        (["alice"], {"agent": "alice"}),
        (["@review:pr-1"], {"space": "review:pr-1"}),
        (["bob@review"], {"space": "review:main", "agent": "bob"}),
    ],
    ids=str,
)
def test_what_work_took_is_asked_of_a_target(
    words: list[str], query: dict[str, str], cli: Cli, kernel: KernelDouble
) -> None:
    kernel.answers["GET /usage"] = read_answers("x")["GET /usage"]
    assert cli("stats", *words).code == 0
    assert kernel.of("GET", "/usage")[0].query == query


def test_work_over_a_time_is_asked_for_and_shown_by_what_it_is_parted_by(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: stats --by --since --until; the share that is done, and what a merged change cost."""
    sample = read_answers("x")["GET /usage"]
    row = UsageGroup(
        key={"day": "2026-11-01", "model": "m\n1"}, instructions=4, ended={"done": 3, "failed": 1}, success=0.75,
        retries=2, steps=9, usage=Usage(input_tokens=5, cost_usd=0.25), worked_seconds=1.5, unpriced=0, merges=None,
        cost_per_merge=None,
    )  # fmt: skip
    total = msgspec.structs.replace(row, key={}, merges=2, cost_per_merge=0.125)
    kernel.answers["GET /usage"] = msgspec.structs.replace(sample, groups=(row, total))
    told = cli("stats", "--by", "day,model", "--since", "2026-11-01", "--until", "2026-11-02T01:00:00+01:00")
    assert kernel.of("GET", "/usage")[0].query == {
        "by": "day,model", "since": "1793491200000", "until": "1793577600000"
    }  # fmt: skip
    header, first, last, merged = told.out.splitlines()
    assert header.split()[:5] == ["DAY", "MODEL", "ENDED", "DONE", "SUCCESS"]
    assert first.split()[0] == "2026-11-01"
    assert first.split()[-10:] == ["4", "3", "75%", "2", "9", "5", "0", "0", "0.2500", "1.5"]
    assert last.startswith("total")
    assert merged == "merged: 2, 0.1250 USD each"
    assert cli("stats", "--since", "2h").code == 0


def test_a_cost_nobody_knows_is_unknown_and_not_0(cli: Cli, kernel: KernelDouble) -> None:
    sample = read_answers("x")["GET /usage"]
    known = msgspec.structs.replace(sample.total, key="alice", usage=Usage(input_tokens=5, cost_usd=0.25))
    free = msgspec.structs.replace(sample.total, key="bob", unpriced=0)
    kernel.answers["GET /usage"] = msgspec.structs.replace(sample, rows=(known, sample.total, free), models=())
    agents, workspaces = cli("stats").out.split("\n\n")
    header, first, *others = (line.split() for line in agents.splitlines())
    assert header[-2:] == ["COST$", "SECONDS"]
    assert " ".join(first) == "alice 1 1 0 1 0 0 2 5 0 0 0.2500+? 1.3"
    assert [(line[0], line[-2]) for line in others] == [("x", "unknown"), ("bob", "-"), ("total", "unknown")]
    assert workspaces.startswith("WORKSPACE")


def test_what_work_took_fits_on_80_columns_without_the_outcomes_that_nothing_had(cli: Cli) -> None:
    sample = read_answers("x")["GET /usage"]
    usage = Usage(input_tokens=123_456, output_tokens=12_345, cache_read_tokens=1_234_567, cost_usd=12.3456)
    row = msgspec.structs.replace(sample.total, key="reviewer", usage=usage, ended={"done": 3}, instructions=3)
    body = msgspec.json.encode(msgspec.structs.replace(sample, rows=(row, row), workflows=(), models=(), total=row))
    header, first, *_ = status.stats_lines(body, Screen(False, 80))
    assert header.split() == ["AGENT", "DONE", "STEPS", "IN", "OUT", "CACHE", "COST$", "SECONDS"]
    assert (len(first) <= 80, "12.3456" in first, "…" in first) == (True, True, False)
    assert "CANCELLED" in status.stats_lines(body, Screen(False, 200))[0]
    assert "CANCELLED" in status.stats_lines(body, Screen())[0]


def test_status_says_down_and_starts_nothing(cli: Cli) -> None:
    ran = cli("status", "--json")
    assert ran.code == 3
    assert ran.json() == {"schema": "awk/status/1", "state": "down", "kernel": None, "agents": {}, "workflows": []}
    assert list(cli.home.iterdir()) == []


@pytest.mark.parametrize(("state", "code"), [("up", 0), ("degraded", 0), ("down", 3)])
def test_status_of_a_target_says_whether_that_runs(state: str, code: int, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: status [TARGET]; 3 not running."""
    kernel.answers["GET /status"] = msgspec.structs.replace(read_answers("x")["GET /status"], state=state)
    ran = cli("status", "bob@review")
    assert (ran.code, ran.out.startswith("not running\n" if state == "down" else state)) == (code, True)
    assert kernel.of("GET", "/status")[0].query == {"space": "review:main", "agent": "bob"}


def test_status_of_a_kernel_that_cannot_write_is_a_failure(cli: Cli, kernel: KernelDouble) -> None:
    answer = msgspec.structs.replace(
        read_answers("x")["GET /status"], state="degraded", storage="storage_full", notice="the disk is full"
    )
    kernel.answers["GET /status"] = answer
    ran = cli("status")
    assert ran.code == 1
    assert "the disk is full" in ran.out


EVENTS = [
    event("kernel.started", 1, at="2020-01-01T00:00:00.000Z", data={"pid": 1}),
    message_event(2, message(1, "hi\x1b[1m")),
    event(
        "attempt.ended",
        3,
        agent="alice",
        space="dm:alice",
        data={"attempt": "i7-1", "exit": "SIGKILL", "stderr": "boom"},
    ),
    event("attempt.ended", 4, agent="bob@review:main", space="review:main", data={"outcome": "crash"}),
]


def _history() -> Stream:
    return Stream([b": ping\n\n", *(sse(e["type"], e, e["seq"]) for e in EVENTS), sse("bye", event("bye"))])


def test_events_are_one_object_a_line(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 9: events --jsonl, all that is kept, and the end of the stream is no event."""
    kernel.answers["GET /events"] = _history()
    ran = cli("events", "--jsonl")
    assert (ran.code, ran.jsonl()) == (0, EVENTS)
    assert kernel.of("GET", "/events")[0].query == {"since": "0", "follow": "0"}


def test_events_can_be_those_of_the_last_minutes(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /events"] = _history()
    assert [e["seq"] for e in cli("events", "--jsonl", "--since", "800d").jsonl()] == [2, 3, 4]


def test_logs_leave_the_conversation_out(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /events"] = lambda asked: _history()
    assert [e["seq"] for e in cli("logs", "--jsonl").jsonl()] == [1, 3, 4]
    assert [e["seq"] for e in cli("logs", "alice", "--jsonl").jsonl()] == [3]
    assert [e["seq"] for e in cli("logs", "bob@review", "--jsonl").jsonl()] == [4]
    assert kernel.of("GET", "/events")[-1].query["space"] == "review:main"
    kernel.answers |= {"GET /agents/alice": {}, "GET /spaces/review:main/members": {"members": []}}
    assert [e["seq"] for e in cli("logs", "alice", "bob@review", "--jsonl").jsonl()] == [3, 4]
    assert "space" not in kernel.of("GET", "/events")[-1].query
    assert cli("logs", "alice").out == f"{AT} attempt.ended dm:alice alice attempt=i7-1 exit=SIGKILL stderr=boom\n"


def _told(*told: tuple[str, str | None, str | None]) -> Stream:
    made = [
        event(
            kind, seq, agent="alice", space="dm:alice", instruction=work, data={"attempt": attempt} if attempt else {}
        )
        for seq, (kind, work, attempt) in enumerate(told, 1)
    ]
    return Stream([*(sse(e["type"], e, e["seq"]) for e in made), sse("bye", event("bye"))])


ATTEMPTS: list[tuple[str, str | None, str | None]] = [
    ("instruction.queued", "i7", None),
    ("instruction.leased", "i7", "i7-1"),
    ("attempt.ended", "i7", "i7-1"),
    ("kernel.started", None, None),
    ("instruction.leased", "i7", "i7-2"),
    ("instruction.queued", "i8", None),
    ("instruction.step", "i7", None),
    ("attempt.ended", "i7", "i7-2"),
    ("instruction.queued", "i7", None),
    ("kernel.started", None, None),
    ("instruction.leased", "i7", "i7-3"),
    ("instruction.step", "i7", None),
]


def test_the_log_of_what_ended_is_shown_without_what_runs(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: logs --previous: the last attempt that ended; without a target the kernel before this one."""
    kernel.answers["GET /events"] = lambda asked: _told(*ATTEMPTS)
    assert [e["seq"] for e in cli("logs", "alice", "--previous", "--jsonl").jsonl()] == [5, 7, 8, 9]
    assert [e["seq"] for e in cli("logs", "--previous", "--jsonl").jsonl()] == [4, 5, 6, 7, 8, 9]


def test_nothing_that_ended_is_no_mistake(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /events"] = lambda asked: _told(*ATTEMPTS[:2])
    kernel.answers["GET /agents/alice"] = {}
    assert (cli("logs", "alice", "--previous").code, cli("logs", "--previous").out) == (0, "")
    assert cli("logs", "olga", "--previous").code == 5


@every_read
def test_a_document_of_another_shape_is_an_error_and_not_a_crash(
    words: list[str], route: str, cli: Cli, kernel: KernelDouble
) -> None:
    """A kernel of another version: the traceback is for -vv only."""
    kernel.answers[route] = {"schema": 1, "agents": 3, "instructions": 3, "providers": 3, "backends": 3, "messages": 3}
    ran = cli(*words)
    assert "Traceback" not in ran.err
    assert (ran.code, ran.err[:6]) in ((1, "error:"), (0, ""))


def _imported(cli: Cli, kernel: KernelDouble, *words: str) -> set[str]:
    kernel.answers |= read_answers("x")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "interface", "awk", "", *words],
        check=False, cwd=cli.root, env=cli.environ, capture_output=True, timeout=20,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    loaded = {line.split(b"|")[2].strip().decode() for line in done.stderr.splitlines() if line.count(b"|") == 2}
    assert "interface.cli.main" in loaded
    assert not {name for name in loaded if name.startswith("kernel")}
    return loaded


@pytest.mark.parametrize("words", [("ps", "--json"), ("ps",), ("status", "--json"), ("status",)])
def test_the_fast_path_loads_no_heavy_module(words: tuple[str, ...], cli: Cli, kernel: KernelDouble) -> None:
    heavy = {
        "_hashlib", "argparse", "asyncio", "dataclasses", "email", "encodings.idna", "hashlib", "hmac", "http.client",
        "inspect", "msgspec", "pathlib", "rich", "ssl", "subprocess", "trio", "typing_extensions", "urllib.parse",
    }  # fmt: skip
    assert _imported(cli, kernel, *words) & heavy == set()


@pytest.mark.parametrize("words", [("send", "alice", "hi"), ("_complete", "instruction")], ids=["send", "completion"])
def test_frequent_commands_import_nothing_of_the_kernel(words: tuple[str, ...], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /messages"] = {"message_id": "m1", "instruction_ids": ["i7"]}
    _imported(cli, kernel, *words)


def test_one_mistake_in_a_file_is_told_once(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: the kernel's own line has place and hint in it, for those who see nothing else."""
    error = {
        "path": ".agents/a.yaml", "line": 2, "column": 1, "where": "modle", "message": "unknown key 'modle'",
        "hint": "did you mean model?", "source": "modle: x",
    }  # fmt: skip
    told = ".agents/a.yaml:2:1 modle: unknown key 'modle'"
    kernel.answers["GET /ps"] = problem(422, "bad_definition", told, hint="did you mean model?", errors=[error])
    assert cli("ps").err.splitlines() == [
        "error: modle: unknown key 'modle'",
        "  at .agents/a.yaml:2:1 modle",
        "    modle: x",
        "    ^",
        "  hint: did you mean model?",
    ]


def test_logs_tell_a_call_that_was_refused_from_one_that_was_run(cli: Cli, kernel: KernelDouble) -> None:
    ran = {"k": 1, "kind": "tool", "step": 1, "name": "write"}
    refused = {**ran, "k": 2, "is_error": True, "refused": "denied"}
    broken = {**ran, "k": 3, "is_error": True, "refused": None}
    told = [event("instruction.step", n, data=data) for n, data in enumerate((ran, refused, broken), 1)]
    kernel.answers["GET /events"] = Stream([sse("instruction.step", one, one["seq"]) for one in told])
    assert [line.partition("name=write")[2] for line in cli("logs").out.splitlines()] == [
        "",
        " is_error=true refused=denied",
        " is_error=true",
    ]


def test_what_no_run_is_called_is_said_in_the_words_that_were_typed(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /runs/foo:main"] = problem(404, "not_found", "there is no run 'foo:main'")
    ran = cli("show", "foo")
    told = "error: no run, instruction or workflow named 'foo'\n  hint: list runs: awk runs\n"
    assert (ran.code, ran.err) == (of_failure("not_found", 404), told)
    kernel.answers["GET /runs/bar:main"] = problem(403, "forbidden", "not with this token")
    assert "not with this token" in cli("show", "bar").err


def test_a_shown_instruction_names_the_calls_that_failed(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /instructions/i7"] = instruction(text="was not run:\nno")
    assert "calls that failed:\n  step 1  was not run: no  denied: was not run: no\n" in cli("show", "i7").out


@pytest.mark.parametrize(
    ("state", "heard", "standing", "said"),
    [
        ("granted", False, "runnable", "granted, not run yet: no attempt has heard of it"),
        ("granted", False, "ended", "granted, never run"),
        ("granted", True, "runnable", "granted"),
        ("open", False, "person", "open"),
        ("denied", False, "runnable", "denied"),
    ],
)
def test_a_shown_instruction_names_what_was_asked_for_and_what_of_it_has_not_run(
    cli: Cli, kernel: KernelDouble, state: Any, *, heard: bool, standing: Any, said: str
) -> None:
    asked = AskedApproval(id="a1", tool="Bash", state=state, heard=heard, requested_at=AT)
    shown = msgspec.structs.replace(instruction(standing=standing), approvals=(asked,))
    kernel.answers["GET /instructions/i7"] = shown
    assert f"\napprovals:\n  a1  Bash  {said}\n" in cli("show", "i7").out
    kernel.answers["GET /instructions/i7"] = msgspec.structs.replace(shown, approvals=(asked,) * 23)
    assert "\napprovals:\n  3 earlier ones: --json lists them\n" in cli("show", "i7").out


def test_logs_of_a_name_that_nobody_has_are_an_error(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: exit 5; silence would look like an agent that did nothing."""
    kernel.answers |= {
        "GET /events": Stream([]),
        "GET /agents/nobody": problem(404, "unknown_agent", "there is no agent 'nobody'"),
        "GET /spaces/nope:main/members": problem(404, "workflow_not_running", "nothing was ever started"),
        "GET /agents/alice": {},
    }
    assert [cli("logs", name).code for name in ("nobody", "@nope", "alice")] == [5, 5, 0]


def queued(first: int, count: int) -> tuple[QueueRow, ...]:
    return tuple(
        QueueRow(id=f"i{n}", lane="normal", status="queued", attempt=0, step=0, preempted=0, enqueued_at=AT)
        for n in range(first, first + count)
    )


def test_a_list_says_what_it_leaves_out_and_gives_all_of_it_for_0(cli: Cli, kernel: KernelDouble) -> None:
    """1,000 of 1,497 on stderr; with --json in total and next; -n 0 asks until nothing is left."""

    def answer(asked: Asked) -> QueueReport:
        if asked.query.get("after") == "i1000":
            return QueueReport(agent="alice", instructions=queued(1001, 497), total=1497)
        limit = int(asked.query["limit"])
        return QueueReport(agent="alice", instructions=queued(1, limit), total=1497, next=f"i{limit}")

    kernel.answers["GET /agents/alice/queue"] = answer
    shown = cli("queue", "alice")
    assert (len(shown.out.splitlines()), shown.err) == (1001, "1,000 of 1,497 (-n 0 for all)\n")
    some = cli("queue", "alice", "-n", "2", "--json").json()
    assert ([row["id"] for row in some["instructions"]], some["total"], some["next"]) == (["i1", "i2"], 1497, "i2")
    whole = cli("queue", "alice", "-n", "0")
    assert (len(whole.out.splitlines()), whole.err) == (1498, "")
    document = cli("queue", "alice", "-n", "0", "--json").json()
    assert (document["next"], len({row["id"] for row in document["instructions"]})) == (None, 1497)


def test_older_messages_come_before_newer_ones_however_many_answers_they_take(cli: Cli, kernel: KernelDouble) -> None:
    def answer(asked: Asked) -> Channel:
        if "before" in asked.query:
            return Channel(space="dm:alice", messages=(message(1, "old", "user"),), total=3)
        rest = (message(2, "newer", "user"), message(3, "newest", "user"))
        return Channel(space="dm:alice", messages=rest, total=3, next="2")

    kernel.answers["GET /spaces/dm:alice/channel"] = answer
    assert [m["text"] for m in cli("peek", "alice", "-n", "0", "--json").json()["messages"]] == [
        "old",
        "newer",
        "newest",
    ]
    assert cli("peek", "alice", "-n", "2").err == "2 of 3 (-n 0 for all)\n"


def test_runs_are_asked_for_by_workflow_status_and_age(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers("done")
    assert cli("runs", "@review").code == cli("runs", "@review:pr-1", "--status", "failed", "-n", "3").code == 0
    first, second = [asked.query for asked in kernel.of("GET", "/runs")]
    assert first == {"workflow": "review", "limit": "100"}
    assert second == {"workflow": "review", "tag": "pr-1", "status": "failed", "limit": "3"}
    assert int(cli("runs", "--since", "2h").code) == 0
    assert kernel.of("GET", "/runs")[-1].query["since"].isdecimal()


@pytest.mark.parametrize(
    ("flags", "told"), [((), "no memory queries\n"), (("--agent", "alice"), "no memory queries from or to alice (list")]
)
def test_an_audit_of_one_agent_that_finds_nothing_says_so_of_that_one(
    flags: tuple[str, ...], told: str, cli: Cli, kernel: KernelDouble
) -> None:
    kernel.answers["GET /audit"] = {"rows": [], "total": 0, "next": None}
    ran = cli("audit", *flags)
    assert (ran.code, ran.out.startswith(told)) == (0, True)


def test_ps_and_show_take_several_targets(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers("x") | {"GET /runs/r12": report()}
    assert cli("ps", "alice@review", "bob", "-q").out.splitlines() == ["alice@review:main", "bob"]
    assert cli("ps", "bob", "-q").out == "bob\n"
    ran = cli("ps", "bob", "nobody")
    assert (ran.code, ran.err.splitlines()[0]) == (5, "error: agent nobody not found")
    first, second = cli("show", "r12", "i7", "--json").jsonl()
    assert (first["id"], second["id"]) == ("r12", "i7")
    assert "r12 review:main done" in (shown := cli("show", "r12", "i7").out) and "\ni7\n" in shown


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["run", "w", "--reprot", "github"], "--report"),
        (["status", "--jsn"], "--json"),
        (["task", "list", "@w", "--stat", "done"], "--state"),
        (["send", "alice", "hi", "--wiat"], "--wait"),
    ],
)
def test_a_misspelled_flag_is_told_what_is_meant(words: list[str], meant: str, cli: Cli) -> None:
    ran = cli(*words)
    assert (ran.code, f"did you mean {meant}?" in ran.err) == (2, True)
    assert "did you mean" not in cli(*(word for word in words if not word.startswith("--")), "--zzz").err
