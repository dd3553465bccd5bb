"""A real kernel with ``idle_exit`` ends in order, and the next command starts another."""

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project


@pytest.mark.long("tests/kernel/services/test_idle_exit.py")
@pytest.mark.promise("P77")
def test_a_kernel_that_is_idle_ends_and_the_next_command_starts_one(project: Project) -> None:
    project.write(".agents.yaml", "idle_exit: 1s\n")
    project.agent("alice", 'text: "did ${{ message.text }}"')
    for text in ("one", "two"):
        sent = project.awk("send", "alice", text, "--wait")
        assert (sent.code, sent.out.strip()) == (0, f"did {text}")
        wait_until(lambda: not project.alive())
        assert not (project.state / "daemon.json").exists()
        assert "kernel.idle_exit" in (project.state / "kernel.log").read_text("utf-8")
