"""Other engines in a real kernel: their work counts like any other, and nothing of them stays behind."""

import json
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.sources import ROOT
from tests.e2e.engines import NO_MIRROR, PROGRAMS, SPEAKS, Engine, environ, fingerprint, place
from tests.e2e.processes import marked, wait_until
from tests.project import Project
from tests.worker.scripted_api import Say, ScriptedApi

PAGE: Final = ROOT / "docs/worker-protocol.md"
RUNS: Final = int(os.environ.get("AWK_TEST_BACKEND_RUNS", "2"))
"""How often each program works: 100 for the figure in docs/promises.md (scripts/soak backends)."""


@pytest.mark.parametrize("engine", PROGRAMS, ids=lambda engine: engine.name)
def test_a_program_works_and_leaves_no_trace(engine: Engine, project: Project, tmp_path: Path) -> None:
    if engine.missing:
        pytest.skip(f"{engine.name} is not installed: AGENT_WORKER_TEST_CLIS")
    moves = [move for n in range(RUNS) for move in (engine.tells(f"told {n}"), Say(text=f"done {n}"))]
    project.write("moniro.yaml", NO_MIRROR)
    project.write("src/app.py", "print('hello')\n")
    (project.home / ".gitconfig").write_text("[user]\n\tname = somebody\n")
    with ScriptedApi(moves) as api:
        engine.agent(project, "alice", api, SPEAKS)
        kernel_env = environ(tmp_path, api)
        assert project.awk("start", "--trust", env=kernel_env).code == 0
        before = fingerprint(project.root, project.home)
        for n in range(RUNS):
            asked = project.awk("send", "alice", f"work {n}", "--wait", seconds=120)
            assert (asked.code, asked.out.strip().splitlines()[-1:]) == (0, [f"done {n}"]), asked
    assert fingerprint(project.root, project.home) == before
    messages = project.awk("peek", "alice", "-n", "1000", "--json").json()["messages"]
    assert [one["text"] for one in messages if one["kind"] == "said" and one["from"] == "alice"] == [
        f"told {n}" for n in range(RUNS)
    ]
    assert project.awk("stop", "--yes").code == 0
    assert [path.name for path in (project.state / "run").iterdir()] == []
    assert [path.name for path in Path(kernel_env["TMPDIR"]).iterdir()] == []
    assert marked(str(tmp_path)) == []


@pytest.mark.promise("P27")
@pytest.mark.parametrize("engine", [one for one in PROGRAMS if one.name != "cursor"], ids=lambda engine: engine.name)
def test_what_cancelled_work_spent_is_booked(engine: Engine, project: Project, tmp_path: Path) -> None:
    """Taken back in the middle of a tool, of which its program tells only once that is back."""
    if engine.missing:
        pytest.skip(f"{engine.name} is not installed: AGENT_WORKER_TEST_CLIS")
    assert engine.program is not None
    begun = project.root / "begun"
    with ScriptedApi([], Say(calls=(engine.program.shell("touch begun; sleep 100"),), input_tokens=2000)) as api:
        engine.agent(project, "alice", api, "approval: auto\nbudget: { tokens: 3000 }")
        assert project.awk("start", "--trust", env=environ(tmp_path, api)).code == 0
        for booked in (2005, 4010):
            (sent,) = project.awk("send", "alice", "go", "--json").json()["instruction_ids"]
            wait_until(begun.exists, seconds=60)
            begun.unlink()
            assert project.awk("cancel", sent).code == 0
            wait_until(partial(has_spent, project, booked))
        (sent,) = project.awk("send", "alice", "go", "--json").json()["instruction_ids"]
        wait_until(lambda: project.awk("show", sent, "--json").json()["status"] == "waiting")
    assert len(api.requests) == 2


def has_spent(project: Project, tokens: int) -> bool:
    """Whether all work together has cost so many tokens."""
    usage = project.awk("stats", "--json").json()["total"]["usage"]
    return int(usage["input_tokens"] + usage["output_tokens"]) == tokens


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One kernel for what ends quickly: a program that claims much, one that is missing, two of the user's own."""
    folder = tmp_path_factory.mktemp("team").resolve()
    folders = [folder / name for name in ("project", "state", "home")]
    for made in folders:
        made.mkdir()
    project = Project(*folders)
    place_claimant(folder)
    keys = "prompt: {{ system: hi }}\nretry: {{ attempts: 1 }}\nbackend: {}\nmodel: {}\n"
    project.write(".agents/claims.yaml", keys.format("cursor", "cursor/auto"))
    project.write(".agents/missing.yaml", keys.format("claude", "sonnet"))
    project.write(".agents/echo.yaml", "backend: exec\ncommand: [python3, tools/echo.py]\n")
    project.write(".agents/gone.yaml", "backend: exec\ncommand: [./tools/gone]\n")
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    project.write("tools/echo.py", example)
    environ = {"PATH": f"{folder}/bin:/usr/bin:/bin", "CURSOR_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert project.awk("start", "--trust", env=environ).code == 0
    yield project
    project.stop()


def place_claimant(folder: Path) -> None:
    """Put a ``cursor-agent`` there that says all is well, and a python3 that is ours."""
    (folder / "bin").mkdir()
    events = (
        {"type": "system", "subtype": "init", "session_id": "s1"},
        {"type": "result", "subtype": "success", "is_error": False, "result": "all is well", "session_id": "s1"},
    )
    place(folder / "bin/cursor-agent", "\n".join(f"echo '{json.dumps(event)}'" for event in events))
    place(folder / "bin/python3", f'exec {sys.executable} "$@"')


def failure(team: Project, agent: str) -> tuple[str, str, str]:
    """What is said of work for ``agent``, which fails for good: its words, its cause and class."""
    failed = team.awk("send", agent, "work", "--wait")
    assert failed.code == 1, failed
    rows = team.awk("dead", "--json").json()["instructions"]
    return next((failed.out.strip(), row["cause"], row["class"]) for row in rows if row["agent"] == agent)


@pytest.mark.long("tests/worker/backends/test_contract.py")
def test_a_program_that_never_came_for_its_tools_has_failed(team: Project) -> None:
    """Exit code 0 and "success" are not success without Daemon MCP; some programs say nothing of it."""
    words, cause, kind = failure(team, "claims")
    assert ("never connected to Daemon MCP" in words, cause, kind) == (True, "network", "transient")


@pytest.mark.long("tests/kernel/agents/test_backends.py")
def test_a_program_that_is_missing_costs_no_model_call(team: Project) -> None:
    words, cause, kind = failure(team, "missing")
    assert ("npm install -g @anthropic-ai/claude-code" in words, cause, kind) == (True, "spawn_permanent", "permanent")
    rows = {row["name"]: row for row in team.awk("backends", "--json").json()["backends"]}
    assert rows["claude"]["missing"].replace("/bin)", f"/bin:{team.state}/bin)") in words


@pytest.mark.long("tests/e2e/test_exec_launcher.py")
def test_a_program_of_the_users_own_is_a_worker(team: Project) -> None:
    """contracts 6: the worker of docs/worker-protocol.md; its token is good for Daemon MCP."""
    asked = team.awk("send", "echo", "good morning", "--wait")
    assert (asked.code, asked.out.strip().splitlines()[-1]) == (0, "You said: good morning"), asked
    said = [(one["from"], one["kind"], one["text"]) for one in team.awk("peek", "echo", "--json").json()["messages"]]
    assert ("echo", "said", "echo is on it") in said
    words, cause, _ = failure(team, "gone")
    assert (f"no executable './tools/gone' in {team.root}" in words, cause) == (True, "spawn_permanent")
