"""Launchers that run."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from kernel.procs.fork import ForkLauncher
from kernel.procs.launcher import ExecLauncher, Launcher
from tests.kernel.procs.node.far_node import FarNode
from tests.kernel.procs.trees import ENV


def make(kind: str, run_dir: Path) -> Launcher:
    if kind == "fork":
        return ForkLauncher(run_dir=run_dir, environ=ENV)
    return ExecLauncher(run_dir=run_dir, environ=ENV)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(params=["fork", "exec", "node"])
async def launcher(request: pytest.FixtureRequest, run_dir: Path, nursery: trio.Nursery) -> AsyncGenerator[Launcher]:
    """Each of the two, serving; and that of a node whose folder this is."""
    if request.param == "node":
        node = FarNode(run_dir.parent)
        os.symlink(node.state / "run", run_dir)  # where tests look
        async with node.session() as session:
            yield session.launcher
        node.kill()
    else:
        made = make(request.param, run_dir)
        await nursery.start(made.run)
        yield made


@pytest.fixture
async def forking(run_dir: Path, nursery: trio.Nursery) -> ForkLauncher:
    """The fork launcher, serving."""
    made = ForkLauncher(run_dir=run_dir, environ=ENV)
    await nursery.start(made.run)
    return made
