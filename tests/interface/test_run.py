"""run: followed to its end through whatever happens, reported once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from protocol.api.runs import DiffReport, DiffStat, RunReport, WorktreeDiff
from tests.interface.conftest import AWK, Cli
from tests.interface.kernel_double import PING, Asked, KernelDouble, Stream, in_turn, problem, sse
from tests.interface.samples import event, message, message_event, report

ACCEPTED = sse("accepted", {"run": "review:main", "seq": 3})
SAID = sse("message", message_event(4, message(1, "@coder fix\nthis", "reviewer")), 4)
STEP = sse("instruction.step", event("instruction.step", 5, agent="reviewer", data={"step": 1, "kind": "reply"}), 5)
STOPPED = sse("workflow.stopped", event("workflow.stopped", 9, space="review:main"), 9)


def _result(body: RunReport | None = None) -> bytes:
    return sse("result", body or report())


def test_the_conversation_goes_to_stdout_and_the_summary_to_stderr(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: results on stdout, everything else on stderr; without --json the conversation is the result."""
    kernel.answers["POST /run"] = Stream([PING, ACCEPTED, SAID, STEP, _result()])
    ran = cli("run", "review")
    assert ran.out == "reviewer: @coder fix\n  this\n"
    assert ran.err == "r12 review:main done in 1.2 s; instructions: 2 done; 1,200 tokens in, 30 out\n"
    assert ran.code == 0


