"""The project folder that all worlds of these tests begin with, made once."""

from pathlib import Path

import pytest

from tests.sim.project_folder import ProjectFolder, lay


@pytest.fixture(scope="session")
def project_folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """Four agents, two providers, one team."""
    root: Path = tmp_path_factory.mktemp("sim")
    return lay(root / "project")
