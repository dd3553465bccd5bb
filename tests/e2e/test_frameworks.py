"""examples/frameworks: agents of pydantic-ai and LangGraph behind ``backend: exec``, with today's libraries."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interface.worker_check import WorkerCheck
from tests.architecture.sources import ROOT
from tests.project import TRUST, Project

EXAMPLE = ROOT / "examples/frameworks"
LIBRARIES = ("pydantic-ai-slim", "langgraph")
SAYS = {"pydantic": "success (no tool calls)", "graph": "Done as planned: answer 'Say hello.' in one line"}


def test_the_examples_are_short_enough_to_copy_and_valid(project: Project) -> None:
    """Some 40 lines each; an agent's file names them."""
    shutil.copytree(EXAMPLE, project.root, dirs_exist_ok=True)
    assert project.awk("validate").code == 0
    for program in EXAMPLE.glob("*.py"):
        assert len(program.read_text().splitlines()) <= 48
        compile(program.read_text(), program.name, "exec")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("frameworks")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", *LIBRARIES], check=True)
    yield folder / "bin/python"
    shutil.rmtree(folder)


@pytest.mark.long("tests/interface/test_worker_check.py")
@pytest.mark.timeout(900)  # the libraries come over the network
@pytest.mark.parametrize(("name", "program"), [("pydantic", "pydantic_agent.py"), ("graph", "langgraph_agent.py")])
def test_an_agent_of_another_framework_is_a_worker(project: Project, python: Path, name: str, program: str) -> None:
    rows = WorkerCheck((str(python), program), str(EXAMPLE), "Say hello.", 60.0).rows()
    assert [(row.check, row.detail) for row in rows if not row.ok] == []
    shutil.copy(EXAMPLE / program, project.root)
    project.write(f".agents/{name}.yaml", f"backend: exec\ncommand: ['{python}', {program}]\n")
    answer = project.awk("send", name, "Say hello.", "--wait", env=TRUST)
    assert (answer.code, answer.out.strip().splitlines()[-1]) == (0, SAYS[name]), answer
