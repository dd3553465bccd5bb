"""A kernel that holds the lock of the project and does not answer: no command takes it for one that is not there."""

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from interface import autostart
from interface.discovery import Project, is_locked
from kernel.boot.state_dir import take_lock
from protocol.discovery import LOCK, project_state
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble


@pytest.fixture
def closed_port() -> str:
    """An address at which nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def hanging(cli: Cli, closed_port: str, monkeypatch: pytest.MonkeyPatch) -> "Iterator[subprocess.Popen[bytes]]":
    """The process of a kernel that has the lock and a record, and answers nothing."""
    monkeypatch.setattr("interface.cli.context.PROOF_SECONDS", 0.0)
    record = KernelDouble().publish(cli.home, cli.root)
    lock = os.open(record.parent / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    held = f"import time; print(flush=True); time.sleep(600)  # {record.parent}"
    with subprocess.Popen([sys.executable, "-c", held], stdout=subprocess.PIPE, pass_fds=[lock]) as kernel:
        os.close(lock)
        assert kernel.stdout is not None
        kernel.stdout.readline()
        KernelDouble().publish(cli.home, cli.root, pid=kernel.pid, url=closed_port)
        yield kernel
        kernel.kill()


@pytest.mark.parametrize(
    "words",
    [
        "status", "status alice", "stop", "stop --yes", "ps", "needs", "stats", "backends", "agent list",
        "agent info alice", "agent delete alice --yes", "start --foreground", "channel @main", "logs",
    ],
)  # fmt: skip
def test_no_command_says_that_no_kernel_runs(words: str, cli: Cli, hanging: "subprocess.Popen[bytes]") -> None:
    """Fault F3: exit code 69, the process, and what ends it; nothing is changed behind its back."""
    (cli.root / ".agents" / "alice.yaml").write_text("backend: mock\nmock:\n- text: hi\n")
    ran = cli(*words.split())
    assert (ran.code, "no kernel is running" in ran.out + ran.err) == (69, False), ran
    assert f"does not answer (pid {hanging.pid})" in ran.err
    assert "awk stop --now" in ran.err
    assert hanging.poll() is None
    assert (cli.root / ".agents" / "alice.yaml").read_text() == "backend: mock\nmock:\n- text: hi\n"


def test_stop_now_kills_it(cli: Cli, hanging: "subprocess.Popen[bytes]") -> None:
    """Fault F3: who wants no grace means the process."""
    ran = cli("stop", "--now", "--yes")
    assert (ran.code, ran.out) == (0, f"killed {hanging.pid}\n")
    assert hanging.wait() == -9
    assert cli("status").code == 3


def test_a_record_that_is_gone_or_not_believed_hides_no_kernel(cli: Cli, hanging: "subprocess.Popen[bytes]") -> None:
    record = Path(project_state(str(cli.home), str(cli.root))) / "daemon.json"
    record.chmod(0o644)
    for _ in range(2):
        for words in ("status", "stop --now --yes"):
            ran = cli(*words.split())
            assert (ran.code, LOCK in ran.err) == (69, True), ran
        record.unlink(missing_ok=True)
    assert hanging.poll() is None


def test_doctor_leaves_its_database_alone(
    cli: Cli, hanging: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr("kernel.inspect.doctor.check_database", opened.append)
    record = Path(project_state(str(cli.home), str(cli.root)))
    (record / "agent-worker.db").write_bytes(b"")
    ran = cli("doctor")
    assert (ran.code, opened) == (1, [])
    assert f"does not answer (pid {hanging.pid})" in ran.out


def test_to_look_at_the_lock_keeps_no_kernel_away(tmp_path: Path) -> None:
    project = Project(str(tmp_path), str(tmp_path))
    assert not is_locked(project)
    (tmp_path / LOCK).touch(0o600)
    look = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", look, str(tmp_path / LOCK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdin is not None
        client.stdout.readline()
        client.stdin.close()
        assert take_lock(str(tmp_path / LOCK)) is not None
    assert is_locked(project)
    assert take_lock(str(tmp_path / LOCK)) is None


@pytest.mark.parametrize("words", ["send alice hi", "agent memory alice"])
def test_who_would_start_one_hears_of_it(
    words: str, cli: Cli, hanging: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault F3: `awk send` hints at the kernel that is in the way, not at a log that says there is one."""

    def command(project: Project, *flags: str) -> list[str]:
        return [sys.executable, "-c", ""]  # it finds the lock taken

    monkeypatch.setattr(autostart, "command", command)
    monkeypatch.setattr(autostart, "START_SECONDS", 2.0)
    ran = cli(*words.split())
    assert (ran.code, f"does not answer (pid {hanging.pid}): no response within 2 s" in ran.err) == (69, True), ran
    assert "awk stop --now" in ran.err
