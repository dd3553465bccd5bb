"""Everything that can be killed is killed, and no work or tree is lost or left."""

import os
import signal
import sys
import uuid

import psutil
import pytest

from protocol.discovery import RECORD
from tests.e2e.processes import marked, survivors, wait_for_mark, wait_until
from tests.project import Project

ROUNDS = int(os.environ.get("AWK_TEST_KILL_ROUNDS", "3"))
"""How often the kernel is killed: 30 for the figure in docs/contributing/promises.md."""
WORKERS = 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whole trees need a subreaper")


def orphan(mark: str, number: int) -> str:
    """A shell action that leaves a grandchild in a session of its own, and holds the worker until ``go-<number>``."""
    program = "import signal,time;signal.signal(15,1);time.sleep(600)"
    orphaned = f"setsid {sys.executable} -c '{program}' {mark} >/dev/null 2>&1 & sleep 600"
    return f"""shell: "[ -e go-{number} ] || {{ {orphaned}; }}\""""


def test_a_kernel_told_to_stop_in_its_first_moments_ends_in_order(project: Project) -> None:
    assert project.awk("start").code == 0
    kernel = project.kernel()
    kernel.send_signal(signal.SIGTERM)
    psutil.wait_procs([kernel], timeout=30)
    assert not kernel.is_running()
    assert "kernel.stopped" in (project.state / "kernel.log").read_text()
    assert not (project.state / RECORD).exists()


@pytest.mark.promise("P1", "P7", "PF09")
@pytest.mark.long("tests/kernel/procs/test_sweep.py, tests/crash/test_crash_points.py")
def test_no_tree_outlives_its_kernel_and_no_accepted_message_is_lost(project: Project) -> None:
    """Twenty workers with setsid grandchildren, kill -9, again and again."""
    mark = f"awk-test-{uuid.uuid4().hex}"
    for number in range(WORKERS):
        project.agent(f"a{number}", *(orphan(mark, step) for step in range(ROUNDS)), "text: finished")
    assert project.awk("start", "--trust").code == 0
    accepted = [project.send(f"a{number}") for number in range(WORKERS)]
    for step in range(ROUNDS):
        trees = wait_for_mark(mark, WORKERS)
        project.kill()
        assert survivors(trees, seconds=2) == []
        (project.root / f"go-{step}").touch()  # who gets no further is taken for what kills kernels
        assert project.awk("start", "--trust").code == 0
    for instruction in [project.send(f"a{number}", "after") for number in range(WORKERS)]:
        ended = project.until("instruction.ended", holds=lambda one, sought=instruction: one["instruction"] == sought)  # type: ignore[misc]
        assert ended["data"]["status"] == "done"
    shown = [project.ask("GET", f"/instructions/{instruction}") for instruction in accepted]
    assert [(one["status"], one["text"]) for one in shown] == [("done", "finished")] * WORKERS
    assert marked(mark) == []


HOLD = "sh -c 'while [ ! -e go ]; do sleep 0.02; done' {}"
"""A shell action that the worker waits for until the file is there."""


def kill_worker(project: Project, attempt: str, mark: str) -> None:
    """Wait until ``attempt`` is in its tool, which carries ``mark``, and kill its worker."""
    project.until("attempt.started", holds=lambda event: event["data"]["attempt"] == attempt)

    def workers() -> list[psutil.Process]:
        parents = (parent for tool in marked(mark) for parent in tool.parents())
        return [one for one in parents if f"worker {attempt}" in " ".join(one.cmdline())]

    wait_until(lambda: bool(workers()))
    workers()[0].send_signal(signal.SIGKILL)


@pytest.mark.promise("PF01")
def test_a_worker_that_is_killed_has_a_successor_at_once(project: Project) -> None:
    """The first crash of an agent that was well costs no pause: ``restart.delay`` is 0 unless its file says more."""
    mark = f"awk-test-{uuid.uuid4().hex}"
    project.agent("alice", f'shell: "{HOLD.format(mark)}"', "text: finished")
    assert project.awk("start", "--trust").code == 0
    instruction = project.send("alice")
    kill_worker(project, f"{instruction}-1", mark)
    begun = project.until("attempt.started", holds=lambda event: event["data"]["attempt"] == f"{instruction}-2")
    ended = project.until("instruction.queued", holds=lambda event: event.get("data", {}).get("cause") == "crash")
    assert ended["data"]["not_before"] is None or ended["data"]["not_before"] <= ended["at"]
    assert ended["at"] <= begun["at"]
    (project.root / "go").touch()
    done = project.until("instruction.ended", holds=lambda event: event["instruction"] == instruction)
    assert (done["data"]["status"], project.ask("GET", "/ps")["agents"][0]["restarts"]) == ("done", 1)
