"""The kernel's program is replaced while agents work on a node: that is waited for, or put back, and up again soon."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.far_machines import AGENT_WORKER, end_node_processes
from tests.e2e.processes import wait_until
from tests.e2e.test_upgrade import attempts_of, upgrade
from tests.project import Project, empty_project

pytestmark = [
    pytest.mark.long("tests/kernel/store/test_upgrade.py"),
    pytest.mark.skipif(sys.platform != "linux", reason="an exec keeps what a file in memory holds"),
]
AGAIN_SECONDS: Final = 10.0
"""For a node to be up again: well within the lease that it was left with."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with a node; its kernel is gone before the node is."""
    far = tmp_path / "far"
    far.mkdir()
    made = empty_project(tmp_path)
    argv = f"[env, AGENT_WORKER_HOME={far}]"
    made.write("moniro.yaml", f"nodes:\n  g1: {{via: command, argv: {argv}, command: {AGENT_WORKER}, labels: [gpu]}}\n")
    yield made
    made.stop()
    end_node_processes(far)


def node(project: Project) -> dict[str, Any]:
    """The node as the kernel knows it."""
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
def test_a_node_is_up_again_within_seconds_after_each_of_several_upgrades(project: Project, tmp_path: Path) -> None:
    """The second program is another kernel to the node than the first, as after a restart; what takes too long there is
    put back, and done again at no charge.
    """
    hold = tmp_path / "hold"
    agent(project, "alice", hold)
    project.commit()
    assert project.awk("start", "--trust").code == 0
    term = project.ask("GET", "/status")["term"]
    wait_until(lambda: node(project)["state"] == "up", 60.0)
    instruction = project.send("alice")
    project.until("attempt.started")
    for number in (1, 2, 3):
        told = upgrade(project)
        assert (told["state"], told["reason"]) == ("done", None)
        wait_until(lambda: node(project)["state"] == "up", AGAIN_SECONDS)
        assert project.ask("GET", "/status")["term"] == term + number
        if number == 1:
            hold.touch()
            assert attempts_of(project, instruction) == (1, ["upgrade", "done"])
