"""run --report and --rm: checked before anything begins, done whatever comes of the run."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interface.autostart import Spawned, kernel_environment
from interface.discovery import find_project
from protocol.api.approvals import NeedList
from protocol.api.runs import DiffReport
from tests.interface.conftest import AWK, Cli
from tests.interface.kernel_double import PING, KernelDouble, Stream, problem, sse
from tests.interface.samples import instruction, message, need, report, worktree
from tests.interface.test_reports import outputs
from tests.interface.test_run import ACCEPTED, cancellable

FILES = ("j.xml", "r.md", "s.sarif")
OURS = sse("accepted", {"run": "review:main", "id": "r12", "seq": 3})
ALL = "github,junit:j.xml,md:r.md,sarif:s.sarif"
FOUND = "src/app.py:3: error: off by one"


@pytest.fixture
def runner(cli: Cli, tmp_path: Path) -> Path:
    """The files of a step on GitHub."""
    folder = tmp_path / "runner"
    folder.mkdir()
    for name in ("OUTPUT", "STEP_SUMMARY", "ENV", "PATH", "STATE"):
        (folder / name).write_text("")
        cli.environ[f"GITHUB_{name}"] = str(folder / name)
    (folder / "OUTPUT").write_text("before=1")
    cli.environ |= {"GITHUB_ACTIONS": "true", "CI": "true"}
    return folder


def _answers(kernel: KernelDouble, exit_code: int = 0, **more: Any) -> None:
    told = report(exit_code=exit_code, branches={"coder": "awk/review/main/coder"}, **more)
    rows = [
        ("channel", message(4, FOUND, "rev", instruction="i7")),
        ("instructions", instruction("i7")),
        ("transcript", need()),
    ]
    lines = [msgspec.json.encode({"part": part, "run": "r12", "row": row}) + b"\n" for part, row in rows]
    kernel.answers |= {
        "POST /run": Stream([ACCEPTED, sse("result", told)]),
        "GET /runs/r12/export": Stream([b"".join(lines)[:50], b"".join(lines)[50:]]),
        "GET /spaces/review:main/diff": DiffReport(
            space="review:main", worktrees=(msgspec.structs.replace(worktree("f.py"), branch="awk/review/main/coder"),)
        ),
        "GET /needs": NeedList(items=(need(run="r12"), need("another run's", run="r1")), total=2, next=None),
    }


def test_all_reports_are_written_of_what_the_log_has(cli: Cli, kernel: KernelDouble, runner: Path) -> None:
    """contracts 7: files, outputs and summary of the step, annotations on standard error; stdout is as without."""
    _answers(kernel, exit_code=8, status="rejected", verdict="no")
    ran = cli("run", "review", "--report", "github,junit:j.xml", "--report", "md:r.md,sarif:s.sarif", "--json")
    assert (ran.code, ran.json()["id"]) == (8, "r12")
    assert [line for line in ran.err.splitlines() if line.startswith("::")] == [
        "::error file=src/app.py,line=3,title=rev (m4)::off by one",
        "::error title=review%3Amain::the vote that decides over the run said no",
        "::warning title=review%3Amain needs a person::coder wants to call bash: awk approve a3",
    ]
    given = (runner / "OUTPUT").read_text()
    assert given.startswith("before=1\n")
    told = {"run": "r12", "status": "rejected", "verdict": "no", "cost_usd": "", "tokens": "1230"}
    assert outputs(given.removeprefix("before=1\n")) == told
    delimiters = {line.partition("<<")[2] for line in given.splitlines() if "<<" in line}
    assert len(delimiters.pop()) > 40
    page = (runner / "STEP_SUMMARY").read_text()
    assert page == (cli.root / "r.md").read_text()
    assert "1 files, +1 -0 lines" in page
    assert [case.tag for case in ET.parse(cli.root / "j.xml").getroot()] == ["testsuite"]
    (result,) = json.loads((cli.root / "s.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert not [path for path in cli.root.iterdir() if path.name.endswith(".part")]


def test_a_run_that_is_refused_is_reported_at_the_lines_of_its_mistakes(
    cli: Cli, kernel: KernelDouble, runner: Path
) -> None:
    """contracts 7: exit 78, with the place in the repository of the job where the project is a part of that."""
    cli.environ["GITHUB_WORKSPACE"] = str(cli.root.parent)
    place = {
        "path": ".workflows/review.yaml", "line": 4, "column": 7, "where": "agents", "message": "no", "hint": None,
        "source": "",
    }  # fmt: skip
    kernel.answers["POST /run"] = problem(422, "bad_definition", "agents: no", errors=[place])
    ran = cli("run", "review", "--report", ALL)
    assert ran.code == 78
    assert "::error file=project/.workflows/review.yaml,line=4,col=7,title=review was not run::agents: no\n" in ran.err
    assert outputs((runner / "OUTPUT").read_text().partition("\n")[2])["status"] == "error"
    assert all((cli.root / name).stat().st_size for name in FILES)


def test_a_file_that_is_not_there_is_reported_too(cli: Cli, kernel: KernelDouble) -> None:
    ran = cli("run", "none.yaml", "--report", "junit:j.xml")
    assert (ran.code, "no such file" in (cli.root / "j.xml").read_text()) == (5, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("junit", "unknown report"), ("github:x", "unknown report"), ("html:x", "unknown report"),
        ("", "of nothing"), ("md:", "unknown report"), ("md:a,junit:./a", "two reports"),
        ("github,github", "two reports"), ("md:none/r.md", "No such file"), ("md:.agents", "not a regular file"),
        ("md:/dev/full", "not a regular file"), ("md:/proc/r.md", "cannot be written"),
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_written_is_told_before_anything_begins(
    given: str, said: str, cli: Cli, kernel: KernelDouble
) -> None:
    """contracts 7: exit 2, no kernel is asked for anything, and no file is made or changed."""
    (cli.root / "keep.md").write_text("kept")
    ran = cli("run", "review", "--report", f"md:keep.md,{given}")
    assert (ran.code, kernel.asked) == (2, [])
    assert said in ran.err
    assert {path.name for path in cli.root.iterdir()} == {".agents", "keep.md"}
    assert (cli.root / "keep.md").read_text() == "kept"


def test_files_of_the_runner_are_checked_too(cli: Cli, kernel: KernelDouble, runner: Path) -> None:
    (runner / "OUTPUT").unlink()
    (runner / "OUTPUT").mkdir()
    ran = cli("run", "review", "--report", "github")
    assert (ran.code, kernel.asked, "GITHUB_OUTPUT=" in ran.err) == (2, [], True)
    del cli.environ["GITHUB_OUTPUT"]
    _answers(kernel)
    ran = cli("run", "review", "--report", "github")
    assert (ran.code, "note: GITHUB_OUTPUT is not set" in ran.err) == (0, True)
    assert "::error file=src/app.py" in ran.err


@pytest.mark.promise("P73")
def test_what_anybody_wrote_into_the_files_of_the_runner_meanwhile_is_taken_back(
    cli: Cli, kernel: KernelDouble, runner: Path, tmp_path: Path
) -> None:
    _answers(kernel)
    stream = kernel.answers["POST /run"]

    def meanwhile(asked: object) -> Any:
        (runner / "OUTPUT").write_text("x<<EOF\n")
        (runner / "ENV").write_text("LD_PRELOAD=/evil.so\n")
        (runner / "PATH").unlink()
        (runner / "PATH").symlink_to(tmp_path / "elsewhere")
        (runner / "STATE").unlink()
        return stream

    kernel.answers["POST /run"] = meanwhile
    ran = cli("run", "review", "--report", "github")
    assert ran.code == 0
    told = [line.split()[5] for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert sorted(told) == ["GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE"]
    assert [(runner / name).read_text() for name in ("ENV", "PATH", "STATE")] == ["", "", ""]
    assert not (runner / "PATH").is_symlink()
    assert outputs((runner / "OUTPUT").read_text().removeprefix("before=1\n"))["run"] == "r12"


def test_nothing_that_a_kernel_starts_knows_the_files_and_tokens_of_the_runner(cli: Cli) -> None:
    theirs = {
        "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "ACTIONS_RUNTIME_TOKEN",
    }  # fmt: skip
    given = {**cli.environ, **dict.fromkeys((*theirs, "GITHUB_SHA", "GITHUB_TOKEN"), "x")}
    kept = kernel_environment(given, find_project(cli.environ, str(cli.root), None))
    assert {name for name in kept if name.startswith(("GITHUB", "ACTIONS"))} == {"GITHUB_SHA", "GITHUB_TOKEN"}


def test_a_report_that_cannot_be_written_any_more_is_a_failure(cli: Cli, kernel: KernelDouble) -> None:
    (cli.root / "out").mkdir()
    for code, expected in ((0, 1), (6, 6)):
        _answers(kernel, exit_code=code)
        stream = kernel.answers["POST /run"]

        def meanwhile(asked: object, answer: Any = stream) -> Any:
            (cli.root / "out").rename(cli.root / f"gone{len(kernel.asked)}")
            return answer

        kernel.answers["POST /run"] = meanwhile
        ran = cli("run", "review", "--report", "md:out/r.md,junit:j.xml")
        assert (ran.code, "error: the report md cannot be written: No such file" in ran.err) == (expected, True)
        assert (cli.root / "j.xml").exists()
        (cli.root / "j.xml").unlink()
        (cli.root / "out").mkdir()


def test_a_log_that_cannot_be_read_leaves_the_report_itself(cli: Cli, kernel: KernelDouble) -> None:
    _answers(kernel, exit_code=6, status="incomplete")
    kernel.answers["GET /runs/r12/export"] = problem(500, "internal", "no luck")
    assert cli("run", "review", "--report", "md:r.md").code == 6
    page = (cli.root / "r.md").read_text()
    assert "| status | incomplete, exit code 6 |" in page
    assert "Unreadable parts: ` no luck `" in page


@pytest.mark.parametrize("first", [[ACCEPTED], []], ids=["accepted", "still in setup"])
def test_a_signal_leaves_reports(first: list[bytes], cli: Cli, kernel: KernelDouble, runner: Path) -> None:
    """contracts 7: SIGTERM, as a runner sends it to a job that is cancelled."""
    stopped = cancellable(kernel, first)
    kernel.answers["GET /runs/review:main"] = report(status="cancelled", exit_code=143)
    heard = f"import os, signal; signal.signal({int(signal.SIGTERM)}, signal.SIG_DFL)\n"
    heard += f"os.execv({AWK[0]!r}, {[*AWK, 'run', 'review', '--report', ALL]!r})\n"
    words, pipe = [sys.executable, "-c", heard], subprocess.PIPE
    with subprocess.Popen(words, cwd=cli.root, env=cli.environ, stdout=pipe, stderr=pipe, text=True) as process:
        assert kernel.arrived.get(timeout=10).path == "/run"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, len(stopped)) == (143, 1)
    assert "Traceback" not in err
    assert outputs((runner / "OUTPUT").read_text().removeprefix("before=1\n"))["status"] in ("cancelled", "error")
    assert all((cli.root / name).stat().st_size for name in FILES)


def test_a_kernel_of_others_stays(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /run"] = Stream([PING, ACCEPTED, sse("result", report())])
    assert cli("run", "review", "--rm").code == 0
    assert kernel.of("POST", "/shutdown") == []


@pytest.fixture
def started(cli: Cli, kernel: KernelDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """The process that is spawned for a kernel, whose record tells of the double; a shutdown ends it."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"])
    (record,) = cli.home.rglob("daemon.json")
    record.unlink()

    def spawn(project: object, environ: object, now: float, *flags: str) -> Spawned:
        kernel.publish(cli.home, cli.root, pid=process.pid)
        return Spawned(process, "", 0, now)

    def shutdown(asked: object) -> dict[str, str]:
        os.kill(process.pid, signal.SIGKILL)
        return {}

    monkeypatch.setattr("interface.autostart.spawn", spawn)
    kernel.answers["POST /shutdown"] = shutdown
    yield process
    process.returncode = None
    process.kill()
    process.wait()


