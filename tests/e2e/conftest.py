"""What several files of end-to-end tests start from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.far_machines import end_node_processes
from tests.project import BWRAP, Project, empty_project


@pytest.fixture(scope="module")
def confining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A kernel that finds bubblewrap, where there is one: tests that ask for it have agents of their own."""
    made = empty_project(tmp_path_factory.mktemp("confining"))
    assert made.awk("start", env={} if BWRAP is None else {"AGENT_WORKER_BWRAP": BWRAP}).code == 0
    yield made
    made.stop()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Path]:
    """Where the state of nodes goes; what serves there is ended at last."""
    folder = tmp_path / "far"
    folder.mkdir()
    yield folder
    end_node_processes(folder)
