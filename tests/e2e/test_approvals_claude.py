"""Claude Code asks before it runs a command: its call is kept waiting, it shows as waiting, a person decides."""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.test_approvals import pending, ran
from tests.project import Project
from tests.worker.backends.subject import CLIS
from tests.worker.scripted_api import Call, Say, ScriptedApi

pytestmark = pytest.mark.skipif(CLIS is None, reason="AGENT_WORKER_TEST_CLIS")

COMMAND = "echo ran >> claude.log"
SHELL = Call("Bash", json.dumps({"command": COMMAND, "description": "a test"}), id="toolu_01")
AGAIN = Call("Bash", json.dumps({"command": COMMAND, "description": "a test"}), id="toolu_02")


def claude(project: Project, url: str) -> dict[str, str]:
    """Two agents of which one may run at a time; the environment that their kernel is started with."""
    project.write("moniro.yaml", "limits: { workers: 1 }\n")
    project.agent("bob", 'text: "I had room"')
    project.write(
        ".agents/alice.yaml",
        f"""
        backend: claude
        model: scripted/claude-sonnet-4-5
        provider: {{ name: scripted, base_url: "{url}", dialect: anthropic, api_key: $SCRIPTED_KEY }}
        prompt: {{ system: You are alice. }}
        """,
    )
    binary = Path(str(CLIS)) / "claude/node_modules/.bin"
    return {"PATH": f"{binary}:{os.environ['PATH']}", "SCRIPTED_KEY": "sk-canary", "AGENT_WORKER_TRUST": "1"}


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_claude_is_kept_waiting_beside_the_limit_until_a_person_has_decided(project: Project, decision: str) -> None:
    with ScriptedApi([Say("I run it.", (SHELL,)), Say("That was it.")]) as api:
        assert project.awk("start", "--trust", env=claude(project, api.anthropic_url)).code == 0
        waiting = project.awk("send", "alice", "go", "--wait", "--json", seconds=60)
        assert (waiting.code, waiting.json()["results"][0]["waits_for"]) == (7, "approval"), waiting.err
        (row,) = pending(project, "alice")
        assert (row["tool"], row["input"]["command"]) == ("Bash", COMMAND)
        table = {one["name"]: one for one in project.awk("ps", "--json").json()["agents"]}
        assert (table["alice"]["state"], table["alice"]["reason"]) == ("waiting", "approval")
        assert table["alice"]["pid"]
        assert project.awk("send", "bob", "go", "--wait").out == "I had room\n"
        assert project.awk(decision, row["id"], "--reason", "because").code == 0
        end = project.until("instruction.ended", holds=lambda one: one["agent"] == "alice")
    assert (end["data"]["status"], end["data"]["text"]) == ("done", "That was it.")
    assert ran(project, "claude") == (1 if decision == "approve" else 0)
    told = json.dumps(api.requests[1].body["messages"][-1])
    assert ("because" in told) == (decision == "deny"), told


def test_a_kernel_that_is_killed_while_claude_is_kept_waiting_asks_no_second_time(project: Project) -> None:
    """kill -9: still pending, granted while nothing runs; its next call like it is the one that was granted."""
    with ScriptedApi([Say("I run it.", (SHELL,)), Say("Once more.", (AGAIN,)), Say("That was it.")]) as api:
        env = claude(project, api.anthropic_url)
        assert project.awk("start", "--trust", env=env).code == 0
        assert project.awk("send", "alice", "go", "--wait", seconds=60).code == 7
        project.kill()
        assert project.awk("start", "--trust", env=env).code == 0
        assert [row["id"] for row in pending(project, "alice")] == ["a1"]
        assert project.awk("approve", "a1").code == 0
        assert project.until("instruction.ended", seconds=60)["data"]["status"] == "done"
        assert pending(project, "alice") == []
        asked = project.awk("show", "i1", "--json").json()["approvals"]
        assert [(one["id"], one["tool"], one["state"], one["heard"]) for one in asked] == [
            ("a1", "Bash", "granted", True)
        ]
    assert ran(project, "claude") == 1
    told = json.dumps(api.requests[1].body["messages"])
    assert "It did not run. It is approved now" in told and COMMAND in told


def test_claude_answers_another_message_while_a_person_is_waited_for(project: Project) -> None:
    says = [Say("I run it.", (SHELL,)), Say("It is late."), Say("Once more.", (AGAIN,)), Say("That was it.")]
    with ScriptedApi(says) as api:
        assert project.awk("start", "--trust", env=claude(project, api.anthropic_url)).code == 0
        assert project.awk("send", "alice", "go", "--wait", seconds=60).code == 7
        answer = project.awk("send", "alice", "what is the time?", "--wait", seconds=60)
        assert (answer.code, answer.out) == (0, "It is late.\n"), answer.err
        assert [row["id"] for row in pending(project, "alice")] == ["a1"]
        assert ran(project, "claude") == 0
        assert project.awk("approve", "a1").code == 0
        end = project.until("instruction.ended", seconds=60, holds=lambda one: one["data"]["text"] == "That was it.")
        assert end["data"]["status"] == "done"
        assert pending(project, "alice") == []
    assert ran(project, "claude") == 1
    assert len(api.requests) == 4
