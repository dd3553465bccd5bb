"""A message, from the command line to the durable reply."""

import signal

import psutil
import pytest

from tests.e2e.processes import survivors, wait_until
from tests.project import Project


def test_a_message_is_answered_and_nothing_is_left_running(project: Project) -> None:
    project.agent("alice", 'text: "looked at ${{ message.text }}"')
    assert project.awk("start").code == 0
    kernel = psutil.Process(project.record()["pid"])
    sent = project.awk("send", "alice", "X", "--wait", "--json")
    assert sent.code == 0, sent.err
    assert [(r["agent"], r["status"], r["text"]) for r in sent.json()["results"]] == [("alice", "done", "looked at X")]
    tree = [kernel, *kernel.children(recursive=True)]
    assert project.awk("stop", "--yes").code == 0
    assert survivors(tree, seconds=5) == []
    assert project.awk("ps").code == 69, "no kernel, for commands that do not start one"


@pytest.mark.promise("P1")
@pytest.mark.long("tests/crash/test_crash_points.py")
def test_an_accepted_message_survives_kill_9_and_is_answered_by_the_next_kernel(project: Project) -> None:
    """202 means it is on disk, and its work is done whatever happens."""
    project.agent("alice", "sleep: 30")
    assert project.awk("start").code == 0
    sent = project.send("alice")
    psutil.Process(project.record()["pid"]).send_signal(signal.SIGKILL)
    project.agent("alice", "text: after")
    assert project.awk("start").code == 0
    assert project.ended(project.send("alice"))["text"] == "after"
    shown = project.awk("show", sent, "--json").json()
    assert (shown["status"], shown["text"]) == ("done", "after")


@pytest.mark.promise("P5")
@pytest.mark.long("tests/crash/test_crash_points.py, tests/sim/test_exactly_once.py")
def test_steps_that_are_durable_are_not_made_again(project: Project) -> None:
    """After kill -9 the work goes on at the step it had reached."""
    project.agent(
        "alice",
        *['shell: "echo step >> steps.log"'] * 3,
        "shell: 'touch waiting; while [ ! -e go ]; do sleep 0.05; done'",
        "text: done",
    )
    assert project.awk("start", "--trust").code == 0
    sent = project.send("alice")
    steps = project.root / "steps.log"
    wait_until((project.root / "waiting").exists)  # the next step has begun, so the three before it are durable
    psutil.Process(project.record()["pid"]).send_signal(signal.SIGKILL)
    (project.root / "go").touch()
    assert project.awk("start", "--trust").code == 0
    assert project.ended(project.send("alice"))["status"] == "done"
    assert project.ended(sent)["text"] == "done"
    assert steps.read_text().count("step") == 6  # three for X, three for Y, none twice
