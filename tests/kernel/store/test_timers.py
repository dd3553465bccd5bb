"""Timers, in a file and in memory."""

import pytest

from tests.contracts import Check
from tests.contracts.check_timers import CHECKS
from tests.kernel.store.running_store import open_store


@pytest.mark.promise("P21", "TF19")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_store_keeps_timers_as_promised(check: Check, place: str) -> None:
    """One contract suite runs on a file and in memory."""
    async with open_store(place) as store:
        await check(store)
