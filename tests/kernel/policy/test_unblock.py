"""The table of unblock: which action lets work in a state continue, and where only a person knows."""

from typing import get_args

import pytest

from kernel.policy.unblock import ACTIONS, PERSONS, first_of
from protocol.instruction import WaitReason


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("active", "paused"), ("resume", "paused")),
        (("stopped", "budget"), ("resume", "stopped")),
        (("active", "budget", "waiting"), ("continue", "budget")),
        (("active", "credentials", "waiting"), ("reset", "credentials")),
        (("error", "crashes"), ("reset", "error")),
        (("dead",), ("retry", "dead")),
        (("active", "silent"), ("restart", "silent")),
        (("paused", "silent"), ("resume", "paused")),
        (("active", None, "idle"), None),
        (("approval", "waiting"), None),
    ],
)
def test_the_first_state_with_an_action_decides(
    states: tuple[str | None, ...], expected: tuple[str, str] | None
) -> None:
    assert first_of(states, ACTIONS) == expected


def test_each_reason_of_a_wait_has_an_action_or_a_person() -> None:
    assert set(get_args(WaitReason)) <= ACTIONS.keys() | PERSONS.keys()
    assert not ACTIONS.keys() & PERSONS.keys()
    assert first_of([None, "idle", "approval"], PERSONS) == (PERSONS["approval"], "approval")
    assert first_of([None, "idle"], PERSONS) is None
