"""The example of a node: a planner on this machine, a builder on a node, and what the builder did in the repository."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.e2e.far_machines import AGENT_WORKER, end_node_processes
from tests.project import Project, empty_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The example in a repository with a commit. The node finds our agent-worker where a user's is on the PATH."""
    made = empty_project(tmp_path)
    shutil.copytree(ROOT / "examples" / "nodes", made.root, dirs_exist_ok=True)
    file = made.root / "moniro.yaml"
    file.write_text(file.read_text().replace("via: command,", f"via: command, command: {AGENT_WORKER},"))
    made.commit()
    yield made
    made.stop()
    end_node_processes(tmp_path)


@pytest.mark.promise("P89")
def test_a_builder_works_on_a_node_and_its_work_comes_back(project: Project) -> None:
    assert project.awk("trust", "--yes").code == 0
    ran = project.awk("run", "build")
    assert (ran.code, ran.err.count("builder: @planner I have built it.") + ran.out.count("I have built it.")) == (0, 1)
    assert project.ask("GET", "/instructions/i2")["attempts"][-1]["node"] == "big1"
    assert "built.txt" in project.awk("diff", "@build").out
    assert project.git("show", "awk/build/r1/builder:built.txt") == "built"
