"""Retry is a pure decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.retry import CRASH_DELAY_SECONDS, MAX_DELAY_SECONDS, Again, GiveUp, backoff, decide
from protocol.agent import Retry
from protocol.errors import CLASS_OF_CAUSE, Cause

causes = st.sampled_from(sorted(CLASS_OF_CAUSE))
counts = st.integers(min_value=0, max_value=10_000)
jitters = st.floats(min_value=0, max_value=1, exclude_max=True)
retries = st.builds(
    Retry,
    attempts=st.integers(min_value=0, max_value=100),
    backoff=st.floats(min_value=0, max_value=1e6),
    multiplier=st.floats(min_value=0, max_value=1e6),
)


@given(causes, counts, counts, retries, st.none() | st.floats(min_value=0, max_value=1e6), jitters)
def test_every_failure_has_a_decision_within_bounds(
    cause: Cause, used: int, crashes: int, retry: Retry, after: float | None, jitter: float
) -> None:
    """Promise P12: never more than the table's attempts; Retry-After is a floor."""
    match decide(cause, used, crashes, retry, after, jitter):
        case Again(delay_seconds=delay):
            assert CLASS_OF_CAUSE[cause] in ("transient", "crash")
            assert 0 <= delay <= max(MAX_DELAY_SECONDS, after or 0)
            if CLASS_OF_CAUSE[cause] == "transient":
                assert used < retry.attempts
                assert delay >= (after or 0)
            else:
                assert crashes == 0
                assert CRASH_DELAY_SECONDS[0] <= delay <= CRASH_DELAY_SECONDS[1]
        case GiveUp(status=status):
            assert (status == "incomplete") == (CLASS_OF_CAUSE[cause] == "resource")


@given(st.integers(min_value=1, max_value=200), st.floats(min_value=0, max_value=100), st.floats(1, 10))
def test_backoff_never_shrinks_and_is_capped(attempt: int, seconds: float, multiplier: float) -> None:
    """style.md 15."""
    retry = Retry(backoff=seconds, multiplier=multiplier)
    assert backoff(attempt, retry, 1.0) <= backoff(attempt + 1, retry, 1.0) <= MAX_DELAY_SECONDS
    assert backoff(attempt, retry, 0.0) == pytest.approx(backoff(attempt, retry, 1.0) / 2)


@pytest.mark.parametrize(
    ("cause", "used", "crashes", "status"),
    [
        ("auth", 1, 0, "failed"),
        ("invalid", 2, 0, "dead"),
        ("network", 3, 0, "dead"),
        ("crash", 1, 1, "dead"),
        ("max_steps", 1, 0, "incomplete"),
    ],
)
def test_how_an_instruction_ends_when_it_is_given_up(cause: Cause, used: int, crashes: int, status: str) -> None:
    """contracts.md section 9: failed is permanent at the first try, dead is attempts used up."""
    assert decide(cause, used, crashes, Retry(), None, 0.5) == GiveUp(status)  # type: ignore[arg-type]
