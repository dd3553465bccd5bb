"""The table of an instruction's states."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.lifecycle import TRANSITIONS, IllegalTransition, Step, after
from protocol.instruction import ENDED, LIVE, STATUSES

STEPS = get_args(Step)


def test_the_table_knows_every_state_and_no_other() -> None:
    """style.md 13."""
    assert set(TRANSITIONS) == set(STATUSES)
    assert {state for row in TRANSITIONS.values() for state in row.values()} <= set(STATUSES)


@given(st.lists(st.sampled_from(STEPS)))
def test_what_has_ended_stays_ended(steps: list[Step]) -> None:
    """Promise P3: exactly one terminal state."""
    state = TRANSITIONS["queued"].get("lease", "leased")
    ended = False
    for step in steps:
        try:
            state = after(state, step)
        except IllegalTransition:
            continue
        assert not ended
        ended = state in ENDED


def test_every_state_that_has_not_ended_can_be_cancelled() -> None:
    """Promise P3: nothing is stuck."""
    assert {state for state, row in TRANSITIONS.items() if "cancel" in row} == set(STATUSES) - ENDED


def test_only_what_is_held_can_write() -> None:
    """Promise P5."""
    assert {state for state, row in TRANSITIONS.items() if "entry" in row} == LIVE


def test_a_missing_step_says_what_and_where() -> None:
    """style.md 13: a missing key raises and changes nothing."""
    with pytest.raises(IllegalTransition, match="done cannot lease"):
        after("done", "lease")
