"""Durations and amounts of memory as people write them."""

import pytest

from kernel.source.scalars import DurationRejected, SizeRejected, parse_duration, parse_size, show_duration, show_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("120s", 120.0),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("5", 5.0),
        ("0.5", 0.5),
        ("1 m", 60.0),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    """contracts 1: 120s, 10m, 2h; bare numbers are seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.promise("CF13")
@pytest.mark.parametrize("text", ["", "-5m", "1e-9s", "10x", "5 minutes", "1h30m", "inf", "nan", "٣s", "9" * 400])
def test_anything_else_is_rejected(text: str) -> None:
    with pytest.raises(DurationRejected):
        parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (0.2, "200ms"), (90, "90s"), (600, "10m"), (86400, "1d")])
def test_a_duration_is_shown_without_a_fraction(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@pytest.mark.promise("CF06")
@pytest.mark.parametrize(
    ("text", "count"), [("1024", 1024), ("512MiB", 2**29), ("4 GiB", 2**32), ("2GB", 2_000_000_000), ("1.5KiB", 1536)]
)
def test_amounts_are_read_with_their_units(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.promise("CF06")
@pytest.mark.parametrize("text", ["", "-1", "1e9", "4G", "4gib", "4 GiBs", "GiB", "0x10", "1" * 20])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(SizeRejected):
        parse_size(text)


def test_amounts_are_shown_as_they_are_written() -> None:
    assert [show_size(count) for count in (2**30, 3 * 2**29, 1000, 0)] == ["1GiB", "1536MiB", "1000B", "0B"]