def test_why_work_failed_is_said_beside_the_conversation(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: who runs it reads what a setup command printed, and not its cause alone."""
    text = "workspace.setup[0] of coder failed: exit code 3: npm ci (it said:\nno such package)"
    data = {"status": "failed", "cause": "spawn_permanent", "text": text}
    ended = event("instruction.ended", 5, agent="coder", instruction="i1", data=data)
    kernel.answers["POST /run"] = Stream([ACCEPTED, sse("instruction.ended", ended, 5), _result()])
    assert f"error: coder: i1 failed: {text}\n" in cli("run", "review").err


@pytest.mark.parametrize("commits", [0, 1])
def test_working_trees_are_told_of_where_something_is_in_them(commits: int, cli: Cli, kernel: KernelDouble) -> None:
    branches = {"coder": "awk/review/main/coder"}
    kernel.answers["POST /run"] = Stream([ACCEPTED, _result(msgspec.structs.replace(report(), branches=branches))])
    tree = WorktreeDiff(
        agent="coder", state="made", branch=branches["coder"], base="0", path="/t", stat=DiffStat(commits=commits)
    )
    kernel.answers["GET /spaces/review:main/diff"] = DiffReport(space="review:main", worktrees=(tree,))
    assert ("awk diff r12" in cli("run", "review").err) == bool(commits)


def test_verbose_tells_the_steps(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = Stream([ACCEPTED, SAID, STEP, _result()])
    assert "instruction.step reviewer step=1 kind=reply" in cli("run", "review", "-v").err


def test_what_was_asked_reaches_the_kernel(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = Stream([ACCEPTED, _result()])
    cli(
        "run", "review", "--tag", "pr-1", "--timeout", "1m30s", "--trust", "--max-cost", "$0.5", "--max-tokens",
        "5000", "--exit-code-from", "coder", "--", "--depth", "3", "--", "x",
    )  # fmt: skip
    cli.environ["AGENT_WORKER_TRUST"] = "1"
    cli("run", "review", "--instance", "pr-2")
    first, second = (asked.body for asked in kernel.of("POST", "/run"))
    assert first == {
        "workflow": "review", "tag": "pr-1", "params": ["--depth", "3", "--", "x"], "timeout_seconds": 90.0,
        "max_cost_usd": 0.5, "max_tokens": 5000, "exit_code_from": "coder", "approve": None, "attended": False,
        "trust": True,
    }  # fmt: skip
    unlimited = {"timeout_seconds": None, "max_cost_usd": None, "max_tokens": None, "exit_code_from": None}
    alone = {"approve": None, "attended": False}
    assert second == {"workflow": "review", "tag": "pr-2", "params": [], "trust": True, **unlimited, **alone}


def test_a_run_that_must_not_fail_its_caller_ends_with_0(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: --fail-on never; the report says how it ended all the same, and what was never begun still fails."""
    kernel.answers["POST /run"] = Stream([ACCEPTED, _result(report(exit_code=6))])
    ran = cli("run", "review", "--json", "--fail-on", "never")
    assert (ran.code, ran.json()["exit_code"]) == (0, 6)
    assert cli("run", "review", "--fail-on", "error").code == 6
    kernel.answers["POST /run"] = problem(403, "untrusted", "no")
    assert cli("run", "review", "--fail-on", "never").code == 7


def test_lines_of_json_end_with_the_result(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: --jsonl, one object a line, the last {"type": "result"}."""
    kernel.answers["POST /run"] = Stream([PING, ACCEPTED, SAID, STEP, _result()])
    lines = cli("run", "review", "--jsonl").jsonl()
    assert [line["type"] for line in lines] == ["accepted", "message", "instruction.step", "result"]
    assert (lines[0]["run"], lines[-1]["run"]) == ("review:main", "review:main")


def test_a_run_that_is_refused(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = problem(422, "no_credentials", "no", hint="do this")
    ran = cli("run", "review")
    assert (ran.code, ran.err) == (4, "error: no\n  hint: do this\n")


def test_a_run_outlives_the_stream(cli: Cli, kernel: KernelDouble) -> None:
    later = sse("message", message_event(6, message(2, "later", "coder")), 6)
    states = [*[report(status="running")] * 3, report(exit_code=1)]
    kernel.answers |= {
        "POST /run": Stream([ACCEPTED, SAID, STEP], cut=True),
        "GET /events": in_turn(Stream([later], cut=True), Stream([PING, STOPPED])),
        "GET /runs/review:main": in_turn(*states),
    }
    ran = cli("run", "review", "--json")
    assert (ran.code, ran.json()["exit_code"]) == (1, 1)
    assert [line for line in ran.err.splitlines() if not line.startswith("note:")] == [
        "reviewer: @coder fix",
        "  this",
        "coder: later",
    ]
    asked = kernel.of("GET", "/events")
    assert [a.headers["last-event-id"] for a in asked] == ["5", "6"]
    assert asked[0].query == {"space": "review:main"}


def test_a_run_that_ended_while_nobody_listened_is_reported(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {
        "POST /run": Stream([ACCEPTED], cut=True),
        "GET /events": Stream([PING]),
        "GET /runs/review:main": report(),
    }
    assert cli("run", "review").code == 0
    assert kernel.of("GET", "/events")[0].headers["last-event-id"] == "3"


def test_a_run_that_was_not_accepted_is_no_kernel(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: exit 69; nothing is known to run."""
    kernel.answers["POST /run"] = Stream([PING], cut=True)
    ran = cli("run", "review")
    assert (ran.code, "before it accepted" in ran.err) == (69, True)


def test_a_detached_run_is_named_and_left(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {
        "POST /run": Stream([ACCEPTED, SAID, _result()]),
        "GET /runs/review:main": report(status="running"),
    }
    assert cli("run", "review", "--detach").out == "review:main\n"
    assert cli("run", "review", "--detach", "--json").json()["status"] == "running"


def test_a_file_is_named_from_the_projects_root(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 1: relative paths are the user's; the kernel sees those of the project."""
    kernel.answers["POST /run"] = Stream([ACCEPTED, _result()])
    (cli.root / "flows").mkdir()
    (cli.root / "flows" / "review.yaml").touch()
    below = Cli(root=cli.root / "flows", home=cli.home)
    assert below("run", "review.yaml").code == 0
    assert below("run", str(cli.root / "flows" / "review.yaml")).code == 0
    assert [asked.body["workflow"] for asked in kernel.of("POST", "/run")] == ["flows/review.yaml"] * 2


def test_a_file_that_is_not_there_or_not_ours_is_refused(cli: Cli, kernel: KernelDouble, tmp_path: Path) -> None:
    """contracts 1: a project's files stay inside it; and a name that fits is suggested."""
    (cli.root / ".workflows").mkdir()
    (cli.root / ".workflows" / "review.yaml").touch()
    ran = cli("run", "review.yaml")
    assert (ran.code, "awk run review" in ran.err) == (5, True)
    (tmp_path / "other.yaml").touch()
    assert cli("run", str(tmp_path / "other.yaml")).code == 2
    assert kernel.asked == []


def cancellable(kernel: KernelDouble, first: list[bytes]) -> list[Asked]:
    """A run that goes on until it is stopped; returns the list that the stop will be in."""
    stopped: list[Asked] = []

    def stop(asked: Asked) -> dict[str, str]:
        stopped.append(asked)
        return {"name": "review"}

    def pieces() -> Iterator[bytes]:
        yield from first
        while not stopped:
            yield PING

    kernel.answers |= {
        "POST /run": lambda asked: Stream(pieces()),
        "DELETE /workflows/review/main": stop,
        "GET /events": Stream([PING, STOPPED]),
        "GET /runs/review:main": report(status="cancelled", exit_code=130),
    }
    return stopped


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
@pytest.mark.parametrize("first", [[ACCEPTED, SAID], []], ids=["accepted", "still in setup"])
def test_a_signal_cancels_the_run_and_it_is_reported(
    first: list[bytes], number: signal.Signals, code: int, cli: Cli, kernel: KernelDouble
) -> None:
    """contracts 7: 130 or 143; the run is cancelled, the report still written."""
    stopped = cancellable(kernel, first)
    pipe = subprocess.PIPE
    heard = (  # what runs the tests may have it ignored, as nohup does
        f"import os, signal; signal.signal({int(number)}, signal.SIG_DFL)\n"
        f"os.execv({AWK[0]!r}, {[*AWK, 'run', 'review', '--json']!r})\n"
    )
    words = [sys.executable, "-c", heard]
    with subprocess.Popen(words, cwd=cli.root, env=cli.environ, stdout=pipe, stderr=pipe, text=True) as process:
        assert kernel.arrived.get(timeout=10).path == "/run"
        assert process.stderr is not None
        said = process.stderr.readline() if first else ""
        process.send_signal(number)
        try:
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, said) == (code, "reviewer: @coder fix\n" if first else "")
    assert '"status":"cancelled"' in out
    assert "Traceback" not in err
    name = number.name.removeprefix("SIG")
    assert [asked.query for asked in stopped] == [
        {"wait": "false"} if name == "INT" else {"wait": "false", "signal": name}
    ]


@pytest.mark.parametrize("together", [False, True], ids=["stdout", "stdout and stderr"])
def test_a_run_whose_reader_goes_away_does_not_go_on_alone(together: bool, cli: Cli, kernel: KernelDouble) -> None:
    """awk run | head -1: it would spend money that nobody knows of; 141 stays."""
    stopped = cancellable(kernel, [ACCEPTED, *[SAID] * 2000])
    read, write = os.pipe()
    error = write if together else subprocess.PIPE
    words = [*AWK, "run", "review"]
    with subprocess.Popen(words, cwd=cli.root, env=cli.environ, stdout=write, stderr=error) as process:
        os.close(write)
        os.read(read, 10)
        os.close(read)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, [asked.query for asked in stopped]) == (141, [{"wait": "false", "signal": "PIPE"}])
    assert b"Traceback" not in (err or b"")


def test_a_run_under_nohup_outlives_its_terminal(cli: Cli, kernel: KernelDouble) -> None:
    stopped = cancellable(kernel, [ACCEPTED, SAID])
    words, pipe = ["nohup", *AWK, "run", "review"], subprocess.PIPE
    with subprocess.Popen(words, cwd=cli.root, env=cli.environ, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert (process.returncode, len(stopped)) == (143, 1)


def test_a_run_that_is_interrupted_during_its_setup_had_not_begun(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {
        "POST /run": lambda asked: Stream(PING for _ in iter(int, 1)),
        "DELETE /workflows/review/main": problem(404, "workflow_not_running", "not running"),
    }
    words, pipe = [*AWK, "run", "review"], subprocess.PIPE
    with subprocess.Popen(words, cwd=cli.root, env=cli.environ, stdout=pipe, stderr=pipe, text=True) as process:
        assert kernel.arrived.get(timeout=10).path == "/run"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err.splitlines()[-1]) == (130, "note: review:main was cancelled before it started")
