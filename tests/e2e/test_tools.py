"""Tools of an agent's own, as a user meets them: asked for trust, run by a real worker, gone with its attempt."""

import json
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.processes import survivors
from tests.project import Project

SERVER = Path(__file__).parents[1] / "worker" / "stdio_server.py"
ALICE = f"""\
backend: mock
approval: auto
tools: [bash, files, skills, feedback, count]
mcp_servers:
  own: {{ command: {sys.executable}, args: [-I, -S, {SERVER}], env: {{ TOKEN: "${{CANARY}}" }} }}
mock:
  - {{ tool: bash, args: {{ command: "printf 'a\\nb\\n' > made" }} }}
  - {{ tool: count, args: {{ path: made }} }}
  - {{ tool: skill, args: {{ name: counting }} }}
  - {{ tool: feedback_submit, args: {{ text: all is well }} }}
  - {{ tool: mcp__own__breed, args: {{}} }}
  - {{ tool: mcp__own__pid, args: {{}} }}
  - {{ text: done }}
"""
TOOLS = "tools: { count: { description: Count, command: [wc, -l, '${path}'], input: { path: string } } }\n"
CANARY = "canary-7f3a9"
SERVE = "'trap \"\" TERM; echo $$ > serving; mv serving served; sleep 600'"
SERVING = """\
backend: mock
approval: auto
tools: TOOLS
mock:
  - STEP
  - { shell: "until [ -s served ]; do sleep 0.02; done; kill -0 $(cat served) && echo lives $(cat served)" }
  - { text: done }
"""


@pytest.mark.promise("P19", "PF22", "P18")
def test_an_agent_with_tools_of_its_own(project: Project) -> None:
    """Nothing runs unasked; a server's child that left its group is gone with the attempt."""
    project.write("moniro.yaml", TOOLS)
    project.write(".agents/skills/counting/SKILL.md", "---\ndescription: How to count\n---\nUse wc.\n")
    project.write(".agents/alice.yaml", ALICE)
    refused = project.awk("ask", "alice", "go", env={"CANARY": CANARY})
    assert (refused.code, (project.root / "made").exists()) == (7, False)
    assert "alice runs whatever its model writes, unasked" in refused.err
    assert project.awk("trust", "--yes").code == 0
    asked = project.awk("ask", "alice", "go")
    assert (asked.code, asked.out) == (0, "done\n"), asked.err
    told = dict(_results(project))
    assert (told["count"], told["skill"].splitlines()[0]) == ("2 made\n", "Use wc.")
    left = [psutil.Process(int(told[name])) for name in ("mcp__own__breed", "mcp__own__pid") if _lives(told[name])]
    assert survivors(left, 5.0) == []
    (said,) = project.awk("feedback", "list", "--json").json()["feedback"]
    assert (said["author"], said["text"]) == ("alice", "all is well")
    assert not [file for file in project.state.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    ("tools", "step"),
    [
        ("[]", f"{{ shell: {SERVE}, background: true }}"),
        ("[bash]", f"{{ shell: {SERVE}, background: true }}"),
        ("[bash]", f"{{ tool: bash, args: {{ command: {SERVE}, background: true }} }}"),
    ],
)
def test_a_server_in_the_background_lives_as_long_as_the_attempt(project: Project, tools: str, step: str) -> None:
    """Later calls find it, and it ends with the tree, though it has a session of its own and ignores SIGTERM."""
    project.write(".agents/alice.yaml", SERVING.replace("STEP", step).replace("TOOLS", tools))
    asked = project.awk("ask", "alice", "go", env={"AGENT_WORKER_TRUST": "1"})
    assert (asked.code, asked.out) == (0, "done\n"), asked.err
    told = [text for name, text in _results(project) if name == "shell"]
    assert told[-1].startswith("lives "), told
    left = [psutil.Process(int(pid)) for pid in told[-1].split()[1:] if _lives(pid)]
    assert survivors(left, 5.0) == []


def _lives(pid: str) -> bool:
    return psutil.pid_exists(int(pid))


def _results(project: Project) -> list[tuple[str, str]]:
    """What each call came to, as the journal has it."""
    import apsw

    connection = apsw.Connection(str(project.state / "agent-worker.db"), flags=apsw.SQLITE_OPEN_READONLY)
    bodies = [json.loads(row[0]) for row in connection.execute("SELECT body FROM entries ORDER BY k")]
    connection.close()
    return [(body["name"], body.get("text", "")) for body in bodies if body["kind"] == "tool"]
