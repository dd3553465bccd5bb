"""Retry is a pure decision."""

import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.retry import (
    LONGEST_SECONDS,
    MOST_CRASHES,
    TABLE,
    Again,
    AttemptFailure,
    EndInstruction,
    History,
    Wait,
    decide,
    sensible_seconds,
    tries_left,
)
from protocol.agent import Restart, Retry
from protocol.errors import CLASS_OF_CAUSE, Cause

DEFAULT = Retry()
PATIENT = Retry(attempts=20)
HOUR = 3600.0

causes = st.sampled_from(get_args(Cause))
told = st.none() | st.floats() | st.sampled_from([-1.0, 0.0, 1e300, math.inf, -math.inf, math.nan])
jitters = st.floats(min_value=0, max_value=1, exclude_max=True)
counts = st.integers(min_value=0, max_value=10_000)
seconds = st.floats(min_value=0, max_value=1e7)
histories = st.builds(History, st.integers(0, 30), st.integers(0, 5), seconds, seconds, st.booleans(), counts)
retries = st.builds(
    Retry,
    attempts=st.integers(min_value=1, max_value=20),
    backoff=st.floats(min_value=0, max_value=86_400),
    multiplier=st.floats(min_value=1, max_value=10),
)


def test_the_table_has_a_row_for_every_cause_and_no_other() -> None:
    assert set(TABLE) == set(get_args(Cause)) == set(CLASS_OF_CAUSE)


@pytest.mark.parametrize(
    ("said", "seconds"), [(1e9, 7 * 24 * HOUR), (math.inf, 7 * 24 * HOUR), (-5.0, 0.0), (math.nan, None), (90.0, 90.0)]
)
def test_what_a_provider_says_is_taken_for_a_week_at_the_most(said: float, seconds: float | None) -> None:
    assert sensible_seconds(said) == seconds
    again = decide(AttemptFailure("network", said), History(1, 0, 0.0), PATIENT, 0.0)
    assert isinstance(again, Again)
    assert again.delay_seconds == max(seconds or 0.0, 0.5)


@pytest.mark.promise("P12")
@settings(max_examples=5 * settings.get_profile("untimed").max_examples)
@given(causes, told, histories, retries, jitters)
def test_every_retry_obeys_the_provider_and_the_table(
    cause: Cause, said: float | None, history: History, retry: Retry, jitter: float
) -> None:
    """Retry-After is a floor, nonsense apart; permanent is never retried; at most the table's attempts."""
    match decide(AttemptFailure(cause, said), history, retry, jitter):
        case Again(delay_seconds=delay) as again:
            assert (sensible_seconds(said) or 0) <= delay <= LONGEST_SECONDS
            _may_be_tried_again(again, cause, history, retry)
        case Wait(reason=reason, delay_seconds=None):
            assert cause == "auth" or (cause == "quota" and not sensible_seconds(said))
            assert reason in {"credentials", "quota"}
        case Wait(delay_seconds=float(delay)):
            assert cause in {"rate_limited", "quota"}
            assert (sensible_seconds(said) or 0) <= delay <= LONGEST_SECONDS
        case EndInstruction(status=status):
            resource = CLASS_OF_CAUSE[cause] == "resource"
            assert status == "incomplete" if resource else status in {"failed", "dead"}
            assert status != "failed" or history.attempts + history.crashes <= 1
        case never:
            raise AssertionError(never)


def _may_be_tried_again(again: Again, cause: Cause, history: History, retry: Retry) -> None:
    if again.compact:
        assert cause in {"context_overflow", "session_lost"} and not history.compacted
        return
    assert CLASS_OF_CAUSE[cause] in {"transient", "crash"}
    tries = TABLE[cause].tries
    if again.charge == "attempt":
        assert tries is not None and history.attempts < min(tries, retry.attempts)
    elif again.charge == "crash":
        assert CLASS_OF_CAUSE[cause] == "crash" and history.crashes == 0
    else:
        assert cause in {"spawn_transient", "kernel_restart", "node_lost"}


@pytest.mark.promise("P12")
@given(causes, histories, retries)
def test_what_is_permanent_or_ran_into_a_limit_is_not_tried_again(cause: Cause, history: History, retry: Retry) -> None:
    """Permanent errors have 0 retries; a limit keeps the thread (incomplete)."""
    decision = decide(AttemptFailure(cause), history, retry, 0.5)
    if CLASS_OF_CAUSE[cause] == "permanent" and cause not in {"quota", "auth"}:
        assert decision == EndInstruction("failed" if history.attempts + history.crashes <= 1 else "dead")
    if CLASS_OF_CAUSE[cause] == "resource" and cause != "context_overflow":
        assert decision == EndInstruction("incomplete")


