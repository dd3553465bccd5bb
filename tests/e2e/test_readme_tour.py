"""The README's tour, typed as it stands."""

import re
import subprocess

import pytest

from tests.architecture.sources import ROOT
from tests.builders.git import IDENTITY
from tests.e2e.test_team_example import four_agents_did_their_part
from tests.project import AWK, Project

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _blocks() -> list[str]:
    text = (ROOT / "README.md").read_text("utf-8")
    tour = text[text.index("## A tour") : text.index("## Targets")]
    return [block.replace("path/to/agent-worker", str(ROOT)) for block in BLOCK.findall(tour)]


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


@pytest.fixture
def blocks() -> list[str]:
    """Make, send and look, run, start and talk, land."""
    found = _blocks()
    assert len(found) == 5, "the tour changed: this test types its blocks in pairs, and the last one alone"
    return found


def test_an_agent_is_made_and_answers(project: Project, blocks: list[str]) -> None:
    hello = Project(root=project.root / "hello", state_home=project.state_home, home=project.home)
    try:
        assert "You said: good morning" in _type(project, "\n".join(blocks[:2]))
    finally:
        if hello.root.exists():
            hello.stop()


@pytest.mark.long("tests/e2e/test_example_projects.py")
def test_agents_work_together_in_a_repository(project: Project, blocks: list[str]) -> None:
    change = "git init -q\necho one > notes\ngit add notes\ngit -c user.name=t -c user.email=t@t commit -qm notes\n"
    assert "APPROVED" in _type(project, "\n".join([change, "echo two >> notes", *blocks[2:4]]))


@pytest.mark.promise("P32", "P33")
@pytest.mark.long("tests/e2e/test_handbook_example.py, tests/e2e/test_merge.py")
def test_what_a_team_did_is_merged_into_the_branch(project: Project, blocks: list[str]) -> None:
    leap = Project(root=project.root / "leap", state_home=project.state_home, home=project.home)
    who = "".join(f"export {name}={value}\n" for name, value in IDENTITY.items())
    try:
        shown = _type(project, who + blocks[4])
        assert "Merge what tester did" in shown.partition(" merged into ")[2]
        four_agents_did_their_part(leap)
    finally:
        if leap.root.exists():
            leap.stop()
