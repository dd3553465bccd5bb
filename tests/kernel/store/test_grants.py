"""Grants in the log: a sample of what ``scripts/soak grants`` tries for long."""

import pytest

from tests.kernel.store.grant_chains import attacks, trial

pytestmark = pytest.mark.promise("P61", "P62")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_given_handed_on_revoked_and_used_no_effect_is_without_authority(seed: int) -> None:
    """As the plain model says, step by step; a stale attempt has none."""
    trial(seed)


def test_what_another_has_is_nobody_elses() -> None:
    """Neither by its id nor as part of a line."""
    assert attacks(1, 2_000) > 0
