"""The commands of the README, run as they are."""

import re
import subprocess

import pytest

from tests.architecture.sources import ROOT
from tests.builders.git import IDENTITY
from tests.e2e.test_team_example import four_agents_did_their_part
from tests.project import AWK, Project

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _first_team() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = BLOCK.findall(text[text.index("## Your first team") : text.index("## What is special")])
    return str(block)


def _type(project: Project, script: str) -> str:
    environ = project.environ
    environ["PATH"] = f"{AWK.parent}:{environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-eu"],
        input=script,
        cwd=project.root,
        env=environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.mark.promise("P32", "P33")
@pytest.mark.long("tests/e2e/test_handbook_example.py, tests/e2e/test_merge.py")
def test_the_first_team_of_the_readme_is_merged_into_the_branch(project: Project) -> None:
    leap = Project(root=project.root / "leap", state_home=project.state_home, home=project.home)
    who = "".join(f"export {name}={value}\n" for name, value in IDENTITY.items())
    try:
        shown = _type(project, who + _first_team())
        assert "Merge what tester did" in shown.partition(" merged into ")[2]
        four_agents_did_their_part(leap)
    finally:
        if leap.root.exists():
            leap.stop()
