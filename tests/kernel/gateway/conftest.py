"""Fixtures of the gateway's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.api import serve_kernel
from tests.kernel.gateway.scripted import Door


@pytest.fixture
def environ() -> dict[str, str]:
    """The variables of the kernel: a test of proxies has it parametrized."""
    return {}


@pytest.fixture
async def door(tmp_path: Path, environ: dict[str, str]) -> AsyncIterator[Door]:
    async with serve_kernel(tmp_path, environ) as kernel:
        yield Door(kernel)
