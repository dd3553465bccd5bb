"""Launchers that run."""

from pathlib import Path

import pytest
import trio

from kernel.procs.exec import ExecLauncher
from kernel.procs.fork import ForkLauncher
from kernel.procs.launcher import Launcher
from tests.kernel.procs.trees import ENV


def make(kind: str, run_dir: Path) -> Launcher:
    """A launcher that has not been started."""
    if kind == "fork":
        return ForkLauncher(run_dir=run_dir, environ=ENV)
    return ExecLauncher(run_dir=run_dir, environ=ENV)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(params=["fork", "exec"])
async def launcher(request: pytest.FixtureRequest, run_dir: Path, nursery: trio.Nursery) -> Launcher:
    """Each of the two, serving."""
    made = make(request.param, run_dir)
    await nursery.start(made.run)
    return made


@pytest.fixture
async def forking(run_dir: Path, nursery: trio.Nursery) -> ForkLauncher:
    """The fork launcher, serving."""
    made = ForkLauncher(run_dir=run_dir, environ=ENV)
    await nursery.start(made.run)
    return made
