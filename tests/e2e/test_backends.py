"""Other engines in a real kernel: their work counts like any other, and nothing of them stays behind."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.engines import NO_MIRROR, PROGRAMS, SPEAKS, Engine, environ, fingerprint, place
from tests.e2e.processes import marked, wait_until
from tests.project import Project
from tests.worker.scripted_api import Say, ScriptedApi

RUNS: Final = int(os.environ.get("AWK_TEST_BACKEND_RUNS", "2"))
"""How often each program works: 100 for the figure in docs/contributing/promises.md (scripts/soak backends)."""


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
    usage = project.awk("stats", "--json").json()["total"]["usage"]
    return int(usage["input_tokens"] + usage["output_tokens"]) == tokens


def test_a_program_that_never_came_for_its_tools_has_failed(project: Project, tmp_path: Path) -> None:
    """Exit code 0 and "success" are not success without Daemon MCP; some programs say nothing of it."""
    (tmp_path / "bin").mkdir()
    ends = {"type": "result", "subtype": "success", "is_error": False, "result": "all is well", "session_id": "s1"}
    events = ({"type": "system", "subtype": "init", "session_id": "s1"}, ends)
    place(tmp_path / "bin/cursor-agent", "\n".join(f"echo '{json.dumps(event)}'" for event in events))
    keys = "prompt: { system: hi }\nretry: { attempts: 1 }\nbackend: cursor\nmodel: cursor/auto\n"
    project.write(".agents/claims.yaml", keys)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "CURSOR_API_KEY": "k"}
    assert project.awk("start", "--trust", env=env).code == 0
    failed = project.ended(project.send("claims"))
    assert ("never connected to Daemon MCP" in failed["text"], failed["cause"]) == (True, "network")
