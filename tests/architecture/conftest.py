"""Lets go of what was parsed once the rules are through with it."""

import gc
from collections.abc import Iterator

import pytest

from tests.architecture import structure
from tests.architecture.sources import sources


@pytest.fixture(scope="package", autouse=True)
def forget() -> Iterator[None]:
    """Half a million nodes of syntax trees would slow down every collection of garbage in the tests that come after."""
    gc.disable()
    yield
    gc.enable()
    structure.forget()
    sources.cache_clear()
