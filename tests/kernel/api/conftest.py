"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernel.services.guard import ANSWER_SECONDS
from tests.builders.api import ServedKernel, serve_kernel


@pytest.fixture
def on_disk() -> bool:
    """Whether the database is a file: a test that is about the file has itself parametrized with True."""
    return False


@pytest.fixture
def answer_seconds() -> float:
    """How long a call waits for the guard's model: a test that is about its silence has itself parametrized."""
    return ANSWER_SECONDS


@pytest.fixture
async def kernel(tmp_path: Path, on_disk: bool, answer_seconds: float) -> AsyncIterator[ServedKernel]:
    async with serve_kernel(tmp_path, on_disk=on_disk, answer_seconds=answer_seconds) as built:
        yield built


@pytest.fixture
async def team(kernel: ServedKernel) -> ServedKernel:
    """Alice (worker-token) and bob (bobs-token) are at work in review:main."""
    await kernel.attempt("alice@review")
    await kernel.attempt("bob@review", token="bobs-token")
    return kernel
