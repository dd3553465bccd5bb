"""What is read of a project without a kernel is what its kernel would answer, and reading writes nothing."""

import json
import os
import signal
from contextlib import suppress
from urllib.parse import quote

import pytest

from interface.clock import Clock
from interface.discovery import find_project
from interface.failure import Failure
from interface.offline import StoredLogClient
from kernel.api.routes import ROUTES
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
    "runs", "runs @team --status failed", "show r1", "show @team", "show i1", "show i1 --steps --full",
    "show i1 --prompt", "stats", "stats --by agent,day", "stats alice@team", "ls", "logs", "logs alice@team -v",
    "logs olga", "show r9",
)  # fmt: skip
NEVER = {"kernel.stopping"}
"""Events that the end of the kernel adds."""
UNLIKE = {"/page/keys", "/health", "/backends", "/search", "/spending", "/overview"}
"""Not reads of the log, or with a query or a period of their own."""


def never(_seconds: float) -> None:
    raise AssertionError("nothing is waited for")


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
    """runs, show, stats, ls, logs; every read that needs no kernel; not a byte of the state changes."""
    worked(project)
    paths = [route.path for route in ROUTES if route.method == "GET" and route.direct and route.answers]
    paths += [f"/spaces/{quote('team:main')}/{part}" for part in ("channel", "tasks", "documents", "members")]
    online = {words: project.awk(*words.split()) for words in COMMANDS}
    asked = {path: project.ask("GET", path) for path in paths if path not in UNLIKE}
    ended(project, killed=killed)
    before = state_of(project)
    for words, told in online.items():
        ran = project.awk(*words.split())
        lines = [line for line in ran.out.splitlines() if not any(word in line for word in NEVER)]
        assert (ran.code, lines) == (told.code, told.out.splitlines()), words
        assert ran.err.count("no kernel is running") == 1, words
        assert ran.err.endswith(told.err)
    there = find_project(project.environ, str(project.root), None)
    client, answered = StoredLogClient(there, project.environ, Clock(lambda: 0, lambda: 2e9, never)), set()
    for path, answer in asked.items():
        with suppress(Failure):
            assert json.loads(client.get(path)) == answer, path
            answered.add(path)
    assert answered >= {"/runs", "/agents", "/usage", "/instructions", "/approvals", "/dead", *paths[-4:]}
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
