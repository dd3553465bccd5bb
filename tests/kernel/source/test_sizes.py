"""Amounts of memory in files."""

import pytest

from kernel.source.scalars import SizeRejected, parse_size, show_size


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
