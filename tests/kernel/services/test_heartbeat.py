"""The heartbeat, as a clock that is handed its times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.services.worker_session import EVERY_SECONDS, SELDOM_SECONDS, WITHIN_SECONDS, Heartbeat

START = 100.0


def begun() -> Heartbeat:
    """A worker that was greeted at START."""
    heartbeat = Heartbeat()
    heartbeat.begin(START)
    return heartbeat


def test_nothing_is_due_before_the_worker_speaks() -> None:
    heartbeat = Heartbeat()
    heartbeat.heard(START)
    assert heartbeat.due_at == float("inf")


def test_only_a_silent_worker_is_asked() -> None:
    """Every 5 s; who talks need not be asked whether it lives."""
    heartbeat = begun()
    assert heartbeat.due_at == START + EVERY_SECONDS
    heartbeat.heard(START + 4)
    assert heartbeat.due_at == START + 4 + EVERY_SECONDS


def test_one_ping_is_under_way_at_a_time_and_an_unanswered_one_is_the_end() -> None:
    """Dead after 30 s."""
    heartbeat = begun()
    first = heartbeat.ask(START + 5)
    assert first is not None and heartbeat.due_at == START + 5 + WITHIN_SECONDS
    assert heartbeat.ask(heartbeat.due_at) is None


@pytest.mark.promise("IF13")
def test_an_answer_to_another_ping_is_passed_over() -> None:
    heartbeat = begun()
    heartbeat.pong(0, START + 1)
    assert heartbeat.due_at == START + EVERY_SECONDS
    for _ in range(3):
        asked = heartbeat.ask(heartbeat.due_at)
        assert asked is not None
        due = heartbeat.due_at
        for n in (asked.n - 1, asked.n + 1, -1, 10**9):
            heartbeat.pong(n, due - 1)
        assert heartbeat.due_at == due
        heartbeat.pong(asked.n, due - 1)
        assert heartbeat.due_at == due - 1 + SELDOM_SECONDS
        heartbeat.pong(asked.n, due)
        assert heartbeat.due_at == due - 1 + SELDOM_SECONDS


def test_who_only_says_that_it_lives_is_asked_once_a_minute_until_it_says_something() -> None:
    """After 5 s of silence, then after 60."""
    heartbeat, pauses, now = begun(), list[float](), START
    for _ in range(4):
        pauses.append(heartbeat.due_at - now)
        now = heartbeat.due_at
        asked = heartbeat.ask(now)
        assert asked is not None
        heartbeat.pong(asked.n, now)
    assert pauses == [5, 60, 60, 60]
    heartbeat.heard(now)
    assert heartbeat.due_at == now + EVERY_SECONDS


@given(st.floats(0, 1e6), st.booleans())
def test_time_that_is_forgiven_counts_for_nothing(seconds: float, asked: bool) -> None:
    heartbeat = begun()
    if asked:
        heartbeat.ask(START + 5)
    due = heartbeat.due_at
    heartbeat.forgive(seconds)
    assert abs(heartbeat.due_at - (due + seconds)) < 1e-6
