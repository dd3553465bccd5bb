"""One kernel: what a command starts, what it answers and is waited for, how it ends, and how much it may open."""

import resource
import signal
import socket
import subprocess
import uuid
from contextlib import ExitStack

import pytest

from tests.e2e.processes import survivors, wait_for_mark, wait_until
from tests.project import AWK, Project


def test_a_message_is_answered_and_nothing_is_left_running(project: Project) -> None:
    project.agent("alice", 'text: "looked at ${{ message.text }}"')
    assert project.awk("start").code == 0
    kernel = project.kernel()
    sent = project.awk("send", "alice", "X", "--wait", "--json")
    assert sent.code == 0, sent.err
    assert [(r["agent"], r["status"], r["text"]) for r in sent.json()["results"]] == [("alice", "done", "looked at X")]
    tree = [kernel, *kernel.children(recursive=True)]
    assert project.awk("stop", "--yes").code == 0
    assert survivors(tree, seconds=5) == []
    assert project.awk("ps").code == 69, "no kernel, for commands that do not start one"


def test_an_agent_that_works_is_waited_for(project: Project) -> None:
    """124 while it is at work, 0 once that is over."""
    project.agent("alice", "sleep: 600")
    assert project.awk("send", "alice", "work").code == 0
    assert project.awk("wait", "alice", "--for", "idle", "--timeout", "1s").code == 124
    assert project.awk("cancel", "i1").code == 0
    assert project.awk("wait", "alice", "--for", "idle").out == "alice: idle\n"


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long("[SIGINT]"))],
    ids=lambda number: number.name,
)
def test_a_signal_to_it_alone_ends_the_kernel_and_it(project: Project, number: signal.Signals) -> None:
    words = [str(AWK), "start", "--foreground"]
    with subprocess.Popen(
        words, cwd=project.root, env=project.environ, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            ready = next(line for line in process.stderr if "kernel.ready" in line)
            process.send_signal(number)
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, "http://" in ready) == (0, True)
    assert not project.alive()


EXEC = {"AGENT_WORKER_LAUNCHER": "exec", "AGENT_WORKER_TRUST": "1"}


@pytest.mark.promise("P7")
def test_its_trees_die_with_the_kernel_too(project: Project) -> None:
    mark = f"awk-test-{uuid.uuid4().hex}"
    project.agent("alice", f"""shell: "setsid sh -c 'while :; do sleep 1; done' {mark} & sleep 600\"""")
    assert project.awk("start", env=EXEC).code == 0
    project.send("alice")
    trees = wait_for_mark(mark, 1)
    project.kill()
    assert survivors(trees, seconds=2) == []


@pytest.mark.long("tests/kernel/services/test_supervision.py")
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


DESCRIPTORS = 256


def start_with(project: Project, soft: int, hard: int) -> None:
    """Start the project's kernel with these limits of descriptors."""
    command = f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$0" start'
    argv = ["/bin/sh", "-c", command, str(AWK)]
    subprocess.run(argv, cwd=project.root, env=project.environ, timeout=60, check=True, capture_output=True)


@pytest.mark.promise("P9")
@pytest.mark.long("tests/kernel/policy/test_connections.py")
def test_idle_connections_do_not_lock_out_the_owner(project: Project) -> None:
    """701 connections that say nothing, 256 descriptors: commands and agents go on."""
    project.agent("alice", "text: hi")
    start_with(project, DESCRIPTORS, DESCRIPTORS)
    port = project.record()["port"]
    with ExitStack() as crowd:
        for _ in range(701):
            crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        assert project.awk("ps").code == 0
        assert project.awk("send", "alice", "x", "--wait").out.strip() == "hi"
        assert project.kernel().num_fds() < DESCRIPTORS / 2
    assert "Traceback" not in (project.state / "kernel.log").read_text()


@pytest.mark.promise("P9")
def test_what_a_kernel_starts_has_the_limit_that_it_was_started_with(project: Project) -> None:
    project.agent("alice", "shell: ulimit -S -n; ulimit -H -n", "text: hi")
    start_with(project, 200, 400)
    assert project.ended(project.send("alice"))["status"] == "done"
    kernel = project.kernel()
    assert kernel.rlimit(resource.RLIMIT_NOFILE) == (400, 400)
    below = [child.rlimit(resource.RLIMIT_NOFILE) for child in kernel.children(recursive=True)]
    assert below
    assert set(below) == {(200, 400)}
