"""The kernel as process 1 of a container. Real namespaces, where this machine permits them."""

import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from protocol.discovery import DATABASE
from tests.crash.life import KERNEL, Life
from tests.crash.oracle import judge
from tests.e2e.processes import wait_until, zygote_of
from tests.project import Project

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not may_unshare(), reason="this machine lets nobody make a PID namespace")


def inner_tree(life: Life) -> tuple[psutil.Process, psutil.Process]:
    """Process 1 and the kernel, as this side of the wall numbers them."""
    (init,) = psutil.Process(life.pid).children()
    (kernel,) = init.children()
    return init, kernel


@pytest.mark.parametrize(
    "program", [KERNEL, ("-m", "interface", "awk", "", "start", "--foreground")], ids=["kernel", "awk"]
)
@pytest.mark.long("tests/worker/test_keeper.py")
def test_process_1_reaps_orphans_and_passes_signals_on(program: tuple[str, ...], project: Project) -> None:
    """No zombie stays, work is done, and SIGTERM to process 1 is a clean stop with code 0."""
    project.agent("alice", "text: from inside")
    with Life(project, command=(*UNSHARE, sys.executable), program=program) as life:
        life.wait_ready()
        init, kernel = inner_tree(life)
        assert project.record()["pid"] == 2
        life.until_done(life.send("alice"))
        zygote = zygote_of(kernel)
        orphans = zygote.children(recursive=True)
        assert orphans
        zygote.kill()
        wait_until(lambda: not any(one.is_running() for one in (zygote, *orphans)))
        init.send_signal(signal.SIGTERM)
        assert life.wait_dead() == 0
    assert judge(project.state / DATABASE, []) == []
