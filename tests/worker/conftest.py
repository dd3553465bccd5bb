"""Daemon MCP's stand-in, programs in a folder, and what was logged, as fixtures."""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from tests.worker.fake_daemon import FakeDaemon, fake_daemon
from worker.models.model import BLANK, Failed
from worker.subprocesses import Subprocesses


@contextmanager
def fails(cause: str | None, match: str | None = None) -> Generator[None]:
    """What is done within fails for ``cause``, and the text of that matches."""
    with pytest.raises(Failed, match=match) as failed:
        yield
    assert failed.value.cause == cause


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with fake_daemon() as served:
        yield served


@pytest.fixture
def programs(tmp_path: Path) -> Subprocesses:
    return Subprocesses(msgspec.structs.replace(BLANK, cwd=str(tmp_path)), {"PATH": "/usr/bin:/bin"})


class Told:
    """Lines that were logged; ``some`` is set by the first."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.some = trio.Event()

    async def tell(self, text: str) -> None:
        self.lines.append(text)
        self.some.set()


@pytest.fixture
def told() -> Told:
    return Told()
