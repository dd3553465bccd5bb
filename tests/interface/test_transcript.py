"""What an agent did, on a terminal: whole, bounded, and nothing of its own making."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interface.cli.output import Output, Screen
from interface.cli.run_progress import HEARTBEAT_SECONDS, RunProgress, Working
from interface.cli.transcript_view import LINES, entry_lines
from interface.clock import Clock
from tests.interface.conftest import Cli, Terminal
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble, Stream, sse
from tests.interface.samples import AT, event, report

PLAIN = Screen()
anything = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("".join(HOSTILE))))


def entry(n: int = 1, kind: str = "tool", **more: Any) -> dict[str, Any]:
    made = {
        "n": n, "attempt": 1, "at": AT, "kind": kind, "text": None, "calls": [], "tool": None, "input": None,
        "output": None, "is_error": False, "duration_ms": None, "usage": None,
    }  # fmt: skip
    return {**made, **more}


USAGE = {
    "input_tokens": 1200, "output_tokens": 30, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": 0.0123,
}  # fmt: skip
REPLY = entry(
    1, "reply", text="I look.", duration_ms=1234, usage=USAGE, calls=[{"tool": "bash", "input": {"command": "ls"}}]
)
CALL = entry(2, tool="bash", input={"command": "ls", "all": True}, output="a\nb\n", duration_ms=400)


def page(*entries: dict[str, Any], total: int | None = None, next: str | None = None) -> dict[str, Any]:
    count = len(entries) if total is None else total
    return {
        "schema": "awk/entries/1", "total": count, "next": next, "id": "i7", "agent": "alice", "entries": list(entries),
    }  # fmt: skip


def test_steps_are_shown_with_calls_results_time_and_cost(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /instructions/i7/entries"] = page(REPLY, CALL)
    assert cli("show", "i7", "--steps").out.splitlines() == [
        f"#1  {AT}  reply  1.2 s  1,200 tokens in, 30 out, $0.0123",
        "    I look.",
        f"#2  {AT}  bash  0.4 s",
        "    > command: ls",
        "    > all: true",
        "    < a",
        "    < b",
    ]


def test_all_pages_are_shown_and_a_limit_is_told(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 4: next goes into after; a list never ends silently."""
    pages = {None: page(REPLY, total=2, next="1"), "1": page(CALL, total=2)}
    kernel.answers["GET /instructions/i7/entries"] = lambda asked: pages[asked.query.get("after")]
    ran = cli("show", "i7", "--steps", "--json")
    assert ([one["n"] for one in ran.json()["entries"]], ran.json()["next"], ran.err) == ([1, 2], None, "")
    ran = cli("show", "i7", "--steps", "-n", "1")
    assert ("#2" in ran.out, ran.err) == (False, "1 of 2 (-n 0 for all)\n")


