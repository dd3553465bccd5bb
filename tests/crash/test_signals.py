"""Signals to a real kernel, at good times and at bad ones."""

import signal
import sys

import pytest

from protocol.discovery import DATABASE
from tests.crash.life import Life
from tests.crash.oracle import integrity, judge
from tests.crash.trial import lineage
from tests.e2e.processes import wait_until
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a worker's tree is proved gone by its keeper's lock")

HURRY_SECONDS = 3.0


@pytest.mark.promise("PF18", "PF19")
@pytest.mark.long("tests/e2e/test_kernel_life.py")
def test_a_second_sigterm_waits_for_nobody_and_sighup_is_nothing(project: Project) -> None:
    """A worker that ignores SIGTERM; gone within 3 s, the file whole, the work goes on later."""
    project.agent("alice", "shell: 'touch begun; [ -e go ] || { trap \"\" TERM; sleep 600; }'", "text: finished")
    with Life(project) as life:
        life.wait_ready()
        instruction = life.send("alice")
        wait_until((project.root / "begun").exists)
        life.kill(signal.SIGHUP)
        assert life.ask("GET", "/ready").status == 200
        life.kill(signal.SIGTERM)
        wait_until(lambda: life.ask("GET", "/ready").body["status"] == "stopping")
        life.kill(signal.SIGTERM)
        assert life.wait_dead(HURRY_SECONDS) == 0
    assert integrity(project.state / DATABASE) == []
    (project.root / "go").touch()
    with Life(project) as life:
        life.wait_ready()
        life.until_done(instruction)
        assert life.stop() == 0
    assert judge(project.state / DATABASE, []) == []


@pytest.mark.promise("PF20")
@pytest.mark.long("tests/crash/test_crash_points.py")
def test_sigint_in_the_middle_of_a_commit_is_a_stop_like_any_other(project: Project) -> None:
    outcome = lineage(project, ("store.commit:9/SIGINT", "store.committed:14/SIGINT"))
    assert outcome.violations == []
    assert outcome.died_at == [], "it was asked to stop, not killed"


@pytest.mark.promise("PF24")
@pytest.mark.long("tests/e2e/test_killed.py")
def test_a_worker_that_ends_its_kernel_ends_it_gently(project: Project) -> None:
    project.write(
        ".agents/alice.yaml",
        """
        backend: mock
        mock:
          - when: 'end (?P<pid>\\d+)'
            do:
              - { shell: "kill -TERM ${{ match.pid }}" }
              - { text: survived }
        """,
    )
    with Life(project) as life:
        life.wait_ready()
        instruction = life.send("alice", f"end {life.pid}")
        assert life.wait_dead() == 0
    with Life(project) as life:
        life.wait_ready()
        assert life.until_done(instruction)["text"] == "survived"
        assert project.until("kernel.stopping")["data"] == {"by": "SIGTERM"}
