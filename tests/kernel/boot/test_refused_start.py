"""A kernel that cannot begin says why in one line, and leaves nothing behind. Real processes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernel.procs.process_limits import NEEDED_TASKS, limits_fault
from protocol.discovery import LOCK, RECORD, project_state


@pytest.mark.parametrize("name", [RECORD, LOCK])
def test_what_stands_in_the_way_is_named(name: str, tmp_path: Path) -> None:
    """contracts 7: exit 78, no traceback: the last lines of the log are what the user sees."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    state = Path(project_state(str(home), str(project.resolve())))
    (state / name).mkdir(parents=True)
    command = [sys.executable, "-I", "-m", "kernel", "--project", str(project)]
    environ = {"PATH": os.defpath, "HOME": str(tmp_path), "AGENT_WORKER_HOME": str(home)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (78, 1)
    assert str(state / name) in ended.stderr
    assert [path.name for path in state.iterdir() if path.name.startswith(RECORD)] == [RECORD] * (name == RECORD)


def test_a_limit_of_open_files_that_is_too_low_is_refused_at_once(tmp_path: Path) -> None:
    """Fault F13: `start` ended with 0, and its kernel ten seconds later with EMFILE."""
    command = [sys.executable, "-I", "-m", "kernel", "--project", str(tmp_path)]
    low = ["/bin/sh", "-c", 'ulimit -n 28 && exec "$@"', "sh", *command]
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    ended = subprocess.run(low, env=environ, capture_output=True, text=True, timeout=20, check=False)
    said = "error: a process may open 28 files, and a kernel needs 64: raise it with ulimit -n\n"
    assert (ended.returncode, ended.stderr) == (78, said)
    assert not (tmp_path / ".agent-worker").exists()


@pytest.mark.parametrize(("left", "fault"), [(NEEDED_TASKS, False), (NEEDED_TASKS - 1, True), (0, True)])
def test_a_limit_of_processes_that_is_too_low_is_told_in_a_sentence(
    left: int, fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault F13: 35 lines of traceback. Root has no such limit, so the system's refusal is played here."""
    start, started = threading.Thread.start, list[threading.Thread]()

    def refuse(thread: threading.Thread) -> None:
        if len(started) == left:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    told = limits_fault()
    assert (told is not None) == fault
    assert not fault or f"only {left} can be started: raise the limit with ulimit -u" in str(told)
    assert not any(thread.is_alive() for thread in started)