@pytest.mark.parametrize(
    ("cause", "retry", "delays"),
    [
        ("network", PATIENT, [1, 2, 4, 8]),
        ("overloaded", PATIENT, [2, 4, 8, 16, 32, 64, 120]),
        ("network", DEFAULT, [1, 2]),
        ("overloaded", DEFAULT, [2, 4]),
        ("network", Retry(attempts=20, backoff=3, multiplier=10), [3, 16, 16, 16]),
        ("network", Retry(attempts=20, backoff=0), [0, 0, 0, 0]),
        ("startup_timeout", PATIENT, [5]),
        ("idle_timeout", DEFAULT, [5]),
        ("idle_timeout", Retry(attempts=1), []),
    ],
)
def test_transient_failures_are_tried_again_after_growing_delays(
    cause: Cause, retry: Retry, delays: list[float]
) -> None:
    seen: list[float] = []
    while isinstance(decision := decide(AttemptFailure(cause), History(len(seen) + 1, 0, 0), retry, 0.999999), Again):
        seen.append(decision.delay_seconds)
    assert seen == pytest.approx(delays, rel=1e-3)
    assert decision == EndInstruction("dead")


def test_a_lost_session_begins_anew_once_and_costs_no_attempt() -> None:
    assert decide(AttemptFailure("session_lost"), History(1, 0, 0), Retry(attempts=1), 0) == Again(
        0, "none", compact=True
    )
    assert decide(AttemptFailure("session_lost"), History(2, 0, 0, compacted=True), DEFAULT, 0) == EndInstruction(
        "dead"
    )


def test_an_overload_that_lasts_is_given_up_by_the_clock() -> None:
    """8 tries or 15 minutes."""
    assert isinstance(decide(AttemptFailure("overloaded"), History(2, 0, 0, 899), PATIENT, 0), Again)
    assert decide(AttemptFailure("overloaded"), History(2, 0, 0, 900), PATIENT, 0) == EndInstruction("dead")


@pytest.mark.promise("PF01")
@pytest.mark.parametrize(("cause", "least", "most"), [("crash", 0, 0), ("unresponsive", 0, 0), ("protocol", 1, 1)])
def test_a_crash_is_tried_once_more_and_then_dead(cause: Cause, least: float, most: float) -> None:
    assert decide(AttemptFailure(cause), History(1, 0, 0), DEFAULT, 0.0) == Again(least, "crash")
    last = decide(AttemptFailure(cause), History(1, 0, 0), Retry(attempts=1), 0.999999)
    assert isinstance(last, Again) and last.delay_seconds == pytest.approx(most, rel=1e-3)
    for restart in (Restart(), Restart(delay=1.0, window=1.0), Restart(attempts=1), Restart(attempts=2)):
        history = History(0, 1, 0, crash_ages_seconds=(0.5,))
        assert decide(AttemptFailure(cause), history, DEFAULT, 0.0, restart) == EndInstruction("dead")


def crashes_until_dead(cause: Cause, gaps: list[float], restart: Restart) -> list[float]:
    """Let the worker of an instruction crash after each of ``gaps`` seconds, the last of them for ever again: when."""
    now, times = 0.0, list[float]()
    while True:
        now += gaps[min(len(times), len(gaps) - 1)]
        history = History(0, len(times), 0, crash_ages_seconds=tuple(now - at for at in times))
        left = tries_left(cause, history, DEFAULT, restart)
        times.append(now)
        decision = decide(AttemptFailure(cause), history, DEFAULT, 0.5, restart)
        if not isinstance(decision, Again):
            assert (decision, left is not None and left <= 0) == (EndInstruction("dead"), True)
            return times
        assert left is not None and left > 0


crash_causes = st.sampled_from([cause for cause, row in TABLE.items() if row.charge == "crash"])
gaps = st.lists(st.floats(0, 10_000), min_size=1, max_size=60)
restarts = st.builds(Restart, attempts=st.integers(1, 100), window=st.floats(1, 3600))


@pytest.mark.promise("PF01", "P13")
@settings(max_examples=3 * settings.get_profile("untimed").max_examples, deadline=None)
@given(crash_causes, gaps, restarts)
def test_an_instruction_meets_as_many_crashes_as_its_agents_file_allows_within_the_window(
    cause: Cause, gaps: list[float], restart: Restart
) -> None:
    """Dead by the first that is the last of ``attempts`` in a window, or of 20 (or more) in all; by no other."""
    assert restart.attempts is not None
    times = crashes_until_dead(cause, gaps, restart)
    assert 2 <= len(times) <= max(MOST_CRASHES, restart.attempts), "a poison message ends"
    full = [sum(at - one <= restart.window for one in times[: n + 1]) >= restart.attempts for n, at in enumerate(times)]
    assert not any(full[1:-1])
    assert full[-1] or len(times) == max(MOST_CRASHES, restart.attempts)