@pytest.mark.parametrize("ended", [0, 1, None], ids=["done", "failed", "refused"])
def test_no_kernel_stays_that_the_run_started(
    ended: int | None, cli: Cli, kernel: KernelDouble, started: "subprocess.Popen[bytes]"
) -> None:
    """contracts 7: --rm, however the run went; without it the kernel stays."""
    refused = problem(403, "untrusted", "no")
    kernel.answers["POST /run"] = refused if ended is None else Stream([OURS, sse("result", report(exit_code=ended))])
    own = {"id": "r12", "run": "review:main"}  # it had not ended yet when a second signal came
    kernel.answers["GET /runs"] = {"runs": [own] if ended == 0 else [], "total": 1, "next": None}
    code = 7 if ended is None else ended
    assert (cli("run", "review", "--rm").code, len(kernel.of("POST", "/shutdown"))) == (code, 1)
    started.returncode = None
    assert started.wait(10) == -signal.SIGKILL


def test_without_rm_a_kernel_stays(cli: Cli, kernel: KernelDouble, started: "subprocess.Popen[bytes]") -> None:
    kernel.answers["POST /run"] = Stream([ACCEPTED, sse("result", report())])
    assert (cli("run", "review").code, kernel.of("POST", "/shutdown")) == (0, [])


def test_a_kernel_in_which_another_run_is_at_work_stays(
    cli: Cli, kernel: KernelDouble, started: "subprocess.Popen[bytes]"
) -> None:
    """decision 28.5: nobody else's work is ended; that is told, with the command that would."""
    kernel.answers["POST /run"] = Stream([ACCEPTED, sse("result", report())])
    row = {"id": "r13", "run": "docs:main"}
    kernel.answers["GET /runs"] = {"runs": [row], "total": 1, "next": None}
    ran = cli("run", "review", "--rm")
    assert (ran.code, kernel.of("POST", "/shutdown")) == (0, [])
    assert "note: the kernel keeps running for docs:main; stop it: awk stop\n" in ran.err
