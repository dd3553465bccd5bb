"""What is old enough to be removed, whatever clocks said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.timing import (
    BUSY_BYTES,
    UNSEEN_MS,
    WORTH_BYTES,
    ClockJump,
    Leftover,
    kept_because,
    old_before,
    unseen,
)

pytestmark = pytest.mark.promise("P21")

DAY = 24 * 3600 * 1000
KEPT = 30 * DAY
YEAR = 365 * DAY
NOW = 20_000 * DAY


def test_without_a_skip_age_is_the_distance_of_stamps() -> None:
    assert old_before(NOW, KEPT, ()) == NOW - KEPT


@pytest.mark.parametrize(
    ("skips", "before"),
    [
        ([ClockJump(NOW - DAY, YEAR)], NOW - KEPT - YEAR),
        ([ClockJump(NOW - KEPT, YEAR)], NOW - KEPT),
        ([ClockJump(NOW - DAY, DAY), ClockJump(NOW - 3 * DAY, YEAR)], NOW - KEPT - DAY - YEAR),
        ([ClockJump(NOW - DAY, -YEAR)], NOW - KEPT),
        ([ClockJump(NOW - DAY, -YEAR), ClockJump(NOW + YEAR - 2 * DAY, YEAR)], NOW - KEPT),
        ([ClockJump(NOW - 31 * DAY, YEAR), ClockJump(NOW - 32 * DAY, YEAR)], NOW - KEPT),
    ],
    ids=["ahead", "ahead, long ago", "twice", "back", "ahead and back", "all long ago"],
)
def test_what_nobody_lived_through_makes_nothing_older(skips: list[ClockJump], before: int) -> None:
    assert old_before(NOW, KEPT, skips) == before


@given(st.lists(st.tuples(st.integers(0, 60 * DAY), st.integers(-2 * YEAR, 2 * YEAR)), max_size=6))
def test_a_skip_removes_nothing_earlier(skips: list[tuple[int, int]]) -> None:
    assert old_before(NOW, KEPT, [ClockJump(NOW - age, by) for age, by in sorted(skips)]) <= NOW - KEPT


@given(st.lists(st.tuples(st.sampled_from(("day", "ahead", "back")), st.integers(1, 400)), max_size=40))
def test_nothing_is_removed_before_its_time(story: list[tuple[str, int]]) -> None:
    """A stamp whose true age is below the limit is never old, through any story of days and of clocks that are set."""
    now, lived = NOW, 0
    skips: list[ClockJump] = []
    written: list[tuple[int, int]] = []
    for what, days in story:
        if what == "day":
            written.append((now, lived))
            now, lived = now + days * DAY // 20, lived + days * DAY // 20
        else:
            by = days * DAY if what == "ahead" else -days * DAY
            now += by
            skips.insert(0, ClockJump(now, by))
        before = old_before(now, KEPT, skips)
        assert all(lived - then >= KEPT for stamp, then in written if stamp < before)


def test_a_machine_that_was_off_is_believed_for_a_week() -> None:
    assert unseen(NOW - DAY, NOW) == 0
    assert unseen(NOW - UNSEEN_MS - 5, NOW) == 5
    assert unseen(NOW + 5, NOW) == -5


SMALL, LARGE = 2 * WORTH_BYTES, 3 * BUSY_BYTES


@pytest.mark.promise("P83")
@pytest.mark.parametrize(
    ("one", "because"),
    [
        (Leftover(group="logs", what="", why="", age_ms=0), ""),
        (Leftover(group="unfinished", what="", why="", age_ms=-DAY), ""),
        (Leftover(group="trees", what="", why="", needed="2 commits are not merged"), "2 commits are not merged"),
        (Leftover(group="aside", what="", why="", age_ms=DAY - 1), "it is younger than a day"),
        (Leftover(group="aside", what="", why="", age_ms=-DAY), "it is younger than a day"),
        (Leftover(group="aside", what="", why="", age_ms=DAY), ""),
        (Leftover(group="aside", what="", why="", age_ms=YEAR, needed="it is a link"), "it is a link"),
        (Leftover(group="comparisons", what="", why="", age_ms=DAY - 1), "it is younger than a day"),
        (Leftover(group="comparisons", what="", why="", age_ms=YEAR), ""),
        (Leftover(group="attempts", what="", why="", age_ms=DAY // 24 - 1), "it is younger than an hour"),
        (Leftover(group="attempts", what="", why="", age_ms=DAY // 24), ""),
        (Leftover(group="database", what="", why="", bytes=WORTH_BYTES - 1, whole_bytes=SMALL), "too few"),
        (Leftover(group="database", what="", why="", bytes=WORTH_BYTES, whole_bytes=SMALL), ""),
        (Leftover(group="database", what="", why="", bytes=LARGE // 4 - 1, whole_bytes=LARGE), "too few"),
        (Leftover(group="database", what="", why="", bytes=LARGE // 4, whole_bytes=LARGE), ""),
        (Leftover(group="database", what="", why="", bytes=LARGE // 4, whole_bytes=LARGE, busy=True), "running work"),
        (Leftover(group="database", what="", why="", bytes=SMALL, whole_bytes=2 * SMALL, busy=True), ""),
    ],
)
def test_what_may_be_pruned(one: Leftover, because: str) -> None:
    """What somebody needs never, what is young not yet, and the database where it is worth it and stalls nobody."""
    assert because in kept_because(one)
    assert bool(because) == bool(kept_because(one))
