"""Approvals with a real kernel and real workers: granted, denied, expired; decided by a person and by nobody else."""

import sys
from typing import Any

import pytest

from tests.project import TRUST, Project

APPROVE = """
import json, sys, urllib.request
record = json.load(open(sys.argv[1]))
request = urllib.request.Request(
    record["url"] + "/approvals/" + sys.argv[2] + "/approve", b"{}",
    {"Authorization": "Bearer " + record["token"], "Content-Type": "application/json"},
)
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)["code"])
"""


def coder(project: Project, name: str, more: str = "") -> None:
    """An agent that leaves its name in a file with bash, and says that it is done."""
    project.write(
        f".agents/{name}.yaml",
        f"""
        model: mock/x
        prompt: {{ system: hi }}
        tools: [bash]
        {more}
        mock: [{{ tool: bash, args: {{ command: echo {name} >> {name}.log }} }}, {{ text: finished }}]
        """,
    )


def pending(project: Project, *agents: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = project.awk("pending", "--json").json()["approvals"]
    return [row for row in rows if row["agent"] in agents]


def asked_by(project: Project, agent: str) -> str:
    """The id of the first approval that ``agent`` asks for, once it does."""
    return str(project.until("approval.requested", holds=lambda event: bool(event["agent"] == agent))["data"]["id"])


def ran(project: Project, name: str) -> int:
    """How often the tool of ``name`` ran."""
    log = project.root / f"{name}.log"
    return len(log.read_text().split()) if log.exists() else 0


@pytest.mark.promise("P6", "XF19")
def test_three_approvals_are_granted_denied_and_expired_by_nobody_but_a_person(shared_kernel: Project) -> None:
    """The tool runs once if it is granted, and never otherwise; the agents go on with what they are told.

    A worker that got hold of the administrator's token is recognised as a process of ours.
    """
    project = shared_kernel
    coder(project, "alice")
    coder(project, "bob")
    coder(project, "carol", "timeouts: { approval: 500ms }")
    waiting = project.awk("send", "alice", "go", "--wait", "--json", env=TRUST)
    assert (waiting.code, waiting.json()["results"][0]["waits_for"]) == (7, "approval")
    assert project.awk("send", "bob", "go", "--wait", env=TRUST).code == 7
    table = {row["name"]: (row["state"], row["reason"]) for row in project.ask("GET", "/ps")["agents"]}
    assert table["alice"] == table["bob"] == ("waiting", "approval")
    assert [(row["agent"], row["tool"], row["input"]) for row in pending(project, "alice", "bob")] == [
        ("alice", "bash", {"command": "echo alice >> alice.log"}),
        ("bob", "bash", {"command": "echo bob >> bob.log"}),
    ]
    of_alice, of_bob = asked_by(project, "alice"), asked_by(project, "bob")
    project.write("approve.py", APPROVE)
    own = f"{sys.executable} approve.py {project.state}/admin.json {of_alice} >> answers.log"
    project.agent("mallory", f'shell: "{own}; setsid {own}"', "text: done")
    assert project.ended(project.send("mallory"))["status"] == "done"
    assert (project.root / "answers.log").read_text().splitlines() == ["403 forbidden"] * 2
    assert project.awk("approve", of_alice).code == 0
    assert project.awk("deny", of_bob, "--reason", "not today").code == 0
    project.send("carol")
    for name in ("alice", "bob", "carol"):
        end = project.until("instruction.ended", holds=lambda one, name=name: one["agent"] == name)  # type: ignore[misc]
        assert end["data"]["status"] == "done"
    assert [ran(project, name) for name in ("alice", "bob", "carol")] == [1, 0, 0]
    decided = [project.awk("pending", one, "--json").json() for one in (of_alice, of_bob, asked_by(project, "carol"))]
    assert [(one["state"], one["decided_by"], one["decision_reason"]) for one in decided] == [
        ("granted", "user", ""), ("denied", "user", "not today"), ("expired", "system", "not approved in time"),
    ]  # fmt: skip


@pytest.mark.long("tests/kernel/policy/test_run_completion.py")
def test_a_run_without_anybody_to_ask_ends_where_only_approvals_are_left(shared_kernel: Project) -> None:
    """Headless: exit 7 at once; --approve auto runs it, --approve deny tells the agent."""
    project = shared_kernel
    coder(project, "lone")
    project.write(".workflows/go.yaml", 'agents: { alice: { ref: lone } }\nkickoff: "@alice go"\n')
    stopped = project.awk("run", "go", "--trust")
    assert stopped.code == 7
    assert "alice needs an approval to call bash" in stopped.err
    assert "--approve auto or deny" in stopped.out
    assert pending(project, "alice", "lone") == []
    assert project.awk("run", "go", "--trust", "--approve", "deny").code == 0
    assert ran(project, "lone") == 0
    assert project.awk("run", "go", "--trust", "--approve", "auto").code == 0
    assert ran(project, "lone") == 1
