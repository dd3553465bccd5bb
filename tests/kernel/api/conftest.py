"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kernel.api.house import House, house


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[House]:
    """A served kernel with a project of its own."""
    async with house(tmp_path) as built:
        yield built
