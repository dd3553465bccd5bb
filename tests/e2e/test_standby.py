"""A real kernel copies its log elsewhere, dies, and another project goes on with the copy."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import processes
from tests.e2e.processes import wait_for_mark
from tests.project import Project, empty_project

wait_until = partial(processes.wait_until, seconds=60)
REPLIES = 'text: "did ${{ message.text }}"'


def state_of(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = project.ask("GET", "/status")["standby"]
    return found


def follows(project: Project) -> bool:
    found = state_of(project)
    return bool(found["state"] == "following" and found["lag_seconds"] == 0.0)


@pytest.mark.promise("P90", "P91")
def test_a_project_elsewhere_goes_on_with_the_work_of_a_kernel_that_was_killed(
    project: Project, tmp_path: Path
) -> None:
    far, away = tmp_path / "far", tmp_path / "away"
    far.mkdir()
    project.write(".agents.yaml", f"standby: {{to: {far}, every: 100ms}}\n")
    project.agent("alice", REPLIES)
    project.agent("bob", "sleep: 600", REPLIES)
    assert project.awk("start").code == 0
    assert state_of(project)["state"] == "untrusted"
    assert "awk trust" in project.ask("GET", "/status")["notice"]
    assert os.listdir(far) == []
    project.stop()

    assert project.awk("start", "--trust").code == 0
    term = project.ask("GET", "/status")["term"]
    project.ended(project.send("alice", "one"))
    wait_until(lambda: follows(project))
    far.rename(away)
    project.ended(project.send("alice", "two"))
    wait_until(lambda: state_of(project)["state"] == "behind")
    assert "does not exist or has changed" in project.awk("status").out
    away.rename(far)
    open_work = project.send("bob", "three")
    wait_until(lambda: follows(project))
    (copier,) = wait_for_mark(f"kernel.inspect.copier --project {project.root} ", 1, seconds=60)
    copier.kill()  # another is started, with a new copy
    project.ended(project.send("alice", "four"))
    wait_until(lambda: project.awk("standby", "check", str(far), "--json").json()["message"] == 10)
    project.kill()

    (tmp_path / "b").mkdir()
    other = empty_project(tmp_path / "b")
    other.agent("alice", REPLIES)
    other.agent("bob", REPLIES)
    refused = other.awk("restore", "--promote", str(far))
    assert refused.code != 0
    assert "may still run" in refused.err
    told = other.awk("restore", "--promote", str(far), "--force")
    assert told.code == 0, told.err
    assert "must not run again" in told.out
    try:
        assert other.awk("start").code == 0
        other.ended(open_work)
        said = other.awk("peek", "alice").out
        assert [said.count(f"did {text}") for text in ("one", "two", "four")] == [1, 1, 1]
        assert other.ask("GET", "/status")["term"] > term + 900_000
    finally:
        other.stop()

    assert project.awk("start", "--trust").code == 0
    wait_until(lambda: "was promoted at" in (state_of(project)["why"] or ""))
    assert project.awk("doctor").code == 1


@pytest.mark.promise("P90")
def test_the_first_copy_starts_at_once_whatever_the_interval(project: Project, tmp_path: Path) -> None:
    """Only later copies wait for it."""
    (tmp_path / "far").mkdir()
    project.write(".agents.yaml", f"standby: {{to: {tmp_path / 'far'}, every: 1h}}\n")
    assert project.awk("start", "--trust").code == 0
    wait_until(lambda: bool(state_of(project)["state"] == "following"))
