"""The first team of README.md, typed as it stands."""

import os
import subprocess

import pytest

from tests.architecture.sources import ROOT
from tests.builders.git import IDENTITY
from tests.e2e.test_team_example import four_agents_did_their_part
from tests.pages import blocks
from tests.project import AWK, Project


@pytest.mark.promise("P32", "P33")
@pytest.mark.long("tests/e2e/test_handbook_example.py, tests/e2e/test_merge.py")
def test_the_work_of_the_first_team_is_merged_into_the_branch(project: Project) -> None:
    (block,) = (block for block in blocks((ROOT / "README.md").read_text("utf-8")) if block.is_run)
    script, stop, _ = block.text.rpartition("awk stop")
    assert stop, "the tour leaves a kernel behind"
    leap = Project(root=project.root / "leap", state_home=project.state_home, home=project.home)
    env = {**project.environ, **IDENTITY, "PATH": f"{AWK.parent}:{os.environ['PATH']}"}
    try:
        ran = subprocess.run(
            ["sh", "-euc", script], cwd=project.root, env=env, capture_output=True, text=True, timeout=90, check=False
        )
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        assert "tester  awk/team/r1/tester  commits: 2" in ran.stdout.partition(" merged into ")[2]
        four_agents_did_their_part(leap)
    finally:
        if leap.root.exists():
            leap.stop()
