"""Cron lines, where clocks are put forward and back."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.agents.schedule import NEVER_MS, Cron, CronRejected, ZoneRejected, find_zone, local_zone
from tests.kernel.refusals import raised

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "UTC")
DAY = timedelta(days=1)


def ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def local(at_ms: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, find_zone(zone))


@pytest.mark.promise("TF02")
@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_line_comes_once_on_every_day_of_two_years(zone: str) -> None:
    """02:30 is skipped in spring and comes twice in autumn; the wakeup comes once on both days."""
    cron = Cron("30 2 * * *", find_zone(zone))
    day = datetime(2025, 1, 1, 12, tzinfo=find_zone(zone))
    at_ms = ms(day)
    for _ in range(730):
        at_ms = cron.next_after(at_ms)
        day += DAY
        found = local(at_ms, zone)
        assert found.date() == day.date()
        assert found.fold == 0
        assert (found.hour, found.minute) in {(2, 30), (3, 0)}, "as written, or when the gap ends"


@pytest.mark.promise("TF02")
@pytest.mark.parametrize(
    ("zone", "day", "expected"),
    [
        ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC), "2026-03-29T03:00:00+02:00"),
        ("Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC), "2026-10-25T02:30:00+02:00"),
        ("America/New_York", datetime(2026, 3, 8, 6, tzinfo=UTC), "2026-03-08T03:00:00-04:00"),
    ],
)
def test_a_time_that_is_skipped_comes_when_the_gap_ends_and_one_that_comes_twice_the_first_time(
    zone: str, day: datetime, expected: str
) -> None:
    assert local(Cron("30 2 * * *", find_zone(zone)).next_after(ms(day)), zone).isoformat() == expected


@pytest.mark.promise("TF02")
def test_nothing_comes_again_in_the_second_of_two_equal_hours() -> None:
    """Asked between the two 02:30s, the next one is tomorrow's."""
    cron = Cron("30 2 * * *", find_zone("Europe/Berlin"))
    first_ms = ms(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert cron.next_after(first_ms - 1) == first_ms
    for minutes in (0, 1, 40, 60, 89):
        following = local(cron.next_after(first_ms + minutes * 60_000), "Europe/Berlin")
        assert following.isoformat() == "2026-10-26T02:30:00+01:00"


@pytest.mark.promise("TF02")
def test_a_line_for_every_quarter_of_an_hour_follows_real_time() -> None:
    cron = Cron("*/15 * * * *", find_zone("Europe/Berlin"))
    at_ms = start_ms = ms(datetime(2026, 10, 24, 22, tzinfo=UTC))
    for count in range(1, 25):
        at_ms = cron.next_after(at_ms)
        assert at_ms == start_ms + count * 15 * 60_000


@pytest.mark.promise("P21")
@given(
    line=st.sampled_from(["* * * * *", "30 2 * * *", "*/7 1-3 * * *", "0 9 * * 1-5", "15 0 L * *", "0 12 29 2 *"]),
    zone=st.sampled_from(ZONES),
    at=st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2040, 1, 1)),  # noqa: DTZ001
)
def test_the_next_time_is_always_later_and_never_skips_one(line: str, zone: str, at: datetime) -> None:
    cron = Cron(line, find_zone(zone))
    at_ms = ms(at.replace(tzinfo=UTC))
    following_ms = cron.next_after(at_ms)
    assert at_ms < following_ms < NEVER_MS
    assert cron.next_after(following_ms - 1) == following_ms
    assert cron.next_after((at_ms + following_ms) // 2) == following_ms


NO_LINES = """
*
* * * *
* * * * * *
61 * * * *
a b c d e
*/0 * * * *
5-1 * * * *
0 0 30 2 *
- - - - -
"""


@pytest.mark.promise("CF13")
@pytest.mark.parametrize("line", [*NO_LINES.splitlines(), "0,".ljust(400, "0") + " * * * *"])
def test_what_is_no_cron_line_is_refused(line: str) -> None:
    with pytest.raises(CronRejected):
        Cron(line, UTC)


@pytest.mark.promise("CF13")
@given(st.lists(st.text("0123456789*/-,L#W²١ MONJA", min_size=1, max_size=8), min_size=5, max_size=5))
def test_no_text_does_more_than_be_refused(fields: list[str]) -> None:
    with suppress(CronRejected):
        assert Cron(" ".join(fields), UTC).next_after(0) > 0


@pytest.mark.promise("CF13")
def test_a_zone_is_found_by_its_name_or_the_nearest_is_named() -> None:
    assert str(find_zone("Europe/Berlin")) == "Europe/Berlin"
    for name in ("", "America", "../Europe/Berlin", "/etc/passwd", "a\0b", "x" * 5000):
        with pytest.raises(ZoneRejected, match="is not a known time zone"):
            find_zone(name)
    assert raised(ZoneRejected, find_zone, "europe/berlin").hint == "did you mean Europe/Berlin?"


def test_the_machines_zone_is_its_variable_then_its_file_then_utc(tmp_path: Path) -> None:
    missing = tmp_path / "localtime"
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"no zone at all")
    assert str(local_zone("Asia/Tokyo", missing)) == "Asia/Tokyo"
    assert str(local_zone(":Asia/Tokyo", missing)) == "Asia/Tokyo"
    assert local_zone("Nowhere", missing) is UTC
    assert local_zone(None, missing) is UTC
    assert local_zone(None, garbage) is UTC
