"""The shape of the code stays in the ranges in which it can be read: sizes, imports, names, docstrings."""

import pytest

from tests.architecture.structure import LIMITS, holds, measure, told


def test_every_figure_is_in_its_range(subtests: pytest.Subtests) -> None:
    """``scripts/structure NAME`` lists the findings behind it."""
    figures = measure()
    for name in LIMITS:
        with subtests.test(name):
            value, findings = figures[name]
            assert holds(name, value), "\n".join([f"{name} is {value}, wanted {told(name)}", *findings[:20]])


@pytest.mark.parametrize(
    ("name", "value"), [("files", 711), ("file-median", 79), ("file-median", 251), ("used-once", 13)]
)
def test_what_is_out_of_range_is_found(name: str, value: float) -> None:
    """A range that holds everything judges nothing."""
    assert not holds(name, value)
