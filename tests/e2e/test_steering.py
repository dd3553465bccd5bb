"""A person steers work that runs: paused, resumed, cancelled, tried again, with a real kernel and real workers."""

from typing import Any

from tests.e2e.processes import wait_until
from tests.project import TRUST, Project


def test_work_is_paused_resumed_cancelled_and_tried_again(shared_kernel: Project) -> None:
    """contracts 7: pause, resume, cancel, retry, inbox, show --prompt; exit codes 1 and 4 where a person is needed."""
    project = shared_kernel
    gate = project.root / "go"
    project.agent(
        "alice", 'shell: "echo step >> steps.log"', "shell: 'while [ ! -e go ]; do sleep 0.02; done'", "text: done"
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
