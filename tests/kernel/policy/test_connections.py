"""Whose connection gives way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.access import KEPT_BACK, NO_TOKEN, Shares, holder_over_limit, shares

pytestmark = pytest.mark.promise("P9")

OWNER = "admin"
HOLDERS = st.dictionaries(st.sampled_from([NO_TOKEN, OWNER, "i1-1", "i2-1", "i3-1"]), st.integers(1, 40))


@pytest.mark.parametrize("descriptors", [80, 256, 1024, 4096, 1_000_000])
def test_half_of_the_descriptors_are_for_our_own_work(descriptors: int) -> None:
    """However few there are, connections never take those that are kept back."""
    limits = shares(descriptors)
    assert 0 < limits.strangers <= limits.all
    assert 0 < limits.each_attempt <= limits.all
    assert limits.all <= (descriptors - KEPT_BACK) / 2


@given(HOLDERS)
def test_as_long_as_somebody_gives_way_it_ends_within_the_limits(counts: dict[str, int]) -> None:
    limits = Shares(strangers=8, each_attempt=6, all=30)
    while (holder := holder_over_limit(counts, limits, OWNER)) is not None:
        counts[holder] -= 1
        assert counts[holder] >= 0
    assert sum(counts.values()) <= limits.all
    assert counts.get(NO_TOKEN, 0) <= limits.strangers
    assert all(counts.get(holder, 0) <= limits.each_attempt for holder in ("i1-1", "i2-1", "i3-1"))


def test_strangers_never_push_out_who_has_a_token() -> None:
    limits = Shares(strangers=8, each_attempt=6, all=30)
    assert holder_over_limit({NO_TOKEN: 9, OWNER: 15, "i1-1": 6}, limits, OWNER) == NO_TOKEN
    assert holder_over_limit({NO_TOKEN: 8, OWNER: 16, "i1-1": 6}, limits, OWNER) is None


def test_an_attempt_cannot_take_the_owners_place() -> None:
    limits = Shares(strangers=8, each_attempt=6, all=30)
    assert holder_over_limit({"i1-1": 7, OWNER: 1}, limits, OWNER) == "i1-1"
