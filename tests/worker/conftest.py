"""Daemon MCP's stand-in as a fixture."""

from collections.abc import AsyncIterator

import pytest

from tests.worker.fake_daemon import FakeDaemon, fake_daemon


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    """A fresh MCP server on loopback."""
    async with fake_daemon() as served:
        yield served
