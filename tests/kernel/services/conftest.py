"""Cores and budgets that run, as fixtures."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.kernel.services.budget_kernel import BudgetKernel, alive
from tests.kernel.services.kernel_core import Core, PlayedLauncher, core
from tests.kernel.services.test_mirror import MirroredProject, mirrored_project
from tests.kernel.services.test_node_trees import Ground, ground
from tests.kernel.store.running_store import Store, open_store


@pytest.fixture
async def it(tmp_path: Path) -> AsyncGenerator[Core]:
    async with core(tmp_path, PlayedLauncher()) as made:
        yield made


@pytest.fixture
async def kernel() -> AsyncGenerator[BudgetKernel]:
    async with alive(BudgetKernel()) as made:
        yield made


@pytest.fixture
async def on(tmp_path: Path) -> AsyncGenerator[MirroredProject]:
    async with mirrored_project(tmp_path) as made:
        yield made


@pytest.fixture
async def g(tmp_path: Path) -> AsyncGenerator[Ground]:
    async with ground(tmp_path) as made:
        yield made


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    """A store that knows alice."""
    async with open_store(str(tmp_path / "store.db")) as opened:
        await opened.agents("alice")
        yield opened
