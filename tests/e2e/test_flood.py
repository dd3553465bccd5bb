"""Connections by the hundred at a real kernel that may have few descriptors."""

import resource
import socket
import subprocess
from contextlib import ExitStack

import pytest

from tests.project import AWK, Project

pytestmark = pytest.mark.promise("P9")

DESCRIPTORS = 256


def start(project: Project, soft: int, hard: int) -> None:
    """Start the project's kernel with these limits of descriptors."""
    command = f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$0" start'
    argv = ["/bin/sh", "-c", command, str(AWK)]
    subprocess.run(argv, cwd=project.root, env=project.environ, timeout=60, check=True, capture_output=True)


@pytest.mark.promise("P9")
@pytest.mark.long("tests/kernel/policy/test_connections.py")
def test_idle_connections_do_not_lock_out_the_owner(project: Project) -> None:
    """701 connections that say nothing, 256 descriptors: commands and agents go on."""
    project.agent("alice", "text: hi")
    start(project, DESCRIPTORS, DESCRIPTORS)
    port = project.record()["port"]
    with ExitStack() as crowd:
        for _ in range(701):
            crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        assert project.awk("ps").code == 0
        assert project.awk("send", "alice", "x", "--wait").out.strip() == "hi"
        assert project.kernel().num_fds() < DESCRIPTORS / 2
    assert "Traceback" not in (project.state / "kernel.log").read_text()


def test_what_a_kernel_starts_has_the_limit_that_it_was_started_with(project: Project) -> None:
    project.agent("alice", "shell: ulimit -S -n; ulimit -H -n", "text: hi")
    start(project, 200, 400)
    assert project.ended(project.send("alice"))["status"] == "done"
    kernel = project.kernel()
    assert kernel.rlimit(resource.RLIMIT_NOFILE) == (400, 400)
    below = [child.rlimit(resource.RLIMIT_NOFILE) for child in kernel.children(recursive=True)]
    assert below
    assert set(below) == {(200, 400)}
