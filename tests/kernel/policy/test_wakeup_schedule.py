"""When a wakeup comes, whatever the agent and the clocks do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel.policy.timing import LARGEST_CORRECTION_MS, Wakeup, WakeupDecision, decide, rearmed_ms, sought_from_ms

YEAR_MS = 365 * 24 * 3600 * 1000
NOW_MS = 1_790_000_000_000
DUE = Wakeup(
    now_ms=NOW_MS, next_ms=NOW_MS, following_ms=NOW_MS + 5000, period_ms=5000, active_ms=NOW_MS - 5000, busy=False,
    pending=False,
)  # fmt: skip
times = st.integers(min_value=0, max_value=2 * NOW_MS)
looks = st.builds(
    Wakeup,
    now_ms=times,
    next_ms=times,
    following_ms=times,
    period_ms=st.none() | st.integers(1000, 30 * 86_400_000),
    active_ms=times,
    busy=st.booleans(),
    pending=st.booleans(),
)


@pytest.mark.promise("P21", "TF19")
@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (DUE, WakeupDecision("due", NOW_MS + 5000)),
        (replace(DUE, next_ms=NOW_MS + 1), WakeupDecision("early", NOW_MS + 1)),
        (replace(DUE, active_ms=NOW_MS - 4999), WakeupDecision("active", NOW_MS + 1)),
        (replace(DUE, busy=True), WakeupDecision("active", NOW_MS + 5000)),
        (replace(DUE, pending=True), WakeupDecision("coalesced", NOW_MS + 5000)),
        (replace(DUE, period_ms=None, active_ms=NOW_MS, busy=True), WakeupDecision("due", NOW_MS + 5000)),
        (replace(DUE, period_ms=None, pending=True), WakeupDecision("coalesced", NOW_MS + 5000)),
        (replace(DUE, active_ms=NOW_MS + YEAR_MS), WakeupDecision("due", NOW_MS + 5000)),
    ],
    ids=["due", "early", "active", "busy", "pending", "cron ignores activity", "cron coalesces", "clock put back"],
)
def test_what_becomes_of_a_timer(look: Wakeup, expected: WakeupDecision) -> None:
    """S2's two patterns; at most one waits for its turn."""
    assert decide(look) == expected


@given(looks)
def test_an_interval_is_never_early_and_never_while_its_agent_is_active(look: Wakeup) -> None:
    verdict = decide(look)
    if verdict.decision in {"due", "coalesced"}:
        assert look.now_ms >= look.next_ms
        if look.period_ms is not None:
            assert not look.busy
            assert look.active_ms > look.now_ms or look.now_ms - look.active_ms >= look.period_ms
    if verdict.decision == "due":
        assert not look.pending
    if verdict.decision == "active":
        assert look.period_ms is not None
        assert look.now_ms < verdict.next_ms <= look.now_ms + look.period_ms


@pytest.mark.promise("TF01")
@given(stored=times, now=times, period=st.integers(1000, 30 * 86_400_000))
def test_no_clock_makes_an_interval_longer(stored: int, now: int, period: int) -> None:
    assert rearmed_ms(stored, now + period) <= now + period
    assert rearmed_ms(stored, now + period) == stored or stored > now + period


@pytest.mark.promise("TF01", "TF02")
@pytest.mark.parametrize(
    ("back_ms", "expected"),
    [
        (1, NOW_MS),
        (LARGEST_CORRECTION_MS, NOW_MS),
        (LARGEST_CORRECTION_MS + 1, NOW_MS - LARGEST_CORRECTION_MS - 1),
        (YEAR_MS, NOW_MS - YEAR_MS),
        (-YEAR_MS, NOW_MS + YEAR_MS),
    ],
    ids=["corrected", "corrected by hours", "set", "set back a year", "set forward a year"],
)
def test_what_was_kept_does_not_come_again_for_a_clock_that_corrected_itself(back_ms: int, expected: int) -> None:
    assert sought_from_ms(NOW_MS - back_ms, NOW_MS) == expected


@pytest.mark.promise("P21")
def test_a_timer_that_never_came_has_nothing_to_repeat() -> None:
    assert sought_from_ms(NOW_MS, None) == NOW_MS
