"""Fixtures for tests that meet the program as a user does: a project of their own and a real kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project; a kernel that a command starts in it is stopped at the end."""
    folders = {name: tmp_path / name for name in ("project", "state", "home")}
    for folder in folders.values():
        folder.mkdir()
    (folders["project"] / ".agents").mkdir()
    made = Project(root=folders["project"].resolve(), state_home=folders["state"], home=folders["home"])
    yield made
    made.stop()


@pytest.fixture
def kernel_process(project: Project) -> Project:
    """The project with its kernel running, started as a user starts it."""
    started = project.awk("start")
    assert started.code == 0, started.err
    return project
