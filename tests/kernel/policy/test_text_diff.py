"""Texts compared and merged, line by line."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.text_diff import Hunk, applied, blame, changes, lines_of, merge, undoing, unified

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d " * 3]), max_size=12)
BASE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.promise("P37")
@given(LINES, LINES)
def test_what_differs_makes_one_text_of_the_other_and_back(old: list[str], new: list[str]) -> None:
    hunks = changes(old, new)
    assert applied(old, hunks) == new
    assert applied(new, undoing(old, new)) == old
    assert all(before.end < after.start for before, after in pairwise(hunks))


@pytest.mark.promise("P37")
@given(st.lists(st.sampled_from("abcdef"), max_size=10), st.data())
def test_changes_of_different_places_are_merged_whoever_comes_first(base: list[str], data: st.DataObject) -> None:
    """Every line has its own text, so that each side's hunks are exactly what it changed."""
    lines = [f"{number} {text}" for number, text in enumerate(base)]
    sides = [data.draw(st.sets(st.integers(0, max(len(lines) - 1, 0)), max_size=3)) for _ in range(2)]
    texts = [
        "\n".join(f"{line} by {side}" if number in touched else line for number, line in enumerate(lines))
        for side, touched in enumerate(sides)
    ]
    apart = all(abs(x - y) > 1 for x in sides[0] for y in sides[1]) or not lines
    merged = merge("\n".join(lines), *texts)
    assert isinstance(merged, str) is apart
    if isinstance(merged, str):
        assert merged == merge("\n".join(lines), *reversed(texts))
        both = [
            f"{line} by 0" if number in sides[0] else f"{line} by 1" if number in sides[1] else line
            for number, line in enumerate(lines)
        ]
        assert lines_of(merged) == (both or [""])


@pytest.mark.promise("P37")
@given(LINES, LINES)
def test_a_text_that_one_side_alone_changed_is_taken(base: list[str], new: list[str]) -> None:
    old, changed = "\n".join(base), "\n".join(new)
    assert merge(old, changed, old) == merge(old, old, changed) == merge(old, changed, changed) == changed


def test_what_touches_is_a_clash_with_all_three_sides() -> None:
    clashes = merge(BASE, BASE.replace("two", "2"), BASE.replace("two", "zwei"))
    assert clashes == ((2, ("two",), ("2",), ("zwei",)),)
    beside = merge(BASE, BASE.replace("two", "2"), BASE.replace("three", "3"))
    assert not isinstance(beside, str)
    assert merge(BASE, BASE.replace("one", "1"), BASE.replace("five", "5")) == "1\ntwo\nthree\nfour\n5\n"


def test_texts_made_to_be_slow_to_compare_are_compared_all_the_same() -> None:
    nested = [line for number in range(6000) for line in (f"x{number + 1}", f"x{number}")]
    alike = ["same"] * 15_000
    for old, new in ((["s", *nested], [*nested, "e"]), (["a", *alike, "b"], ["c", *alike, "same", "d"])):
        assert applied(old, changes(old, new)) == new


@pytest.mark.promise("P37")
@given(st.lists(LINES, min_size=1, max_size=6))
def test_every_line_is_from_the_version_that_brought_it(texts: list[list[str]]) -> None:
    model: list[tuple[str, int]] = []
    undo: list[tuple[int, list[Hunk]]] = []
    for version, text in enumerate(texts, 1):
        old = [line for line, _ in model]
        hunks = changes(old, text)
        for hunk in reversed(hunks):
            model[hunk.start : hunk.end] = [(line, version) for line in hunk.lines]
        undo.insert(0, (version, undoing(old, text)))
    assert blame(len(texts[-1]), undo) == [version for _, version in model]


def test_a_difference_is_shown_as_everybody_shows_it() -> None:
    old = [f"line {number}" for number in range(1, 21)]
    new = ["first", *old[:9], "line X", *old[10:]]
    assert unified(("a", "b"), old, new).splitlines() == [
        "--- a", "+++ b", "@@ -1,3 +1,4 @@", "+first", " line 1", " line 2", " line 3",
        "@@ -7,7 +8,7 @@", " line 7", " line 8", " line 9", "-line 10", "+line X", " line 11", " line 12", " line 13",
    ]  # fmt: skip
    assert unified(("a", "b"), old, old) == ""
    assert unified(("a", "b"), [], ["x"]).splitlines()[2:] == ["@@ -0,0 +1,1 @@", "+x"]
