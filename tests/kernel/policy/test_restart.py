"""How often, and when, an agent that crashes is started again."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.retry import (
    AT_ONCE,
    CALM_MS,
    HOUR_MS,
    LOOP_MS,
    OF_SERVICES,
    Backoff,
    BootFailures,
    CrashRecord,
    PastBoot,
    StopAgent,
    after_crash,
    budget,
    in_boot_loop,
    with_failure,
)
from protocol.agent import Restart

BUDGET = budget(AT_ONCE)

NOW = 10_000_000
jitters = st.floats(min_value=0, max_value=1, exclude_max=True)


def crashing(lifetimes_ms: Iterator[int], jitter: float, *, steps: bool = False) -> tuple[int, int, StopAgent | None]:
    """Let an agent crash after each of ``lifetimes_ms``: starts, when it was last alive, and what stopped it."""
    record, now, starts = CrashRecord(), NOW, 0
    for lifetime in lifetimes_ms:
        starts += 1
        now += lifetime
        decision = after_crash(record, now, jitter)
        if isinstance(decision, StopAgent):
            return starts, now, decision
        recent = tuple(at for at in (*record.recent_ms, now) if at > now - HOUR_MS)
        record = CrashRecord(decision.streak, now, steps, recent)
        now += int(decision.seconds * 1000)
    return starts, now, None


@pytest.mark.promise("P13")
@pytest.mark.parametrize(
    ("restart", "pauses"),
    [
        (AT_ONCE, (0, 2, 4, 8, 16, 30, 30, 30)),
        (OF_SERVICES, (1, 2, 4, 8, 16, 30, 30, 30)),
        (Restart(delay=0.2, max_delay=3), (0.2, 2, 3, 3, 3, 3, 3, 3)),
        (Restart(delay=10), (10, 20, 30, 30, 30, 30, 30, 30)),
        (Restart(max_delay=0), (0, 0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_the_first_pause_is_the_files_and_the_next_ones_grow_to_the_longest(
    restart: Restart, pauses: tuple[float, ...]
) -> None:
    for jitter, factor in ((0.0, 0.5), (0.999999, 1.0)):
        seen = [after_crash(CrashRecord(streak=n), NOW, jitter, restart) for n in range(8)]
        assert all(isinstance(one, Backoff) for one in seen)
        delays = [one.seconds for one in seen if isinstance(one, Backoff)]
        assert delays == pytest.approx([factor * each for each in pauses], rel=1e-3)
        assert [one.streak for one in seen] == list(range(1, 9))


@pytest.mark.promise("P13")
@given(jitters, st.integers(1, 100), st.floats(1, 3600), st.floats(0, 60))
@settings(max_examples=60, deadline=None)
def test_whatever_a_file_says_a_crash_loop_stops(jitter: float, attempts: int, window: float, longest: float) -> None:
    """After as many starts as it says within its window; no more than that, or than 20, fit into an hour."""
    restart = Restart(attempts=attempts, window=window, max_delay=longest)
    record, now = CrashRecord(), NOW
    for starts in range(1, max(20, attempts) + 1):
        now += 1
        decision = after_crash(record, now, jitter, restart)
        if isinstance(decision, StopAgent):
            assert starts >= min(attempts, 20)
            return
        record = CrashRecord(decision.streak, now, False, (*record.recent_ms, now))
        now += int(decision.seconds * 1000)
    assert now - NOW > HOUR_MS


@pytest.mark.promise("P13")
@given(jitters)
def test_an_agent_that_always_crashes_is_started_exactly_as_often_as_its_budget_says(jitter: float) -> None:
    starts, stopped_at, stop = crashing(iter([1] * 100), jitter)
    assert starts == 5 and stop == StopAgent("5 crashes within 60 s", 5)
    assert stopped_at - NOW < 60_000


@pytest.mark.promise("P13")
@settings(max_examples=30, deadline=None)
@given(jitters)
def test_an_agent_that_crashes_every_other_minute_is_stopped_by_the_hour(jitter: float) -> None:
    """20 in an hour, though never 5 in a minute."""
    starts, _, stop = crashing(iter([120_000] * 100), jitter)
    assert starts == 20 and stop is not None and stop.reason == "20 crashes within 3600 s"


@pytest.mark.promise("P13")
def test_an_agent_that_works_between_its_crashes_goes_on() -> None:
    """One that crashes after 5 minutes of work is tried again each time, after the longest delay."""
    starts, _, stop = crashing(iter([300_000] * 200), 0.5, steps=True)
    assert (starts, stop) == (200, None)


@pytest.mark.parametrize(
    ("stepped", "calm_ms", "streak"), [(True, CALM_MS + 1, 1), (True, CALM_MS, 5), (False, CALM_MS * 10, 5)]
)
def test_the_delays_begin_again_after_ten_calm_minutes_and_a_step(stepped: bool, calm_ms: int, streak: int) -> None:
    assert after_crash(CrashRecord(4, NOW - calm_ms, stepped), NOW, 0.0).streak == streak


@pytest.mark.promise("P13")
@settings(max_examples=3 * settings.get_profile("untimed").max_examples, deadline=None)
@given(st.lists(st.integers(0, 400_000), max_size=60), jitters)
def test_the_budget_is_exact_for_every_pattern_of_crashes(gaps: list[int], jitter: float) -> None:
    """Stopped by the first crash that is the 5th in a minute or the 20th in an hour, by no other."""
    now, times = NOW, list[int]()
    for gap in gaps:
        now += gap
        verdict = after_crash(CrashRecord(recent_ms=tuple(at for at in times if at > now - HOUR_MS)), now, jitter)
        times.append(now)
        over = any(sum(now - at <= window for at in times if at > now - HOUR_MS) >= most for most, window in BUDGET)
        assert isinstance(verdict, StopAgent) == over
        if over:
            return


@pytest.mark.promise("P13")
@pytest.mark.parametrize(("crashes", "window_ms"), BUDGET)
def test_the_last_millisecond_of_a_window_counts(crashes: int, window_ms: int) -> None:
    assert isinstance(after_crash(CrashRecord(recent_ms=(NOW - window_ms,) * (crashes - 1)), NOW, 0.0), StopAgent)
    before = (NOW - window_ms - 1, *((NOW - window_ms,) * (crashes - 2)))
    assert isinstance(after_crash(CrashRecord(recent_ms=before), NOW, 0.0), Backoff)


@pytest.mark.promise("P21")
@given(st.integers(-(10**13), 10**13), st.integers(0, 10**6))
def test_times_from_another_life_of_the_clock_break_nothing(last_ms: int, streak: int) -> None:
    decision = after_crash(CrashRecord(streak, last_ms, True, (last_ms, last_ms)), NOW, 0.5)
    assert isinstance(decision, Backoff) and 0 <= decision.seconds <= 30


@pytest.mark.promise("P13")
def test_deaths_add_up_only_while_nothing_gets_further() -> None:
    deaths = BootFailures(0, -1)
    seen = []
    for progress in (0, 0, 1, 1, 1):
        deaths = with_failure(deaths, progress)
        seen.append((deaths.count, deaths.poisonous))
    assert seen == [(1, False), (2, False), (1, False), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("ages_ms", "clean", "loop"),
    [
        ((1, 2, 3), (False, False, False), True),
        ((1, 2, 3, 4), (False, False, False, True), True),
        ((1, 2), (False, False), False),
        ((1, 2, 3), (False, True, False), False),
        ((1, 2, LOOP_MS + 1), (False, False, False), False),
        ((-5, -6, -7), (False, False, False), True),
    ],
)
def test_three_unclean_boots_in_five_minutes_are_a_loop(
    ages_ms: tuple[int, ...], clean: tuple[bool, ...], loop: bool
) -> None:
    boots = [PastBoot(NOW - age, ended) for age, ended in zip(ages_ms, clean, strict=True)]
    assert in_boot_loop(boots, NOW) is loop
