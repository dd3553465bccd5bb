"""The breaker is a pure decision: what a provider's failures do to those who would ask it next."""

import math
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.circuit_breaker import (
    FAILURES,
    LONGEST_SECONDS,
    TRIGGERS,
    WINDOW_MS,
    Breaker,
    ModelEndpoint,
    abandoned,
    failed,
    hold_until_ms,
    key_for,
    keys_of,
    probing,
    release_times,
)
from protocol.errors import Cause

ENDPOINT = ModelEndpoint("anthropic", "0badcafe", "claude")
KEY = "anthropic#0badcafe"
NOW = 1_000_000


# The two rules that the store's statements carry out; here they judge the others.
def succeeded(breaker: Breaker, instruction: int | None = None) -> Breaker:
    """The breaker after a success: closed; with ``instruction``, only if that is the probe."""
    if breaker.state == "closed" or (instruction is not None and breaker.probe != instruction):
        return breaker
    return Breaker(breaker.key, breaker.reason)


def admits(breaker: Breaker | None, instruction: int) -> bool:
    return (
        breaker is None or breaker.state == "closed" or (breaker.state == "half_open" and breaker.probe == instruction)
    )


causes = st.sampled_from(sorted(TRIGGERS))
told = st.none() | st.floats()
jitters = st.floats(min_value=0, max_value=1, exclude_max=True)


def opened(cause: Cause = "rate_limited", retry_after: float | None = None, jitter: float = 0.0) -> Breaker:
    """A breaker that one failure opened at NOW."""
    return failed(None, KEY, cause, retry_after, NOW, jitter)


@pytest.mark.parametrize("cause", ["rate_limited", "overloaded", "network"])
def test_a_tired_model_does_not_stop_the_others(cause: Cause) -> None:
    assert key_for(cause, ENDPOINT) == f"{KEY}/claude" in keys_of(ENDPOINT)


@pytest.mark.parametrize("cause", ["quota", "auth"])
def test_an_account_without_money_or_key_stops_all_its_models(cause: Cause) -> None:
    assert key_for(cause, ENDPOINT) == KEY in keys_of(ENDPOINT)


@pytest.mark.parametrize("cause", ["crash", "invalid", "max_steps", "idle_timeout", "kernel_restart"])
def test_what_is_not_the_providers_fault_is_not_booked_on_it(cause: Cause) -> None:
    assert key_for(cause, ENDPOINT) is None


@pytest.mark.parametrize("cause", ["rate_limited", "quota", "auth"])
def test_one_refusal_opens_it(cause: Cause) -> None:
    """Any 429, quota or auth."""
    breaker = opened(cause, 30.0)
    assert breaker.state == "open" and not admits(breaker, 1)
    assert hold_until_ms(breaker, NOW) == (0 if cause == "auth" else NOW + 30_000)


def test_a_quota_without_a_known_reset_is_held_until_a_person_helps() -> None:
    for unknown in (None, 0.0, -1.0, math.nan):
        assert hold_until_ms(opened("quota", unknown), NOW) == 0


