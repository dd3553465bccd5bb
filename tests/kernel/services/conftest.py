"""Cores and budgets that run, as fixtures."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.kernel.services.budget_kernel import BudgetKernel, budget_kernel
from tests.kernel.services.kernel_core import Core, PlayedLauncher, core


@pytest.fixture
async def it(tmp_path: Path) -> AsyncGenerator[Core]:
    async with core(tmp_path, PlayedLauncher()) as made:
        yield made


@pytest.fixture
async def kernel() -> AsyncGenerator[BudgetKernel]:
    async with budget_kernel() as made:
        yield made
