"""A kernel that its service keeps: it is started again when it died, says so, and is left alone when it was stopped."""

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.project import Project
from tests.service_manager import Manager

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="the unit is systemd's"), pytest.mark.promise("P72")]


@pytest.mark.long("tests/interface/test_service.py, tests/kernel/boot/test_service_end.py")
def test_a_killed_kernel_comes_back_and_says_so_and_a_stopped_one_does_not(project: Project, tmp_path: Path) -> None:
    """kill -9 under a manager that runs what the unit says: work is kept; status, log and event name the end."""
    project.agent("alice", "text: done")
    unit = project.awk("service", "print").out
    project.state.mkdir(parents=True, exist_ok=True)
    manager = Manager(unit, tmp_path, dict(project.environ))
    with manager.started() as kernel:
        assert project.record()["pid"] == kernel.pid
        assert project.awk("status", "--json").json()["notice"] is None
        assert project.ended(project.send("alice"))["status"] == "done"
        assert manager.ended(manager.spawn("/nowhere").wait(30)) is False, "a kernel runs: another start meets the same"
        kernel.send_signal(signal.SIGKILL)
        assert manager.ended(kernel.wait(30)) is True
    with manager.started() as kernel:
        notice = project.awk("status", "--json").json()["notice"]
        assert "was restarted by its service agent-worker-" in notice and "killed by SIGKILL" in notice
        assert "kernel.restarted the previous kernel died at " in (project.state / "kernel.log").read_text()
        events = map(json.loads, project.awk("events", "--jsonl").out.splitlines())
        started = [one for one in events if one["type"] == "kernel.started"]
        assert started[-1]["data"]["died"]["how"] == "killed by SIGKILL"
        assert project.ended(project.send("alice", "again"))["status"] == "done"
        assert project.awk("stop", "--now").code == 0
        assert manager.ended(kernel.wait(30)) is False
    with manager.started():
        assert project.awk("status", "--json").json()["notice"] is None, "it was stopped in order"