@pytest.mark.parametrize("cause", ["overloaded", "network"])
def test_failures_have_to_add_up_within_a_minute(cause: Cause) -> None:
    """5 in 60 s, and no others."""
    breaker: Breaker | None = None
    for number in range(4 * FAILURES):  # one every quarter of the window: never 5 in it
        breaker = failed(breaker, KEY, cause, 99.0, NOW + number * WINDOW_MS // 4, 0.0)
        assert breaker.state == "closed" and admits(breaker, 1) and len(breaker.failures) < FAILURES
    at = NOW + 4 * FAILURES * WINDOW_MS
    for _ in range(FAILURES):
        assert breaker is not None and breaker.state == "closed"
        breaker = failed(breaker, KEY, cause, None, at, 0.0)
    assert breaker is not None and (breaker.state, breaker.failures) == ("open", ())


@pytest.mark.promise("P12")
@given(st.lists(st.tuples(causes, told, jitters, st.integers(0, 10_000)), max_size=40))
def test_an_open_breaker_never_opens_earlier_than_it_said(
    reports: list[tuple[Cause, float | None, float, int]],
) -> None:
    """Retry-After is a floor; those under way when it opened only move the time outward."""
    breaker = opened("rate_limited", 3600.0)
    now = NOW
    for cause, said, jitter, passed in reports:
        now += passed
        before, breaker = breaker, failed(breaker, KEY, cause, said, now, jitter)
        assert breaker.state == "open" and breaker.opens == 1
        assert breaker.open_until_ms == 0 or 0 < before.open_until_ms <= breaker.open_until_ms
        if cause not in ("auth", "quota") and breaker.open_until_ms and said is not None and not math.isnan(said):
            assert breaker.open_until_ms >= now + min(max(said, 0), 86_400) * 1000


def test_a_probe_that_fails_opens_it_for_longer_up_to_five_minutes() -> None:
    """2^k times 5 s, at most 300."""
    breaker, now, delays = opened(), NOW, []
    for instruction in range(10):
        delays.append(breaker.open_until_ms - now)
        now = breaker.open_until_ms
        breaker = failed(probing(breaker, instruction), KEY, "rate_limited", None, now, 0.0)
    assert delays == [2500, 5000, 10_000, 20_000, 40_000, 80_000, 150_000, 150_000, 150_000, 150_000]
    assert (
        failed(probing(breaker, 1), KEY, "network", None, now, 0.999999).open_until_ms <= now + LONGEST_SECONDS * 1000
    )


def test_a_failure_after_its_time_counts_as_a_failed_probe() -> None:
    breaker = opened()
    now = breaker.open_until_ms
    again = failed(abandoned(probing(breaker, 7), 7, now), KEY, "network", None, now, 0.0)
    assert (again.state, again.opens, again.open_until_ms) == ("open", 2, now + 5000)


def test_only_the_probes_success_closes_it() -> None:
    breaker = opened()
    assert succeeded(breaker, 7) == breaker
    half = probing(breaker, 8)
    assert succeeded(half, 7) == half
    assert succeeded(half, 8) == Breaker(KEY, "provider")
    assert succeeded(opened("auth")).state == "closed", "a person closes it whatever its state"


def test_success_of_others_does_not_forgive_failures_that_add_up() -> None:
    """5 in 60 s, in a row or not."""
    once = failed(None, KEY, "network", None, NOW, 0.0)
    assert succeeded(once, 3) == once


@pytest.mark.promise("P12")
def test_a_probe_that_hears_nothing_from_the_provider_leaves_its_place_to_the_next() -> None:
    """Half open is never a dead end."""
    half = probing(opened(), 8)
    now = half.open_until_ms + 9
    assert abandoned(half, 7, now) == half
    free = abandoned(half, 8, now)
    assert (free.state, free.probe, hold_until_ms(free, now)) == ("open", None, now)


@pytest.mark.promise("P12")
def test_who_tries_earlier_because_a_person_says_so_shortens_no_wait_of_others() -> None:
    half = probing(opened("rate_limited", 3600.0), 8)
    assert abandoned(half, 8, NOW + 9).open_until_ms == half.open_until_ms
    assert failed(half, KEY, "rate_limited", None, NOW + 9, 0.5).open_until_ms == half.open_until_ms
    assert failed(half, KEY, "rate_limited", 7200.0, NOW + 9, 0.5).open_until_ms == NOW + 9 + 7_200_000
    assert failed(half, KEY, "auth", None, NOW + 9, 0.5).open_until_ms == 0


@pytest.mark.promise("P12")
@given(st.lists(st.sampled_from(["fail", "probe", "succeed", "abandon"]), max_size=30), st.integers(0, 4))
def test_at_most_one_may_try_while_it_is_not_closed(steps: list[str], who: int) -> None:
    breaker, now = opened(), NOW
    for number, step in enumerate(steps):
        now += 1000
        match step:
            case "fail":
                breaker = failed(breaker, KEY, "rate_limited", None, now, 0.5)
            case "probe" if breaker.state == "open":
                breaker = probing(breaker, number % 5)
            case "succeed":
                breaker = succeeded(breaker, who)
            case "abandon":
                breaker = abandoned(breaker, who, now)
            case _:
                pass
        admitted = [one for one in range(5) if admits(breaker, one)]
        assert len(admitted) == {"closed": 5, "half_open": 1, "open": 0}[breaker.state]


@pytest.mark.promise("P12", "TF15")
def test_waiters_are_released_two_a_second_in_their_order() -> None:
    """Of 50 agents no second sees more than a fifth."""
    times = release_times(50, NOW)
    assert list(times) == sorted(times) and times[0] == NOW
    assert max(sum(start <= at < start + 1000 for at in times) for start in times) <= 10
    assert max(times) - NOW == 24_500
    assert release_times(0, NOW) == ()


@dataclass
class Herd:
    """Fifty agents and one provider that refuses everybody until it is well again."""

    well_at_ms: int
    breaker: Breaker | None = None
    under_way: set[int] = field(default_factory=lambda: set(range(50)))
    """Those that asked before the first was refused: nobody could hold them back."""
    calls: list[int] = field(default_factory=list)
    early: int = 0

    def call(self, agent: int, now: int, retry_after: float, jitter: float) -> bool:
        """One agent asks. Returns whether it was answered."""
        under_way = agent in self.under_way
        self.under_way.discard(agent)
        self.early += not under_way and not admits(self.breaker, agent)
        self.calls.append(now)
        if now >= self.well_at_ms:
            return True
        self.breaker = failed(self.breaker, KEY, "rate_limited", retry_after, now, jitter)
        return False


@pytest.mark.promise("TF15")
@settings(max_examples=50, deadline=None)
@given(st.integers(1, 600), st.integers(1, 120), st.randoms(use_true_random=False))
def test_fifty_agents_that_were_refused_together_do_not_come_back_together(
    ill_seconds: int, retry_after: int, chance: Random
) -> None:
    herd = Herd(well_at_ms=NOW + ill_seconds * 1000)
    for agent in range(50):
        herd.call(agent, NOW + agent, float(retry_after), chance.random())
    first = len(herd.calls)
    while True:
        assert herd.breaker is not None
        now = herd.breaker.open_until_ms
        herd.breaker = probing(herd.breaker, 0)
        assert [agent for agent in range(50) if admits(herd.breaker, agent)] == [0]
        if herd.call(0, now, float(retry_after), chance.random()):
            break
    herd.breaker = succeeded(herd.breaker, 0)
    retries = [*herd.calls[first:], *release_times(49, now)]
    assert herd.early == 0 and retries[0] >= NOW + retry_after * 1000
    assert max(sum(start <= at < start + 1000 for at in retries) for start in retries) <= 10
