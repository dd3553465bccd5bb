"""Approvals with a real kernel and real workers: granted, denied, expired; decided by a person and by nobody else."""

import json
import os
import signal
import sys
from typing import Any

import psutil
import pytest

from tests.e2e.processes import survivors, wait_until
from tests.project import Project

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


def coder(project: Project, name: str, *commands: str, more: str = "") -> None:
    """An agent that runs ``commands`` with bash, one after the other, and says what came of the last."""
    steps = "".join(f"  - {{ tool: bash, args: {{ command: {json.dumps(one)} }} }}\n" for one in commands)
    text = f"model: mock/x\nprompt: {{ system: hi }}\ntools: [bash]\n{more}mock:\n{steps}  - text: finished\n"
    project.write(f".agents/{name}.yaml", text)


def pending(project: Project) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = project.awk("pending", "--json").json()["approvals"]
    return rows


def ran(project: Project) -> list[str]:
    """What tools left behind, in order."""
    log = project.root / "ran.log"
    return log.read_text().split() if log.exists() else []


def test_a_scripted_model_that_asks_for_an_approval_itself_asks_nobody(project: Project) -> None:
    """auth_request is for what runs a model's tools: from a model it is an error that it reads, and it goes on."""
    project.agent("alice", "tool: auth_request, args: { tool: deploy, input: { to: prod } }", "text: went on")
    sent = project.awk("send", "alice", "go", "--wait")
    assert (sent.code, sent.out) == (0, "went on\n"), sent.err
    assert pending(project) == []
    shown = project.awk("show", "i1", "--json").json()
    assert (shown["approvals"], [call["tool"] for call in shown["steps"][0]["failed"]]) == ([], ["auth_request"])


@pytest.mark.promise("P6", "XF19")
def test_three_approvals_are_granted_denied_and_expired_by_nobody_but_a_person(project: Project) -> None:
    """The tool runs once if it is granted, and never otherwise; the agents go on with what they are told.

    A worker that got hold of the administrator's token is recognised as a process of ours.
    """
    coder(project, "alice", "echo alice >> ran.log")
    coder(project, "bob", "echo bob >> ran.log")
    coder(project, "carol", "echo carol >> ran.log", more="timeouts: { approval: 500ms }\n")
    project.write("approve.py", APPROVE)
    own = f"{sys.executable} approve.py {project.state}/daemon.json a1 >> answers.log"
    project.agent("mallory", f'shell: "{own}; setsid {own}"', "text: done")
    assert project.awk("start", "--trust").code == 0
    waiting = project.awk("send", "alice", "go", "--wait", "--json")
    assert (waiting.code, waiting.json()["results"][0]["waits_for"]) == (7, "approval")
    assert project.awk("send", "bob", "go", "--wait").code == 7
    table = {row["name"]: (row["state"], row["reason"]) for row in project.awk("ps", "--json").json()["agents"]}
    assert table["alice"] == table["bob"] == ("waiting", "approval")
    assert [(row["agent"], row["tool"], row["input"]) for row in pending(project)] == [
        ("alice", "bash", {"command": "echo alice >> ran.log"}),
        ("bob", "bash", {"command": "echo bob >> ran.log"}),
    ]
    assert project.awk("send", "mallory", "go", "--wait").code == 0
    assert (project.root / "answers.log").read_text().splitlines() == ["403 forbidden"] * 2
    assert project.awk("approve", "a1").code == 0
    assert project.awk("deny", "a2", "--reason", "not today").code == 0
    assert project.awk("send", "carol", "go").code == 0
    for name in ("alice", "bob", "carol"):
        end = project.until("instruction.ended", holds=lambda one, name=name: one["agent"] == name)  # type: ignore[misc]
        assert end["data"]["status"] == "done"
    assert ran(project) == ["alice"]
    decided = [project.awk("pending", f"a{n}", "--json").json() for n in (1, 2, 3)]
    assert [(one["state"], one["decided_by"], one["decision_reason"]) for one in decided] == [
        ("granted", "user", ""), ("denied", "user", "not today"), ("expired", "system", "nobody approved it in time"),
    ]  # fmt: skip


def test_a_kernel_that_is_killed_meanwhile_still_knows_what_waits(project: Project) -> None:
    """Kept over restarts: after kill -9 it is still pending; granted then, the tool runs exactly once."""
    coder(project, "alice", "echo alice >> ran.log")
    assert project.awk("send", "alice", "go", "--wait", env={"AGENT_WORKER_TRUST": "1"}).code == 7
    kernel = psutil.Process(int(project.record()["pid"]))
    os.kill(kernel.pid, signal.SIGKILL)
    assert survivors([kernel], seconds=10) == []
    wait_until(lambda: not project.alive())
    assert project.awk("start").code == 0
    assert [row["id"] for row in pending(project)] == ["a1"]
    assert project.awk("approve", "a1").code == 0
    assert project.until("instruction.ended")["data"]["status"] == "done"
    assert ran(project) == ["alice"]


def test_a_run_without_anybody_to_ask_ends_where_only_approvals_are_left(project: Project) -> None:
    """Headless: exit 7 at once; --approve auto runs it, --approve deny tells the agent."""
    coder(project, "alice", "echo ran >> ran.log")
    project.write(".workflows/go.yaml", 'agents: { alice: { ref: alice } }\nkickoff: "@alice go"\n')
    stopped = project.awk("run", "go", "--trust")
    assert stopped.code == 7
    assert "alice needs an approval to call bash" in stopped.err
    assert "--approve auto or deny" in stopped.out
    assert pending(project) == []
    assert project.awk("run", "go", "--trust", "--approve", "deny").code == 0
    assert ran(project) == []
    assert project.awk("run", "go", "--trust", "--approve", "auto").code == 0
    assert ran(project) == ["ran"]


def test_a_run_that_is_left_alone_waits_for_its_approvals(project: Project) -> None:
    """run --detach: whoever left it comes back to it; it does not end before anybody could approve."""
    coder(project, "alice", "echo ran >> ran.log")
    project.write(".workflows/go.yaml", 'agents: { alice: { ref: alice } }\nkickoff: "@alice go"\n')
    assert project.awk("run", "go", "--detach", "--trust").code == 0
    project.until("approval.requested")
    assert project.awk("send", "alice@go", "and then?").code == 0
    assert "(you are at this already: i1, " in project.awk("show", "i2", "--prompt").out
    assert project.awk("approve", "a1").code == 0
    project.until("instruction.ended", holds=lambda one: one["instruction"] == "i1")
    assert "ran" in ran(project)