def test_a_call_that_never_came_back_is_shown(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /instructions/i7/entries"] = page(REPLY)
    assert cli("show", "i7", "--steps").out.splitlines()[-2:] == [
        "bash  (its outcome is not known)",
        "    > command: ls",
    ]


def test_a_call_that_waits_for_an_approval_says_so(cli: Cli, kernel: KernelDouble) -> None:
    found = page({**REPLY, "calls": 2 * REPLY["calls"]}) | {"pending": {"bash": "a1", "write": "a2"}}
    kernel.answers["GET /instructions/i7/entries"] = found
    told = [line for line in cli("show", "i7", "--steps").out.splitlines() if line.startswith("bash")]
    assert told == ["bash  waits for approval a1", "bash  (its outcome is not known)"]


def test_long_arguments_and_results_are_cut_and_say_so() -> None:
    """At 40 lines each, and a line that has no end; --full shows all."""
    long = "\n".join(f"line {n}" for n in range(100))
    made = entry(tool="write", input={"text": long}, output=long + "\n" + "x" * 5000)
    cut, full = entry_lines(made, PLAIN), entry_lines(made, PLAIN, full=True)
    assert len(cut) == 1 + 2 * (LINES + 1)
    assert [line for line in cut if "more lines" in line] == [
        "    > [61 more lines: awk show --steps --full]",
        "    < [61 more lines: awk show --steps --full]",
    ]
    assert len(full) == 1 + 101 + 101
    assert full[-1] == "    < " + "x" * 5000
    assert entry_lines(entry(tool="t", output="x" * 5000), PLAIN)[-1].endswith("x [3,000 more characters]")


@pytest.mark.promise("P16", "P31")
@given(anything, anything)
def test_nothing_an_agent_says_moves_the_cursor_or_passes_for_a_line_of_ours(text: str, name: str) -> None:
    told = [entry(1, "reply", text=text), entry(2, tool=name, input={name: text, "list": [text]}, output=text)]
    for made in told:
        for full in (False, True):
            head, *body = entry_lines(made, PLAIN, full=full)
            assert head.startswith(f"#{made['n']}") and obeyed(head, allowed="") == []
            assert all(line.startswith("    ") or not line for line in "\n".join(body).split("\n"))
            assert obeyed("".join(body), allowed="\t") == []


@pytest.mark.promise("P16", "P31")
def test_a_long_line_goes_on_behind_its_mark() -> None:
    forged = "x" * 76 + "#2  2026-11-22  bash  0.1 s"
    _, *body = entry_lines(entry(tool="t", input={"a\n#3": forged}, output=forged), Screen(width=80))
    assert len(body) == 4
    assert all(line.startswith("    ") and len(line) <= 80 for line in body)


def stepped(k: int, kind: str = "tool", seq: int = 5, **more: Any) -> dict[str, Any]:
    return event(
        "instruction.step", seq, agent="alice", instruction="i7", data={"k": k, "kind": kind, "step": 1, **more}
    )


STEPS = [
    sse("instruction.step", stepped(0, "reply", 5), 5),
    sse("worker.log", event("worker.log", 6, agent="alice", data={"level": "debug", "text": "psst"}), 6),
    sse("instruction.step", stepped(1, "tool", 7, name="bash", is_error=True), 7),
]


@pytest.fixture
def told(kernel: KernelDouble) -> KernelDouble:
    """A kernel that has these steps."""
    kernel.answers["GET /events"] = lambda asked: Stream(list(STEPS))
    pages = {"0": page(REPLY), "1": page(CALL)}
    kernel.answers["GET /instructions/i7/entries"] = lambda asked: pages[asked.query["after"]]
    return kernel


def test_logs_show_the_last_lines_and_what_is_grave(cli: Cli, told: KernelDouble) -> None:
    assert len(told.asked) == 0
    last = cli("logs", "-n", "1")
    assert ([line.split()[1] for line in last.out.splitlines()], last.err) == (
        ["instruction.step"],
        "1 of 3 (-n 0 for all)\n",
    )
    assert len(cli("logs", "-n", "0").out.splitlines()) == 3
    assert len(cli("logs", "--level", "info").out.splitlines()) == 2
    assert "is_error=true" in cli("logs", "--level", "warning").out
    assert cli("logs", "--level", "error").out == ""


def test_verbose_logs_and_runs_show_the_same_lines(cli: Cli, told: KernelDouble) -> None:
    told.answers["POST /run"] = Stream(
        [sse("accepted", {"run": "review:main", "seq": 3}), *STEPS, sse("result", report())]
    )
    wanted = [*entry_lines(REPLY, PLAIN, who="alice i7 "), *entry_lines(CALL, PLAIN, who="alice i7 ")]
    logged = cli("logs", "-v").out.splitlines()
    ran = cli("run", "review", "-v").err.splitlines()
    assert [line for line in logged if "worker.log" not in line] == wanted
    assert [line for line in ran if "worker.log" not in line][:-1] == wanted


def test_attach_shows_text_as_it_is_written_and_calls_as_they_happen(cli: Cli, told: KernelDouble) -> None:
    def deltas() -> Iterator[bytes]:
        yield b": ping\n\n"
        for text in ("I ", "look."):
            yield sse("delta", event("delta", agent="alice", instruction="i7", data={"text": text}))
        yield sse("instruction.step", stepped(0, "reply", 5), 5)
        yield sse("progress", event("progress", agent="alice", instruction="i7", data={"what": "tool bash"}))
        yield sse("instruction.step", stepped(1, "tool", 7), 7)
        yield sse("bye", event("bye"))

    told.answers["GET /agents/alice"] = {}
    streams = iter([Stream(deltas())])
    told.answers["GET /events"] = lambda asked: next(streams, (404, {"code": "not_found", "title": "gone"}))
    ran = cli("attach", "alice")
    assert ran.out.splitlines() == [
        "alice i7 writes:",
        "    I look.",
        *entry_lines(REPLY, PLAIN, who="alice i7 ", said=False),
        "alice i7 runs bash",
        *entry_lines(CALL, PLAIN, who="alice i7 "),
    ]
    assert ran.code == 5, "it goes on with the next kernel, which refuses"


def no_pause(_seconds: float) -> None:
    """Nobody waits here."""


def test_who_works_is_known_from_events() -> None:
    working = Working()
    working.take(event("instruction.leased", 1, agent="alice", instruction="i7"), 10.0)
    working.take(event("attempt.started", 2, agent="alice", instruction="i7", data={"max_steps": 100}), 10.0)
    working.take(
        event(
            "instruction.step", 3, agent="alice", instruction="i7", data={"step": 3, "tokens": 1200, "cost_usd": 0.5}
        ),
        11.0,
    )
    working.take(event("progress", agent="alice", instruction="i7", data={"what": "tool bash"}), 12.0)
    assert working.lines(75.0) == ["alice  step 3/100  bash  1,200 tokens  $0.5000  1m05s"]
    working.take(event("instruction.ended", 4, agent="alice", instruction="i7"), 80.0)
    assert working.lines(80.0) == []


def test_off_a_terminal_a_run_says_every_30_seconds_that_it_lives() -> None:
    now = [0.0]
    err = Terminal()
    progress = RunProgress(Output(Terminal(), err, {}), Clock(lambda: now[0], lambda: 0.0, no_pause))
    progress.name = "review:main"
    progress.take(event("instruction.step", 3, agent="alice", instruction="i7", data={"step": 3}))
    for second in range(95):
        now[0] = float(second)
        progress.tick()
    assert err.written.splitlines() == [
        f"review:main runs for {shown}: alice  step 3  {shown}" for shown in ("30 s", "1m00s", "1m30s")
    ]
    assert HEARTBEAT_SECONDS == 30


def test_a_sign_of_life_says_what_the_run_has_used() -> None:
    """contracts 7: of all its work, also of what has ended; in CI on a terminal, too; at 30 s at the latest."""
    now = [0.0]
    err = Terminal(terminal=True)
    progress = RunProgress(Output(Terminal(), err, {"CI": "true"}), Clock(lambda: now[0], lambda: 0.0, no_pause))
    for name, data in (("i7", {"step": 2, "tokens": 1000, "cost_usd": 0.01}), ("i8", {"step": 1, "tokens": 234})):
        progress.take(event("instruction.step", 3, agent="alice", instruction=name, data=data))
    progress.take(event("instruction.ended", 4, instruction="i7", data={"status": "done"}))
    now[0] = 29.01
    progress.tick()
    assert err.written == "the run runs for 29 s, 1,234 tokens, $0.0100: alice  step 1  234 tokens  29 s\n"


@pytest.mark.promise("P16")
def test_on_a_terminal_the_lines_stand_below_a_clean_log() -> None:
    err = Terminal(terminal=True)
    out = Output(Terminal(), err, {"COLUMNS": "40"})
    with RunProgress(out, Clock(lambda: 0.0, lambda: 0.0, no_pause)) as progress:
        for name in ("alice", "bob\x1b[2J" + "x" * 100):
            progress.take(event("instruction.leased", 1, agent=name, instruction=f"i-{name}"))
        progress.tick()
        out.note("a line of the log")
        out.ask("yes or no? ")
        progress.tick()
        out.note("another")
    lines, cursor = [""], 0
    for command, written in re.findall(r"(\x1b\[1A|\x1b\[J|\n|)([^\x1b\n]*)", err.written):
        if command == "\x1b[1A":
            cursor -= 1
        elif command == "\x1b[J":
            lines[cursor:] = [""]
        elif command == "\n":
            cursor += 1
            lines[cursor:] = [*lines[cursor:], ""] if cursor == len(lines) else lines[cursor:]
        lines[cursor] += written
    shown = [line.rpartition("\r")[2] for line in lines]
    assert [line for line in shown if line] == ["a line of the log", "yes or no? another"]
    assert "\x1b[2J" not in err.written
    assert all(len(line) < 40 for line in err.written.replace("\r", "\n").split("\n") if "step" in line)


def test_recorded_requests_are_shown_as_they_were_with_escapes(cli: Cli, kernel: KernelDouble) -> None:
    told = {"n": 1, "attempt": 2, "at": AT, "model": "m1", "status": 200, "ms": 7}
    lost = {**told, "n": 2, "status": None, "request": {"model": "m1"}, "response": None}
    found = [{**told, "request": {"model": "m1"}, "response": "data: \x1b[31mred"}, lost]
    report = {"schema": "awk/wire/1", "id": "i7", "exchanges": found, "total": 2, "next": None}
    kernel.answers["GET /instructions/i7/wire"] = report
    assert cli("show", "i7", "--wire", "--json").json() == report
    shown = cli("show", "i7", "--wire").out
    assert "\x1b" not in shown and shown.count('"model": "m1"') == 2
    assert f"#1 attempt 2, {AT}, m1, status 200, 7 ms" in shown
    assert f"#2 attempt 2, {AT}, m1, no response, 7 ms" in shown


def test_where_nothing_was_recorded_the_key_is_named(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /instructions/i7/wire"] = {"schema": "awk/wire/1", "id": "i7", "exchanges": [], "total": 0}
    assert "recording: on" in cli("show", "i7", "--wire").out
    assert cli("show", "r7", "--wire").code == 2
    assert cli("show", "i7", "--wire", "--steps").code == 2
