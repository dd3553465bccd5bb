"""Names of spaces and agents: where a message goes, and who a text wakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.names import base_space, is_below, is_personal, place_of, split_below, split_space, subspace
from protocol.target import MAX_MENTIONS, Target, TargetRejected, find_mentions, flag_of, limit_mentions, parse_target


@pytest.mark.parametrize(
    ("text", "target", "space"),
    [
        ("alice", Target("alice", None), "dm:alice"),
        ("@review", Target(None, "review"), "review:main"),
        ("@review:pr-123", Target(None, "review", "pr-123"), "review:pr-123"),
        ("alice@review", Target("alice", "review"), "review:main"),
        ("alice@review:pr-1", Target("alice", "review", "pr-1"), "review:pr-1"),
        ("@review~design", Target(None, "review", "main~design"), "review:main~design"),
        ("alice@review:pr-1~design", Target("alice", "review", "pr-1~design"), "review:pr-1~design"),
    ],
)
def test_each_form_names_its_space_and_prints_as_it_was_typed(text: str, target: Target, space: str) -> None:
    assert parse_target(text) == target
    assert (target.space, str(target)) == (space, text)


@pytest.mark.promise("CF08")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "alice@",
        "Alice",
        "../../x",
        "system",
        "@dm:alice",
        "a@b@c",
        "@review:",
        "@review:-x",
        "бob",
        "a" * 33,
        "@review~",
        "@review~a~b",
        "@~design",
        "@review~design:x",
        "@review~A",
        "alice~design",
    ],
)
def test_what_is_no_target_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(TargetRejected, match=r"use alice, @review"):
        parse_target(text)


@given(st.text(max_size=80))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        target = parse_target(text)
    except TargetRejected:
        return
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("base", "space", "place", "split"),
    [
        ("review:main#12", "review:main~design#12.7", "review:main~design", ("review", "main~design")),
        ("review:pr-1.x#3", "review:pr-1.x~design#3.7", "review:pr-1.x~design", ("review", "pr-1.x~design")),
        ("review:main", "review:main~design#.7", "review:main~design", ("review", "main~design")),
    ],
    ids=["of a run", "whose tag has a point", "of an old database, whose spaces have no number"],
)
def test_a_space_below_another_leads_back_to_it(base: str, space: str, place: str, split: tuple[str, str]) -> None:
    assert subspace(base, "design", 7) == space
    assert base_space(space) == base
    assert base_space(place) == place_of(base)
    assert (place_of(space), split_space(space), split_below(space)) == (place, split, (place_of(base), "design"))
    assert (is_below(space), is_below(base), is_personal(space)) == (True, False, False)


@pytest.mark.parametrize("space", ["review:main#12", "review:main", "dm:alice"])
def test_a_space_that_is_below_none_is_its_own(space: str) -> None:
    assert base_space(space) == space
    assert split_below(space) == (place_of(space), "")


def test_the_default_tag_may_be_left_out() -> None:
    assert split_space("review~design") == split_space("review:main~design")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi @alice and @Bob!", ("alice", "bob")),
        ("@alice @alice", ("alice",)),
        ("(@d) @e, @f: **@g**\n@h's", ("d", "e", "f", "g", "h")),
        ("@b.2, @B.12. Or @b. Then @a.0 @b.100 @c.2x @d.2.5 a@e.2 @f.md", ("b.2", "b.12", "b")),
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
        (f"{'no ' * 2000} urgent", None),
    ],
)
def test_what_presses_stands_out(text: str, flag: str | None) -> None:
    """Words that say so, or several who have to act together; only whole words, and only mentions."""
    assert flag_of(text) == flag
