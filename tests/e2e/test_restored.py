"""Restored projects of strangers: nothing that only their databases define runs before the owner agrees."""

import json
from pathlib import Path

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project, empty_project

WORKFLOW = """
name: w
agents:
  k:
    backend: mock
    mock: [{shell: "until test -e go; do sleep 0.1; done; touch PWN"}]
kickoff: "@k begin"
"""


@pytest.mark.promise("P19", "P76")
def test_a_command_that_only_a_restored_database_has_runs_once_its_owner_trusts_it(
    project: Project, tmp_path: Path
) -> None:
    project.write(".workflows/w.yaml", WORKFLOW)
    assert project.awk("start", "w", "--trust").code == 0
    wait_until(lambda: project.awk("ps", "--json").json()["agents"][0]["state"] == "running")
    file = str(tmp_path / "hostile.awkbackup")
    assert project.awk("backup", file).code == 0

    (tmp_path / "b").mkdir()
    other = empty_project(tmp_path / "b")
    other.write("go", "")
    told = other.awk("restore", file)
    assert told.code == 0, told.err
    assert "1 of workflows: continued without consent" in told.out
    seen = other.awk("trust")
    assert seen.code == 7
    assert "touch PWN" in seen.out
    assert other.awk("start").code == 0
    try:
        wait_until(lambda: bool(other.awk("needs", "--json").json()["items"]))
        [need] = other.awk("needs", "--json").json()["items"]
        assert need["kind"] == "dead"
        assert "not trusted" in need["text"]
        assert need["actions"][0]["command"].endswith("awk trust"), json.dumps(need)
        assert not (other.root / "PWN").exists()
        assert other.awk("trust", "--yes").code == 0
        assert other.awk("retry", need["id"]).code == 0
        wait_until((other.root / "PWN").exists)
    finally:
        other.stop()
