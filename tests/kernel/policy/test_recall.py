"""Words and ranking: what a query finds, and in which order."""

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.recall import (
    DAY_MS,
    Corpus,
    Remembered,
    asked_words,
    corpus_of,
    excerpt,
    nearly_same,
    rank,
    recency,
    relevance,
    searched,
    shape_of,
    stem,
    weights,
    with_beside,
    within_budget,
    words,
)
from kernel.store.recall_index import IndexProgress, open_index
from kernel.store.turn_index import IndexedTurn, TurnPlace, forget_turns, put_turns, search, suspects

ENGLISH = (
    "caresses ponies ties cats feed agreed plastered motoring sing conflated troubled sized hopping falling hissing "
    "failing filing happy sky relational conditional rational valency hesitancy digitizer conformably radically "
    "differently vileness analogously vietnamization predication operator feudalism decisiveness hopefulness "
    "callousness formality sensitivity sensibility triplicate formative formalize electricity electrical goodness "
    "revival allowance inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent "
    "adoption homologou communism activate angularity homologous effective bowdlerize probate rate cease controlling "
    "rolling deployments migrations rollback rollbacks failures tested testing configuration"
)


@pytest.mark.promise("P47")
def test_english_words_lose_their_endings_as_sqlite_s_porter_takes_them() -> None:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer("porter", ["ascii"])
    for word in ENGLISH.split():
        (expected,) = tokenizer(
            word.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
        )
        assert stem(word) == expected, word
    assert stem("deploy") == stem("deployment") == stem("deploying") == "deploy"


def test_words_of_scripts_without_blanks_are_pairs_and_single_letters() -> None:
    assert words("回滚部署") == ["回", "滚", "部", "署", "回滚", "滚部", "部署"]
    assert asked_words("部署") == ("部署",) and asked_words("滚") == ("滚",)


def test_empty_words_count_only_where_nothing_else_is_asked() -> None:
    assert asked_words("what did the deployments do") == ("deploy",)
    assert asked_words("who are you") == ("who", "ar", "you")


INDEX, _ = open_index(":memory:", "log")


@given(st.text(max_size=60))
@settings(max_examples=150)
def test_whatever_stands_in_a_text_is_found_by_it(text: str) -> None:
    asked = asked_words(text)
    conn = INDEX
    forget_turns(conn, [place.id for place in suspects(conn)])
    put_turns(
        conn, [IndexedTurn("alice", TurnPlace("message", 1, 0, "dm:alice", 1), text)], IndexProgress("log", 1, 0, 0, 0)
    )
    found = search(conn, "alice", asked).found
    assert len(found) == bool(asked)
    if found:
        known = corpus_of([searched(text)], asked)
        assert found[0].weight == pytest.approx(sum(weights(known).values()))


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 50)), st.integers(1, 60))
@settings(max_examples=150)
def test_a_query_reads_no_more_than_its_budget_and_the_rare_words_first(holding: dict[str, int], budget: int) -> None:
    chosen = within_budget(holding, budget)
    assert sum(holding[word] for word in chosen.whole) + sum(chosen.newest.values()) <= budget
    assert all(
        holding[rare] <= holding[word]
        for rare in chosen.whole
        for word in holding
        if word not in chosen.whole and holding[word]
    )
    assert all(0 < count < holding[word] or count <= holding[word] for word, count in chosen.newest.items())
    if sum(holding.values()) <= budget:
        assert set(chosen.whole) == {word for word, count in holding.items() if count}


def test_a_rare_word_counts_more_than_a_common_one_and_a_short_text_more_than_a_long_one() -> None:
    """BM25."""
    weighted = weights(Corpus(100, 10.0, {"rare": 1, "common": 90, "none": 0}))
    assert weighted["rare"] > weighted["common"] > 0 and "none" not in weighted
    assert relevance(1.0, 5, 10.0) > relevance(1.0, 50, 10.0) > 0


def test_a_turn_counts_a_part_of_those_beside_it() -> None:
    scores = with_beside({1: 2.0, 2: 1.0, 9: 2.0}, lambda turn: (turn - 1, turn + 1))
    assert scores[1] > scores[9] == 2.0 and scores[2] == pytest.approx(1.7)


def test_recency_halves_in_thirty_days_and_what_has_no_time_is_new() -> None:
    assert recency(0, 30 * DAY_MS) == pytest.approx(0.5)
    assert recency(None, 5) == recency(10, 5) == 1.0


def test_of_near_duplicates_the_best_is_kept() -> None:
    old = Remembered("The staging cluster is in Lyon", "working", 0)
    new = Remembered("the staging cluster is in Lyon.", "working", 20 * DAY_MS)
    other = Remembered("The production cluster is in Oslo", "working", 0)
    ranked = rank([old, new, other], "which cluster", 20 * DAY_MS, 10)
    assert [one.place for one in ranked] == [1, 2]
    assert nearly_same(shape_of(old.text), [shape_of(other.text), shape_of(new.text)])
    assert not nearly_same(shape_of(old.text), [shape_of(other.text)])


def test_what_shares_no_word_is_not_found() -> None:
    assert rank([Remembered("we use pytest", "core")], "who painted the sunrise", 0, 10) == []


def test_an_excerpt_shows_the_words_that_were_asked_for() -> None:
    text = "x " * 500 + "the zebra crossed " + "y " * 500
    found = excerpt(text, asked_words("zebras"), 300)
    assert "zebra" in found and found.startswith("[cut]") and found.endswith("[cut]")
    assert excerpt("short", ("zebra",), 300) == "short"
    assert excerpt(text, (), 10) == "x x x x x [cut]"
