"""The filter of mediation, by property: nothing that may not be given is given, nor makes any difference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy import curation
from kernel.policy.recall import CUT
from protocol.agent_memory import TIERS, VISIBILITIES, Entry, Source

PLACE = "review:main"
NOW_MS = 1_800_000_000_000
words = st.sampled_from(
    ["deploy", "deployments", "staging", "password", "部署", "the", "Ünïcode", "x" * 300, ">", "\n# you"]
)
texts = st.lists(words, min_size=1, max_size=8).map(" ".join)
entries = st.lists(
    st.builds(
        Entry,
        key=st.text("abc", min_size=1, max_size=3),
        value=texts,
        tier=st.sampled_from(TIERS),
        visibility=st.sampled_from(VISIBILITIES),
        space_only=st.sampled_from([None, PLACE, "task:main"]),
        source=st.builds(Source, class_=st.sampled_from(["user", "agent", "tool", "web"])),
    ),
    max_size=12,
)


def visible(entry: Entry) -> bool:
    """The rule as the contract has it."""
    return entry.visibility in ("shareable", "public") and (entry.space_only is None or entry.space_only == PLACE)


@pytest.mark.promise("P51")
@given(entries, texts)
def test_what_may_not_be_given_makes_no_difference(known: list[Entry], query: str) -> None:
    told = curation.answer(known, query, PLACE, NOW_MS)
    assert told == curation.answer([one for one in known if visible(one)], query, PLACE, NOW_MS)
    assert len(told) <= curation.MOST_GIVEN
    for one in told:
        assert any(visible(entry) and entry.key == one.key and entry.trust == one.trust for entry in known)


@given(entries, texts)
def test_what_is_given_is_quoted_bounded_and_has_its_source(known: list[Entry], query: str) -> None:
    for one in curation.answer(known, query, PLACE, NOW_MS):
        assert all(line.startswith(">") for line in one.text.splitlines())
        limit = curation.WHOLE_CHARACTERS if one.visibility == "public" else curation.EXCERPT_CHARACTERS
        assert len(one.text) <= limit + 2 * len(CUT) + 2 * one.text.count(">")
        assert one.trust == one.source.class_


@given(entries, st.lists(st.text("abcd", min_size=1, max_size=3), max_size=6))
def test_what_is_shared_is_what_may_be_given_and_the_rest_is_withheld(known: list[Entry], keys: list[str]) -> None:
    by_key = {one.key: one for one in reversed(known)}
    shared, withheld = curation.share(by_key.get, keys, PLACE)
    assert [one.key for one in shared] == [key for key in dict.fromkeys(keys) if key in by_key and visible(by_key[key])]
    assert {*withheld, *(one.key for one in shared)} == set(keys)


def test_the_entry_with_the_rarer_word_comes_first_and_words_are_found_without_their_endings() -> None:
    texts = ("how to deploy", "who may deploy at night", "deploy by the button in the lift")
    known = [Entry(f"k{n}", text, visibility="public") for n, text in enumerate(texts)]
    known.append(Entry("parser", "we deploy the parser on Fridays", visibility="public"))
    told = curation.answer(known, "What do you know about deployments of the parser?", PLACE, NOW_MS)
    assert [one.key for one in told] == ["parser", "k0", "k1", "k2"]
    assert curation.answer(known, "what do you know?", PLACE, NOW_MS) == ()


def test_a_shareable_entry_is_given_as_an_excerpt_around_the_word_and_a_public_one_whole() -> None:
    value = "x " * 600 + "the staging cluster" + " y" * 600
    (part,) = curation.answer([Entry("a", value, visibility="shareable")], "staging", PLACE, NOW_MS)
    (whole,) = curation.answer([Entry("a", value, visibility="public")], "staging", PLACE, NOW_MS)
    assert "staging cluster" in part.text
    assert (part.cut, len(part.text) < 420) == (True, True)
    assert (whole.cut, whole.text) == (False, f"> {value}")
