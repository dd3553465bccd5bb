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


@pytest.mark.promise("P19", "PF22", "P18")
def test_an_agent_with_tools_of_its_own(project: Project) -> None:
    project.write("moniro.yaml", TOOLS)
    project.write(".agents/skills/counting/SKILL.md", "---\ndescription: How to count\n---\nUse wc.\n")
    project.write(".agents/alice.yaml", ALICE)
    refused = project.awk("ask", "alice", "go", env={"CANARY": CANARY})
    assert (refused.code, (project.root / "made").exists()) == (7, False)
    assert "alice runs whatever its model writes, unasked" in refused.err
    assert project.awk("trust", "--yes").code == 0
    asked = project.awk("ask", "alice", "go")
    assert (asked.code, asked.out) == (0, "done\n"), asked.err
    told = dict(_results(project, "i1"))
    assert (told["count"], told["skill"].splitlines()[0]) == ("2 made\n", "Use wc.")
    left = [psutil.Process(int(told[name])) for name in ("mcp__own__breed", "mcp__own__pid") if _lives(told[name])]
    assert survivors(left, 5.0) == []
    (said,) = project.awk("feedback", "list", "--json").json()["feedback"]
    assert (said["author"], said["text"]) == ("alice", "all is well")
    assert not [file for file in project.state.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]


MUTE = """\
backend: mock
scopes: [channel.read]
mock:
  - { tool: channel_send, args: { message: "@alice hello" } }
  - { tool: channel_read, args: {} }
  - { text: done }
"""


@pytest.mark.promise("P42")
def test_an_agent_has_the_tools_of_its_scopes_and_no_others(shared_kernel: Project) -> None:
    shared_kernel.write(".agents/mute.yaml", MUTE)
    asked = shared_kernel.send("mute")
    ended = shared_kernel.ended(asked)
    assert (ended["status"], ended["text"]) == ("done", "done")
    told = dict(_results(shared_kernel, ended["id"]))
    assert "forbidden" in told["channel_send"]
    assert "channel.write" in told["channel_send"]
    assert "@alice hello" not in told["channel_read"]


def _lives(pid: str) -> bool:
    return psutil.pid_exists(int(pid))


def _results(project: Project, instruction: str) -> list[tuple[str, str]]:
    import apsw

    connection = apsw.Connection(str(project.state / "agent-worker.db"), flags=apsw.SQLITE_OPEN_READONLY)
    query = "SELECT body FROM entries WHERE instruction = ? ORDER BY k"
    bodies = [json.loads(row[0]) for row in connection.execute(query, (int(instruction[1:]),))]
    connection.close()
    return [(body["name"], body.get("text", "")) for body in bodies if body["kind"] == "tool"]
