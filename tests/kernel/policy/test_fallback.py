"""Which failures change the model, which model is next, and how long the failed one is closed."""

import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.circuit_breaker import Breaker, probing
from kernel.policy.fallback import (
    CAUSES,
    CLOSED_MS,
    GONE,
    TRIES,
    Availability,
    FallbackCause,
    availability,
    choose,
    closed,
    fallback_cause,
    reset_ms,
)
from kernel.policy.retry import TABLE as RETRIES
from kernel.policy.retry import AttemptFailure
from protocol.errors import Cause

NOW = 1_000_000_000
KEY = "p#0/m"
failures = st.builds(
    AttemptFailure,
    cause=st.sampled_from(sorted(RETRIES)),
    retry_after_seconds=st.none() | st.floats(),
    http_status=st.none() | st.integers(100, 999),
    code=st.none() | st.sampled_from(["model_not_found", "insufficient_quota", "x"]),
)
breakers = st.builds(
    Breaker,
    key=st.just(KEY),
    reason=st.sampled_from(["provider", "quota", "credentials"]),
    state=st.sampled_from(["open", "half_open"]),
    open_until_ms=st.sampled_from([0, NOW - 1, NOW, NOW + 1]) | st.integers(NOW, NOW + 10**9),
    probe=st.just(7),
    lasting=st.booleans(),
)


@pytest.mark.parametrize(
    ("failure", "tries", "cause"),
    [
        (AttemptFailure("quota", http_status=400), 1, "quota"),
        (AttemptFailure("quota", 3.0, 429, "insufficient_quota"), 1, "quota"),
        (AttemptFailure("rate_limited", 61.0, 429), 1, "rate_limit"),
        (AttemptFailure("rate_limited", 60.0, 429), 9, None),
        (AttemptFailure("rate_limited", None, 429), TRIES - 1, None),
        (AttemptFailure("rate_limited", None, 429), TRIES, "rate_limit"),
        (AttemptFailure("invalid", None, 404), 1, "model"),
        (AttemptFailure("invalid", None, 410), 1, "model"),
        (AttemptFailure("invalid", None, None, "model_not_found"), 1, "model"),
        (AttemptFailure("invalid", None, 400), 9, None),
        (AttemptFailure("overloaded", None, 503), TRIES - 1, None),
        (AttemptFailure("overloaded", None, 529), TRIES, "unavailable"),
        (AttemptFailure("overloaded", 600.0, 503), 1, "unavailable"),
        (AttemptFailure("network"), TRIES, "unavailable"),
        (AttemptFailure("auth", None, 401), 9, None),
        (AttemptFailure("auth", None, 403, "model_not_found"), 9, None),
        (AttemptFailure("refusal"), 9, None),
        (AttemptFailure("context_overflow", None, 400), 9, None),
        (AttemptFailure("budget"), 9, None),
        (AttemptFailure("crash"), 9, None),
    ],
)
def test_a_failure_changes_the_model_by_its_cause(
    failure: AttemptFailure, tries: int, cause: FallbackCause | None
) -> None:
    assert fallback_cause(failure, tries, after_seconds=60.0) == cause


@pytest.mark.parametrize("cause", ["overloaded", "network", "rate_limited"])
def test_what_would_end_the_work_changes_the_model_first(cause: Cause) -> None:
    assert fallback_cause(AttemptFailure(cause), 1, after_seconds=60.0, ends=True) is not None


@settings(max_examples=2000)
@given(failures, st.integers(1, 20), st.floats(0.1, 10**6), st.booleans())
def test_every_failure_has_a_cause_of_the_list_or_none(
    failure: AttemptFailure, tries: int, after: float, ends: bool
) -> None:
    found = fallback_cause(failure, tries, after_seconds=after, ends=ends)
    assert found is None or found in get_args(FallbackCause)
    assert found is None or failure.cause in CAUSES
    if failure.cause == "invalid" and failure.http_status not in GONE and failure.code != "model_not_found":
        assert found is None
    if found is not None:  # more of the same is no reason to stay
        assert fallback_cause(failure, tries + 1, after_seconds=after, ends=ends) == found
    until_ms = reset_ms(failure, NOW)
    said = failure.retry_after_seconds
    assert (until_ms is None) == (said is None or math.isnan(said) or said <= 0)


@settings(max_examples=2000)
@given(st.none() | breakers, st.sampled_from(get_args(FallbackCause)), st.none() | st.integers(NOW + 1, NOW + 10**9))
def test_a_failed_model_is_closed_until_its_reset_and_never_shorter_than_before(
    was: Breaker | None, cause: FallbackCause, until_ms: int | None
) -> None:
    new = closed(was, KEY, cause, until_ms, NOW)
    if was is not None and was.state == "open" and was.reason == "credentials":
        assert new == was, "a person has to act"
        return
    assert (new.state, new.lasting, new.probe) == ("open", True, None)
    before = was.open_until_ms if was is not None and was.state == "open" else 0
    assert new.open_until_ms == max(until_ms or NOW + CLOSED_MS, before)
    assert not new.is_due(NOW)
    assert new.is_due(new.open_until_ms)
    assert not probing(new, 3).is_due(new.open_until_ms), "one probe"


@settings(max_examples=2000)
@given(st.lists(st.lists(breakers, max_size=2), min_size=1, max_size=5), st.floats(0.1, 3600.0))
def test_the_first_usable_model_is_chosen_or_else_the_one_that_opens_first(
    shut: list[list[Breaker]], after: float
) -> None:
    found = [availability(one, NOW, after) for one in shut]
    place = choose(found)
    usable = [index for index, one in enumerate(found) if one.opens_ms == 0]
    assert place == usable[0] if usable else True
    times = [one.opens_ms for one in found if one.opens_ms is not None]
    if not usable and times:
        assert found[place].opens_ms == min(times)
    for one, its in zip(found, shut, strict=True):
        assert its or one == Availability(), "nothing is shut"
        assert not one.due or all(breaker.is_due(NOW) for breaker in its)


@pytest.mark.parametrize(
    ("breaker", "usable"),
    [
        (Breaker(KEY, "provider", "open", NOW + 5_000), True),  # a short wait is waited for
        (Breaker(KEY, "provider", "open", NOW + 61_000), False),
        (Breaker(KEY, "provider", "open", NOW + 5_000, lasting=True), False),
        (Breaker(KEY, "provider", "open", NOW, lasting=True), True),
        (Breaker(KEY, "provider", "half_open", NOW, probe=1, lasting=True), False),
        (Breaker(KEY, "quota", "open", 0), False),
        (Breaker(KEY, "credentials", "open", 0), True),  # a person has to act, and no other model is used
    ],
)
def test_only_a_lasting_or_long_wait_is_a_reason_for_another_model(breaker: Breaker, usable: bool) -> None:
    assert (availability([breaker], NOW, 60.0).opens_ms == 0) is usable
