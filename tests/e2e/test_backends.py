"""Other engines in a real kernel: their work counts like any other, and nothing of them stays behind."""

import json
import os
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.engines import NO_MIRROR, PROGRAMS, Engine, environ, fingerprint, place, scripted
from tests.e2e.processes import marked
from tests.project import Project
from tests.worker.scripted_api import Say

RUNS: Final = int(os.environ.get("AWK_TEST_BACKEND_RUNS", "3"))
"""How often each program works: 100 for the figure in docs/promises.md (scripts/soak backends)."""


@pytest.mark.parametrize("engine", PROGRAMS, ids=lambda engine: engine.name)
def test_a_program_works_and_leaves_no_trace(engine: Engine, project: Project, tmp_path: Path) -> None:
    """Issue 5: no file of the user or the project changes; no process, socket or folder is left after N attempts."""
    if engine.missing:
        pytest.skip(f"{engine.name} is not installed: AGENT_WORKER_TEST_CLIS")
    moves = [move for n in range(RUNS) for move in (engine.tells(f"told {n}"), Say(text=f"done {n}"))]
    project.write("moniro.yaml", NO_MIRROR)
    project.write("src/app.py", "print('hello')\n")
    (project.home / ".gitconfig").write_text("[user]\n\tname = somebody\n")
    with scripted(*moves) as api:
        engine.agent(project, "alice", api)
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


def test_a_program_that_never_came_for_its_tools_and_one_that_is_missing_have_failed(
    project: Project, tmp_path: Path
) -> None:
    """facts: exit code 0 and "success" are not success without Daemon MCP; some programs say nothing of it.

    Issue 5: a missing one costs no model call; it says which PATH was searched, and how to get it.
    """
    kernel_env = environ(tmp_path) | {"PATH": f"{tmp_path}/bin:/bin", "CURSOR_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    events = (
        {"type": "system", "subtype": "init", "session_id": "s1"},
        {"type": "result", "subtype": "success", "is_error": False, "result": "all is well", "session_id": "s1"},
    )
    place(tmp_path / "bin/cursor-agent", "\n".join(f"echo '{json.dumps(event)}'" for event in events))
    (tmp_path / "bin/claude").unlink(missing_ok=True)
    keys = "prompt: {{ system: hi }}\nretry: {{ attempts: 1 }}\nbackend: {}\nmodel: {}\n"
    project.write(".agents/alice.yaml", keys.format("cursor", "cursor/auto"))
    project.write(".agents/bob.yaml", keys.format("claude", "sonnet"))
    assert project.awk("start", "--trust", env=kernel_env).code == 0

    failed = project.awk("send", "alice", "work", "--wait")
    assert (failed.code, "never connected to Daemon MCP" in failed.out) == (1, True), failed
    failed = project.awk("send", "bob", "work", "--wait")
    missing = (
        f"claude is not on the PATH of workers ({kernel_env['PATH']}); get it: npm install -g @anthropic-ai/claude"
    )
    assert (failed.code, missing in failed.out) == (1, True), failed
    rows = {row["name"]: row for row in project.awk("backends", "--json").json()["backends"]}
    assert rows["claude"]["missing"].startswith(missing)
    causes = {row["agent"]: row["cause"] for row in project.awk("dead", "--json").json()["instructions"]}
    assert causes == {"alice": "network", "bob": "spawn_permanent"}
