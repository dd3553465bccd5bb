"""A person steers work that runs: paused, resumed, cancelled, tried again, with a real kernel and real workers."""

from typing import Any

import pytest

from tests.e2e.processes import marked, survivors, wait_until
from tests.project import Project

TRUST = {"AGENT_WORKER_TRUST": "1"}


def test_work_is_paused_resumed_cancelled_and_tried_again(shared_kernel: Project) -> None:
    """contracts 7: pause, resume, cancel, retry, inbox, show --prompt; exit codes 1 and 4 where a person is needed."""
    project = shared_kernel
    gate = project.root / "go"
    project.agent(
        "alice",
        'shell: "echo step >> steps.log"',
        "shell: 'while [ ! -e go ]; do sleep 0.02; done'",
        "text: done",
    )
    project.agent("bob", "error: { http_status: 401 }", "text: never")
    steps = project.root / "steps.log"

    def shown(instruction: str) -> dict[str, Any]:
        found: dict[str, Any] = project.ask("GET", f"/instructions/{instruction}")
        return found

    def send(agent: str, *more: str) -> Any:
        return project.awk("send", agent, "go", "--json", *more, env=TRUST)

    first = send("alice").json()["instruction_ids"][0]
    wait_until(steps.exists)
    assert project.awk("pause", "alice").out == "alice is paused\n"
    held = send("alice", "--wait")
    (result,) = held.json()["results"]
    assert (held.code, result["status"], result["waits_for"]) == (1, "waiting", "paused")
    second = result["instruction_id"]
    assert "go" in project.awk("show", second, "--prompt").out
    assert len(project.awk("inbox", "alice", "--json").json()["deliveries"]) == 2
    gate.touch()  # what runs gives way after its next entry, and keeps what it did
    wait_until(lambda: shown(first)["status"] not in ("leased", "running"))
    assert project.awk("cancel", second).code == 0
    assert project.awk("cancel", second).code == 1
    assert project.awk("resume", "alice").code == 0
    wait_until(lambda: shown(first)["status"] == "done")
    assert steps.read_text() == "step\n"

    refused = send("bob", "--wait")
    (result,) = refused.json()["results"]
    assert (refused.code, result["status"], result["waits_for"]) == (4, "waiting", "credentials")
    project.agent("bob", "text: let in")
    assert project.awk("reset", "bob").code == 0
    wait_until(lambda: shown(result["instruction_id"])["text"] == "let in")

    project.agent("bob", "error: { http_status: 400 }")
    failed = send("bob", "--wait")
    assert (failed.code, failed.json()["results"][0]["status"]) == (1, "failed")
    project.agent("bob", "text: mended")
    again = failed.json()["results"][0]["instruction_id"]
    assert project.awk("retry", again).code == 0
    wait_until(lambda: shown(again)["text"] == "mended")
    assert project.awk("retry", again).code == 1


@pytest.mark.promise("P5")
@pytest.mark.long("test_work_is_paused_resumed_cancelled_and_tried_again")
def test_an_agent_and_the_kernel_are_restarted_and_no_step_is_made_twice(shared_kernel: Project) -> None:
    """contracts 7: restart TARGET and restart --kernel: what runs goes on after its last entry."""
    project = shared_kernel
    project.agent(
        "carol",
        'shell: "echo step >> carol.log"',
        "shell: 'touch carol.waits; while [ ! -e carol.goes ]; do sleep 0.02; done'",
        "text: done",
    )
    pid = project.record()["pid"]
    sent = project.send("carol")
    wait_until((project.root / "carol.waits").exists)  # the next step has begun, so the one before it is durable
    assert project.awk("restart", "carol").code == 0
    project.until("attempt.started", holds=lambda event: event["data"]["attempt"] == f"{sent}-2")
    again = project.awk("restart", "--kernel", "--json")
    assert (again.code, again.json()["state"]) == (0, "up")
    assert project.record()["pid"] != pid
    (project.root / "carol.goes").touch()
    assert project.ended(sent)["status"] == "done"
    assert (project.root / "carol.log").read_text() == "step\n"


@pytest.mark.skipif("sys.platform != 'linux'", reason="whole trees need a subreaper")
@pytest.mark.promise("P8")
@pytest.mark.long("tests/kernel/api/test_steering.py")
def test_stop_says_stopped_when_nothing_of_the_agent_runs_any_more(project: Project) -> None:
    """A program that never spoke, and takes its time over SIGTERM: stop returns after its end, and long before 10 s."""
    mark = f"stubborn-{project.root.name}"
    project.write(
        ".agents/alice.yaml",
        f"""
        backend: exec
        command: [sh, -c, "trap 'sleep 0.4; exit' TERM; : > up; while :; do sleep 0.02; done", {mark}]
        """,
    )
    assert project.awk("start", "--trust").code == 0
    assert project.awk("send", "alice", "go").code == 0
    wait_until((project.root / "up").exists)
    tree = marked(mark)
    assert tree and project.awk("stop", "alice").out == "stopped alice\n"
    assert survivors(tree, 0) == []
