"""Spaces below a run's, in the log: a sample of what ``scripts/soak spaces`` tries for long."""

import pytest

from tests.kernel.store.space_histories import trial

pytestmark = pytest.mark.promise("P64")


@pytest.mark.parametrize("seed", range(12))
def test_only_members_speak_and_are_given_work_in_a_space_and_it_is_closed_once_all_work_in_it_has_ended(
    seed: int,
) -> None:
    """As the plain model says, step by step, through changes of members, restarts and the end of the run."""
    trial(seed)
