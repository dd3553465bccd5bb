"""A kernel that would only die again does nothing, says so, and is easily brought back."""

import signal
import sys
from contextlib import suppress

import pytest

from tests.crash.life import Gone, Life
from tests.e2e.processes import wait_until
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a worker's tree is proved gone by its keeper's lock")


def wait_begun(project: Project, attempt: str) -> None:
    project.until("attempt.started", holds=lambda event: event["data"]["attempt"] == attempt)


@pytest.mark.promise("P13")
@pytest.mark.long("tests/kernel/boot")
def test_after_three_kernels_that_died_at_once_the_next_one_starts_no_work(project: Project) -> None:
    """API up, nothing leased, status says what to do; a stop and a start bring it back.

    Kernels that are killed are not charged to who only waited meanwhile: alice's worker is at a tool at three deaths,
    and is done in the end.
    """
    project.agent("alice", "sleep: 60", "text: never")
    project.agent("bob", "text: at work again")
    with Life(project) as life:
        life.wait_ready()
        alice = life.send("alice")
        kill_at_work(project, life, "i1-1")
    with Life(project) as life:
        kill_at_work(project, life, "i1-2")
    with suppress(Gone), Life(project, crash_at="store.commit:2") as life:
        life.wait_ready()
    assert life.wait_dead() == -signal.SIGKILL
    with Life(project) as life:
        life.wait_ready(accept=(503,))
        wait_until(lambda: life.ask("GET", "/ready").body["status"] == "safe_mode")
        bob = life.send("bob")
        status = project.awk("status")
        assert (status.code, status.out.partition(" ")[0]) == (0, "degraded")
        assert "then restart the kernel" in status.out
        assert "safe mode" in project.awk("send", "bob", "y").err
        assert [life.ask("GET", path).body["status"] for path in (alice, bob)] == ["queued", "queued"]
        assert project.awk("stop", "--yes").code == 0
        assert life.wait_dead() == 0
    with Life(project) as life:
        kill_at_work(project, life, "i1-3")
    project.agent("alice", "text: done after all")
    with Life(project) as life:
        life.wait_ready()
        wait_until(lambda: life.ask("GET", bob).body["text"] == "at work again")
        wait_until(lambda: life.ask("GET", alice).body["text"] == "done after all")


def kill_at_work(project: Project, life: Life, attempt: str) -> None:
    life.wait_ready()
    wait_begun(project, attempt)
    life.kill()
    life.wait_dead()
