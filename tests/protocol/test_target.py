"""Where a message goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.target import Target, TargetRejected, parse_target


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
