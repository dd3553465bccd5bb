"""What is read of a project without a kernel is what its kernel would answer, and reading writes nothing."""

import os
import signal

import pytest

from protocol.discovery import DATABASE
from tests.e2e.processes import wait_until
from tests.project import Project

TEAM = """\
agents:
  alice:
    backend: mock
    mock:
      - do:
          - {tool: team_task_create, args: {title: "Write \\u202e it"}}
          - {tool: doc_write, args: {file: notes.md, content: "a plan"}}
          - {tool: channel_send, args: {message: "@bob help \\e[31m"}}
          - {text: done}
  bob: {backend: mock, mock: [{error: {http_status: 400, text: broken}}]}
kickoff: "@alice go"
"""
COMMANDS = (
    "runs", "show r1", "show @team --timeline", "show r1 --graph dot", "show i1 --steps", "stats", "ls", "logs -v",
)  # fmt: skip
"""One of each kind: tests/sim/test_offline.py asks all of any history."""
NEVER = {"kernel.stopping"}
"""Events that the end of the kernel adds."""


def worked(project: Project) -> None:
    project.write(".workflows/team.yaml", TEAM)
    project.agent("olga", "text: hi")
    project.agent("broken", "text: hi", more="sandbox: maybe")
    assert project.awk("run", "team").code != 0
    project.send("olga")
    assert project.awk("wait", "olga", "--for", "idle").code == 0


def ended(project: Project, *, killed: bool) -> None:
    if killed:
        os.kill(project.record()["pid"], signal.SIGKILL)
        wait_until(lambda: not project.alive())
    else:
        assert project.awk("stop", "--yes").code == 0


def state_of(project: Project) -> dict[str, tuple[bytes, int]]:
    files = [path for path in project.state_home.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("killed", [False, True])
def test_the_stored_log_answers_as_the_kernel_did(project: Project, killed: bool) -> None:
    """Of real agents and files, by each way a kernel ends; not a byte of the state changes."""
    worked(project)
    online = {words: project.awk(*words.split()) for words in COMMANDS}
    ended(project, killed=killed)
    before = state_of(project)
    for words, told in online.items():
        ran = project.awk(*words.split())
        lines = [line for line in ran.out.splitlines() if not any(word in line for word in NEVER)]
        assert (ran.code, lines) == (told.code, told.out.splitlines()), words
        assert ran.err.count("no kernel is running") == 1, words
        assert ran.err.endswith(told.err)
    assert state_of(project) == before
    assert not project.alive()


def test_without_a_log_or_for_new_events_a_kernel_is_needed(project: Project) -> None:
    assert [project.awk(*words).code for words in (("runs",), ("show", "r1"), ("ls",))] == [69, 69, 69]
    worked(project)
    ended(project, killed=False)
    assert project.awk("logs", "-f").code == 69
    assert project.awk("runs", env={"AGENT_WORKER_URL": "http://127.0.0.1:9", "AGENT_WORKER_TOKEN": "x"}).code == 69
    assert project.awk("cancel", "i1").code == 69


def test_a_database_that_cannot_be_read_is_named(project: Project) -> None:
    worked(project)
    ended(project, killed=False)
    database = project.state / DATABASE
    database.write_bytes(b"not a database" * 1000)
    ran = project.awk("runs")
    assert (ran.code, str(database) in ran.err) == (1, True), ran.err
