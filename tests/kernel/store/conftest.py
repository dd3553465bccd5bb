"""Where the store under test lives: in a file and in memory."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kernel.store.database import MEMORY
from tests.kernel.store.busy_workspace import BusyWorkspace, busy_workspace
from tests.kernel.store.running_store import Store, open_store


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return MEMORY if request.param == "memory" else str(tmp_path / "store.db")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(str(tmp_path / "store.db")) as opened:
        yield opened


@pytest.fixture
def workspace() -> Iterator[BusyWorkspace]:
    with busy_workspace() as made:
        yield made
