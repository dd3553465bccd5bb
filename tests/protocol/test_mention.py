"""Who a text wakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.target import MAX_MENTIONS, find_mentions, flag_of, limit_mentions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi @alice and @Bob!", ("alice", "bob")),
        ("@alice @alice", ("alice",)),
        ("(@d) @e, @f: **@g**\n@h's", ("d", "e", "f", "g", "h")),
        ("mail bob@alice.com", ()),
        ("see https://host/@alice and /home/@bob", ()),
        ("install @scope/package", ()),
        ("write `@alice` or ``@bob`` but @carol", ("carol",)),
        ("```\n@alice\n```\n@bob", ("bob",)),
        ("~~~\n@alice is never closed", ()),
        ("a lone ` tick @alice", ("alice",)),
        ("@" + "a" * 33, ()),
        ("Ｆullwidth @ａlice", ()),
    ],
)
def test_a_mention_is_a_name_in_prose(text: str, expected: tuple[str, ...]) -> None:
    assert find_mentions(text) == expected


@given(st.lists(st.sampled_from(["@alice", "`", "``", "```", "\n", " ", "~~~", "http://", "x@y.z"]), max_size=60))
def test_any_mixture_of_fences_and_ticks_is_read_without_error(pieces: list[str]) -> None:
    """Only names that stand after an @ in the text come out."""
    text = "".join(pieces)
    assert all(f"@{name}" in text for name in find_mentions(text))


def test_the_ninth_mention_is_over_the_limit() -> None:
    woken, left = limit_mentions(f"a{n}" for n in range(9))
    assert (len(woken), left) == (MAX_MENTIONS, ("a8",))


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("this is URGENT", "urgent"),
        ("asap please", "urgent"),
        ("I am blocked by the tests", "urgent"),
        ("a critical bug", "urgent"),
        ("@alice and @bob: please look", "urgent"),
        ("@alice: please look, @alice", None),
        ("unblocked, uncritical, urgently", None),
        ("write `@alice` or `@bob`", None),
        ("well done", None),
    ],
)
def test_what_presses_stands_out(text: str, flag: str | None) -> None:
    """Words that say so, or several who have to act together; only whole words, and only mentions."""
    assert flag_of(text) == flag
