"""What a request brought is gone with its answer: garbage in cycles stays, and a body can have four megabytes."""

import gc
from collections.abc import Generator

import pytest
import trio.testing

from tests.builders.api import ServedKernel

SIZE = 1_000_003
"""No other text here is as long."""


@pytest.fixture
def uncollected() -> Generator[None]:
    """Nothing is freed but what nobody refers to."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _kept() -> int:
    held = gc.get_referents(*gc.get_objects())
    return sum(1 for one in held if isinstance(one, (str, bytes, bytearray)) and SIZE <= len(one) < SIZE + 1000)


@pytest.mark.promise("HF18")
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("path", ["/nonesuch", "/instructions/i1/retry"])
async def test_the_body_of_a_refused_request_is_not_kept(kernel: ServedKernel, path: str) -> None:
    """200 of them were 600 MB, until the collector came by."""
    await kernel.ask("POST", path, {"text": "x"})  # what is made once is made now
    answer = await kernel.ask("POST", path, {"text": "x" * SIZE})
    await trio.testing.wait_all_tasks_blocked()
    assert answer.status in (400, 404)
    assert _kept() == 0
