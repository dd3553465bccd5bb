"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.api import ServedKernel, serve_kernel


@pytest.fixture
def on_disk() -> bool:
    """Whether the database is a file: a test that is about the file has itself parametrized with True."""
    return False


@pytest.fixture
async def kernel(tmp_path: Path, on_disk: bool) -> AsyncIterator[ServedKernel]:
    """A served kernel with a project of its own."""
    async with serve_kernel(tmp_path, on_disk=on_disk) as built:
        yield built
