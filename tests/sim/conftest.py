"""The ground all worlds of these tests stand on, made once."""

from pathlib import Path

import pytest

from tests.sim.ground import Ground, lay


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """Four agents, two providers, one team."""
    root: Path = tmp_path_factory.mktemp("sim")
    return lay(root / "project")
