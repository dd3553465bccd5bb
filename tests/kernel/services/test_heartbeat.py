"""The heartbeat, as a clock that is handed its times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.services.worker_session import EVERY_SECONDS, WITHIN_SECONDS, Heartbeat

START = 100.0


def begun() -> Heartbeat:
    """A worker that was greeted at START."""
    pulse = Heartbeat()
    pulse.begin(START)
    return pulse


def test_nothing_is_due_before_the_worker_speaks() -> None:
    """Until then the startup deadline judges alone."""
    pulse = Heartbeat()
    pulse.heard(START)
    assert pulse.due_at == float("inf")


def test_only_a_silent_worker_is_asked() -> None:
    """Every 5 s; who talks need not be asked whether it lives."""
    pulse = begun()
    assert pulse.due_at == START + EVERY_SECONDS
    pulse.heard(START + 4)
    assert pulse.due_at == START + 4 + EVERY_SECONDS


def test_one_ping_is_under_way_at_a_time_and_an_unanswered_one_is_the_end() -> None:
    """Dead after 30 s."""
    pulse = begun()
    first = pulse.ask(START + 5)
    assert first is not None and pulse.due_at == START + 5 + WITHIN_SECONDS
    assert pulse.ask(pulse.due_at) is None


@pytest.mark.promise("IF13")
def test_an_answer_to_another_ping_is_passed_over() -> None:
    """Backwards, from the future, twice, or unasked."""
    pulse = begun()
    pulse.pong(0, START + 1)
    assert pulse.due_at == START + EVERY_SECONDS
    for _ in range(3):
        asked = pulse.ask(pulse.due_at)
        assert asked is not None
        due = pulse.due_at
        for n in (asked.n - 1, asked.n + 1, -1, 10**9):
            pulse.pong(n, due - 1)
        assert pulse.due_at == due
        pulse.pong(asked.n, due - 1)
        assert pulse.due_at == due - 1 + EVERY_SECONDS
        pulse.pong(asked.n, due)
        assert pulse.due_at == due - 1 + EVERY_SECONDS


@given(st.floats(0, 1e6), st.booleans())
def test_time_that_is_forgiven_counts_for_nothing(seconds: float, asked: bool) -> None:
    """The kernel's own lateness kills no worker."""
    pulse = begun()
    if asked:
        pulse.ask(START + 5)
    due = pulse.due_at
    pulse.forgive(seconds)
    assert abs(pulse.due_at - (due + seconds)) < 1e-6
