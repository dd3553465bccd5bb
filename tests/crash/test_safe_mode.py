"""A kernel that would only die again does nothing, says so, and is easily brought back."""

import signal
import sys
from contextlib import suppress

import pytest

from tests.crash.life import Gone, Life
from tests.e2e.processes import wait_until
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a worker's tree is proved gone by its keeper's lock")


def test_after_three_kernels_that_died_at_once_the_next_one_starts_no_work(project: Project) -> None:
    """API up, nothing leased, status says what to do; a stop and a start bring it back."""
    project.agent("alice", "text: at work again")
    for _ in range(3):
        with suppress(Gone), Life(project, crash_at="store.commit:2") as life:
            life.wait_ready()
        assert life.wait_dead() == -signal.SIGKILL
    with Life(project) as life:
        life.wait_ready(accept=(503,))
        wait_until(lambda: life.ask("GET", "/ready").body["status"] == "safe_mode")
        sent = life.ask("POST", "/messages", {"to": "alice", "text": "x"}, "k")
        assert sent.status == 202
        path = f"/instructions/{sent.body['instruction_ids'][0]}"
        status = project.awk("status")
        assert (status.code, status.out.partition(" ")[0]) == (0, "degraded")
        assert "stop it and start it again" in status.out
        assert "safe mode" in project.awk("send", "alice", "y").err
        assert life.ask("GET", path).body["status"] == "queued"
        assert project.awk("stop", "--yes").code == 0
        assert life.wait_dead() == 0
    with Life(project) as life:
        life.wait_ready()
        wait_until(lambda: life.ask("GET", path).body["text"] == "at work again")


def wait_begun(project: Project, attempt: str) -> None:
    """Return once the worker of ``attempt`` runs."""
    project.until("attempt.started", holds=lambda event: event["data"]["attempt"] == attempt)


@pytest.mark.promise("P13")
def test_kernels_that_are_killed_are_not_charged_to_who_only_waited_meanwhile(project: Project) -> None:
    """Its worker was at a tool each time, and it is done in the end."""
    project.agent("alice", "sleep: 60", "text: never")
    with Life(project) as life:
        life.wait_ready()
        sent = life.ask("POST", "/messages", {"to": "alice", "text": "x"}, "k")
        path = f"/instructions/{sent.body['instruction_ids'][0]}"
        wait_begun(project, "i1-1")
        life.kill()
        life.wait_dead()
    for attempt in ("i1-2", "i1-3"):
        with Life(project) as life:
            life.wait_ready()
            wait_begun(project, attempt)
            life.kill()
            life.wait_dead()
    project.agent("alice", "text: done after all")
    with Life(project) as life:
        life.wait_ready(accept=(200, 503))
        assert life.ask("GET", path).body["status"] not in ("dead", "failed")
        assert project.awk("stop", "--yes").code == 0
        life.wait_dead()
    with Life(project) as life:
        life.wait_ready()
        wait_until(lambda: life.ask("GET", path).body["text"] == "done after all")
