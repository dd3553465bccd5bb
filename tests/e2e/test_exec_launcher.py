"""AGENT_WORKER_LAUNCHER=exec: the same contract without a zygote, and what macOS uses."""

import signal
import uuid

import psutil
import pytest

from tests.e2e.processes import survivors, wait_for_mark
from tests.project import Project

EXEC = {"AGENT_WORKER_LAUNCHER": "exec", "AGENT_WORKER_TRUST": "1"}


@pytest.mark.long("tests/kernel/procs/test_launchers.py")
def test_a_message_is_answered_by_a_fresh_interpreter_and_with_every_optimisation_off(project: Project) -> None:
    project.agent("alice", "shell: 'echo hi > said'", "text: fresh")
    project.agent(
        "bob",
        "tool: write, args: { path: written, content: hi }",
        'tool: channel_send, args: { message: "half way" }',
        "text: done",
        more="tools: [files]\napproval: auto",
    )
    assert project.awk("start", env=EXEC).code == 0
    assert project.awk("send", "alice", "x", "--wait", env=EXEC).out.strip() == "fresh"
    assert (project.root / "said").read_text() == "hi\n"
    sent = project.awk("send", "bob", "x", "--wait", env=EXEC)
    assert sent.out.strip() == "done", sent.err
    assert (project.root / "written").read_text() == "hi"


@pytest.mark.promise("P7")
def test_its_trees_die_with_the_kernel_too(project: Project) -> None:
    mark = f"awk-test-{uuid.uuid4().hex}"
    project.agent("alice", f"""shell: "setsid sh -c 'while :; do sleep 1; done' {mark} & sleep 600\"""")
    assert project.awk("start", env=EXEC).code == 0
    project.send("alice")
    trees = wait_for_mark(mark, 1)
    psutil.Process(project.record()["pid"]).send_signal(signal.SIGKILL)
    assert survivors(trees, seconds=2) == []
