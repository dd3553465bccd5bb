"""The kernel is replaced while agents work on a node, and while its log is copied elsewhere: both go on soon."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from kernel.services.standby import END_SECONDS
from tests.e2e.far_machines import AGENT_WORKER
from tests.e2e.processes import wait_until
from tests.e2e.test_standby import follows
from tests.e2e.test_upgrade import attempts_of, upgrade
from tests.project import Project, empty_project

pytestmark = [
    pytest.mark.long("tests/kernel/store/test_upgrade.py, tests/kernel/services/test_upgrade.py"),
    pytest.mark.skipif(sys.platform != "linux", reason="an exec keeps what a file in memory holds"),
]
AGAIN_SECONDS: Final = 10.0
"""For a node to be up again: well within the lease that it was left with."""


@pytest.fixture
def with_node(tmp_path: Path, far: Path) -> Iterator[Project]:
    """A project with a node; its kernel is gone before the node is."""
    made = empty_project(tmp_path)
    argv = f"[env, AGENT_WORKER_HOME={far}]"
    made.write("moniro.yaml", f"nodes:\n  g1: {{via: command, argv: {argv}, command: {AGENT_WORKER}, labels: [gpu]}}\n")
    yield made
    made.stop()


def node(project: Project) -> dict[str, Any]:
    (found,) = project.ask("GET", "/nodes")["nodes"]
    row: dict[str, Any] = found
    return row


def agent(project: Project, name: str, hold: Path) -> None:
    """One who works on the node until ``hold`` is there."""
    project.write(
        f".agents/{name}.yaml",
        f"""
        backend: mock
        needs: {{labels: [gpu]}}
        mock:
          - shell: "sh -c 'while [ ! -e {hold} ]; do sleep 0.02; done'"
          - text: finished
        """,
    )


@pytest.mark.promise("P92")
def test_a_node_is_up_again_within_seconds_after_each_of_several_upgrades(with_node: Project, tmp_path: Path) -> None:
    """The second program is another kernel to the node than the first, as after a restart; what takes too long there is
    put back, and done again at no charge.
    """
    hold = tmp_path / "hold"
    agent(with_node, "alice", hold)
    with_node.commit()
    assert with_node.awk("start", "--trust").code == 0
    term = with_node.ask("GET", "/status")["term"]
    wait_until(lambda: node(with_node)["state"] == "up", 60.0)
    instruction = with_node.send("alice")
    with_node.until("attempt.started")
    for number in (1, 2, 3):
        told = upgrade(with_node)
        assert (told["state"], told["reason"]) == ("done", None)
        wait_until(lambda: node(with_node)["state"] == "up", AGAIN_SECONDS)
        assert with_node.ask("GET", "/status")["term"] == term + number
        if number == 1:
            hold.touch()
            assert attempts_of(with_node, instruction) == (1, ["upgrade", "done"])


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
