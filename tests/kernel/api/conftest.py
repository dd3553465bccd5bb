"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.api import ServedKernel, serve_kernel


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[ServedKernel]:
    """A served kernel with a project of its own."""
    async with serve_kernel(tmp_path) as built:
        yield built
