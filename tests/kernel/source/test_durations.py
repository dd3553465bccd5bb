"""Durations as people write them."""

import pytest

from kernel.source.scalars import DurationRejected, parse_duration, show_duration


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
