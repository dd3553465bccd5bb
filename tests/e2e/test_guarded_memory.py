"""What agents know of each other, who they are and what they should remember: with a real kernel and mock agents."""

import json
from typing import Any

import pytest

from tests.project import Project

ALICE = """\
backend: mock
mock:
  - { when: "write down", do: [
      { tool: memory_write, args: { key: deploys, value: "deploys by CANARY-SHARED", visibility: shareable } },
      { tool: memory_write, args: { key: deploy-key, value: "the deploy key is CANARY-PRIVATE" } },
      { tool: soul_suggest, args: { observation: "I always name the risk", value: "Name the risk" } },
      { text: written } ] }
  - { do: [{ text: hello }] }
"""
BOB = """\
backend: mock
mock:
  - { tool: memory_ask, args: { agent: alice, query: "which deploys and which deploy key are there?" } }
  - { text: asked }
"""
ITEM = {
    "for": "alice",
    "kind": "decision",
    "key": "rollback",
    "value": "Nobody rolls back on a Friday CANARY-TRAY, since nobody is there on a Saturday",
    "messages": ["m2"],
}
TEAM = """\
agents: { alice: { ref: alice }, bob: { ref: bob } }
kickoff: "@alice write down what you know. Never roll back on a Friday."
guard: { model: mock/guard, auto_store: true, mock: [{ text: %s }] }
"""


def tray(project: Project) -> list[Any]:
    """What is proposed to alice."""
    return list(json.loads(project.awk("agent", "memory", "alice", "tray", "--json").out)["rows"])


@pytest.mark.promise("P51", "P52")
def test_a_colleague_a_soul_and_a_tray_come_through_the_command_line(shared_kernel: Project) -> None:
    """A colleague is given what is shareable and no byte of the rest; a person takes a trait, takes it back, and takes
    what the guard proposes."""
    project = shared_kernel
    project.write(".agents/alice.yaml", ALICE)
    project.write(".agents/bob.yaml", BOB)
    project.write(".workflows/team.yaml", TEAM % json.dumps(json.dumps({"items": [ITEM]})))
    ran = project.awk("run", "team")
    assert ran.code == 0, ran.err

    project.awk("start", "team")
    asked = project.send("bob@team", "ask alice")
    assert project.ended(asked)["status"] == "done"
    entries = json.dumps(project.ask("GET", f"/instructions/{asked}/entries"))
    assert "CANARY-SHARED" in entries
    assert "CANARY-PRIVATE" not in entries
    told = project.awk("audit", "--agent", "bob", "--json")
    (row,) = json.loads(told.out)["rows"]
    assert ([one["key"] for one in row["given"]], row["owner"]) == (["deploys"], "alice")
    assert "deploys" in project.awk("audit").out

    assert "Name the risk" in project.awk("agent", "soul", "alice").out
    assert project.awk("agent", "soul", "alice", "approve", "p1").code == 0
    assert "Name the risk" in (project.root / ".agents/alice/soul.yaml").read_text()
    prompt = project.send("alice", "hello")
    project.ended(prompt)
    assert "Name the risk" in str(project.ask("GET", f"/instructions/{prompt}/prompt"))
    back = project.awk("agent", "soul", "alice", "rollback", "1", "--reason", "not it")
    assert back.code == 0, back.err
    assert "not it" in project.awk("agent", "soul", "alice", "history").out
    after = project.send("alice", "hello")
    project.ended(after)
    assert "Name the risk" not in str(project.ask("GET", f"/instructions/{after}/prompt"))

    project.until("memory.proposed")
    assert "CANARY-TRAY" not in str(project.ask("GET", f"/instructions/{after}/prompt"))
    needs = json.loads(project.awk("needs", "--json").out)["items"]
    (command,) = [one["actions"][0]["command"] for one in needs if one["kind"] == "memory"]
    taken = project.awk(*command.split()[1:])
    assert taken.code == 0, taken.err
    assert "CANARY-TRAY" in project.awk("agent", "memory", "alice").out
    assert [one["state"] for one in tray(project)] == ["approved"]
