"""The store's contract, in a file and in memory."""

import pytest

from tests.contracts import Check
from tests.contracts.check_steering import STEERING
from tests.contracts.check_store import CHECKS
from tests.kernel.store.running_store import open_store


@pytest.mark.parametrize("check", [*CHECKS, *STEERING], ids=lambda check: check.__name__)
async def test_the_store_keeps_its_contract(check: Check, place: str) -> None:
    """One contract suite runs on a file and in memory."""
    async with open_store(place) as store:
        await check(store)
