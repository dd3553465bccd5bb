"""The kernel's program is replaced while its log is copied elsewhere: the next one goes on, and leaves none behind."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from kernel.services.standby import END_SECONDS
from tests.e2e.processes import wait_until
from tests.e2e.test_standby import follows
from tests.e2e.test_upgrade import upgrade
from tests.project import Project

pytestmark = [
    pytest.mark.long("tests/kernel/services/test_upgrade.py"),
    pytest.mark.skipif(sys.platform != "linux", reason="an exec keeps what a file in memory holds"),
]


def copiers(project: Project) -> list[psutil.Process]:
    """The processes that copy, and what is left of such."""
    kernel = project.kernel()
    return [
        one
        for one in kernel.children()
        if one.status() == psutil.STATUS_ZOMBIE or "kernel.inspect.copier" in one.cmdline()
    ]


@pytest.mark.promise("P90", "P92")
@pytest.mark.parametrize("stands_still", [False, True])
def test_the_next_program_goes_on_copying_and_no_copier_stays(
    project: Project, tmp_path: Path, stands_still: bool
) -> None:
    far = tmp_path / "far"
    far.mkdir()
    project.write(".agents.yaml", f"standby: {{to: {far}, every: 100ms}}\n")
    project.agent("alice", "text: hi")
    assert project.awk("start", "--trust").code == 0
    wait_until(lambda: follows(project), 60)
    (before,) = copiers(project)
    if stands_still:
        os.kill(before.pid, signal.SIGSTOP)
    told = upgrade(project)
    assert (told["state"], told["waited_seconds"] < END_SECONDS) == ("done", True), "no agent waits for a copier"
    wait_until(lambda: follows(project), 60)
    (after,) = copiers(project)
    assert after.pid != before.pid
    assert not before.is_running()
    project.ended(project.send("alice", "one"))
    wait_until(lambda: project.awk("standby", "check", str(far), "--json").json()["message"] >= 2, 60)