@pytest.mark.promise("PF01")
@pytest.mark.parametrize(
    ("gap", "restart", "crashes"),
    [
        (0.0, Restart(attempts=5), 5),
        (0.0, Restart(attempts=100), 100),
        (60.0, Restart(attempts=2), 2),
        (61.0, Restart(attempts=2), 20),
        (61.0, Restart(attempts=40), 40),
        (15.0, Restart(attempts=5, window=60), 5),
        (15.1, Restart(attempts=5, window=60), 20),
    ],
)
def test_crashes_far_apart_end_an_instruction_later_and_never_not_at_all(
    gap: float, restart: Restart, crashes: int
) -> None:
    assert len(crashes_until_dead("crash", [gap], restart)) == crashes


@given(causes, histories, retries, st.builds(Restart, attempts=st.integers(1, 100)), jitters)
def test_how_often_workers_may_die_changes_nothing_for_other_failures(
    cause: Cause, history: History, retry: Retry, restart: Restart, jitter: float
) -> None:
    if TABLE[cause].charge != "crash":
        said = AttemptFailure(cause)
        assert decide(said, history, retry, jitter, restart) == decide(said, history, retry, jitter)


@given(st.lists(jitters, min_size=200, max_size=200))
@settings(max_examples=50, deadline=None)
def test_a_throttled_instruction_waits_uncharged_ever_longer_for_six_hours(chances: list[float]) -> None:
    """rate_limited, capped at 120 s; at the end it is dead and not parked for ever."""
    chance = iter([*chances, *([0.0] * 400)])
    waited, delays = 0.0, list[float]()
    once = Retry(attempts=1)
    while isinstance(
        decision := decide(AttemptFailure("rate_limited"), History(1, 0, waited), once, next(chance)), Wait
    ):
        assert decision.reason == "provider"
        assert decision.delay_seconds is not None and 1 <= decision.delay_seconds <= 120
        delays.append(decision.delay_seconds)
        waited += decision.delay_seconds
    assert decision == EndInstruction("dead") and waited >= 6 * HOUR
    assert isinstance(decide(AttemptFailure("rate_limited"), History(1, 0, 6 * HOUR - 1), once, 0), Wait)
    assert decide(AttemptFailure("rate_limited"), History(1, 0, 6 * HOUR), once, 0) == EndInstruction("dead")
    assert sum(delays[:12]) >= 120, "it is at the cap after a dozen, whatever chance says"


def test_no_quota_waits_for_its_reset_or_for_a_person_and_costs_nothing() -> None:
    assert decide(AttemptFailure("quota", 7200.0), History(9, 9, 0), DEFAULT, 0) == Wait("quota", 7200.0)
    for unknown in (None, 0.0, -5.0, math.nan):
        assert decide(AttemptFailure("quota", unknown), History(1, 0, 0), DEFAULT, 0) == Wait("quota", None)
    assert decide(AttemptFailure("quota", math.inf), History(1, 0, 0), DEFAULT, 0) == Wait("quota", LONGEST_SECONDS)


@pytest.mark.promise("PF03")
def test_bad_credentials_wait_for_a_person_whatever_the_provider_says() -> None:
    assert decide(AttemptFailure("auth", 5.0), History(1, 0, 0), DEFAULT, 0) == Wait("credentials", None)


def test_a_context_that_is_too_long_is_compacted_once() -> None:
    assert decide(AttemptFailure("context_overflow"), History(1, 0, 0), Retry(attempts=1), 0) == Again(
        0, "attempt", True
    )
    compacted = History(2, 0, 0, compacted=True)
    assert decide(AttemptFailure("context_overflow"), compacted, DEFAULT, 0) == EndInstruction("incomplete")


@pytest.mark.promise("PF17")
def test_a_machine_short_of_processes_is_waited_for_without_end_and_without_charge() -> None:
    """1 to 30 s."""
    delays = []
    for unstarted in range(1000):
        decision = decide(AttemptFailure("spawn_transient"), History(50, 1, 0, unstarted=unstarted), DEFAULT, 0.0)
        assert isinstance(decision, Again) and decision.charge == "none"
        delays.append(decision.delay_seconds)
    assert delays[:6] == [1, 2, 4, 8, 15, 15] and max(delays) == 15


@pytest.mark.parametrize(
    ("cause", "history", "left"),
    [
        ("network", History(1, 0, 0), 2),
        ("network", History(3, 0, 0), 0),
        ("crash", History(1, 0, 0), 1),
        ("crash", History(1, 1, 0), 0),
        ("rate_limited", History(9, 0, 0), None),
        ("invalid", History(1, 0, 0), 0),
    ],
)
def test_how_many_tries_are_left_can_be_told(cause: Cause, history: History, left: int | None) -> None:
    assert tries_left(cause, history, Retry(attempts=3)) == left
