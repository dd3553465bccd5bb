"""What a ballot comes to: by whichever order of votes, once it is sure, and at its deadline in any case."""

from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel.policy.voting import Decided, ProposalState, Undecided, counted, tally
from protocol.voting import Method, TieBreaker, Why

EXAMPLES: Final = settings.get_profile("untimed").max_examples
"""As many as is usual; ``scripts/soak properties`` tries more."""
DEADLINE_MS: Final = 60_000
TEAM: Final = ("alice", "bob", "carol", "dave")
OPTIONS: Final = ("a", "b", "c", "d")


@st.composite
def ballots(draw: st.DrawFn) -> ProposalState:
    """Up to six electors and four options, by every rule."""
    rule: Method = draw(st.sampled_from(("plurality", "majority", "unanimous")))
    ties: tuple[TieBreaker | None, ...] = (None, "first", "random", "creator-decides")
    tie_breaker = draw(st.sampled_from(ties))
    electors = draw(st.integers(1, 6))
    return ProposalState(
        type="decision",
        rule=rule,
        options=OPTIONS[: draw(st.integers(2, 4))],
        electors=frozenset(f"e{number}" for number in range(electors)),
        quorum=draw(st.integers(1, electors)),
        deadline_ms=DEADLINE_MS,
        tie_breaker=None if rule == "unanimous" else tie_breaker,
        seed=str(draw(st.integers(0, 9))),
        strict=draw(st.booleans()),
    )


def three(rule: Method = "plurality", tie_breaker: TieBreaker | None = None, quorum: int = 3) -> ProposalState:
    return ProposalState("decision", rule, ("a", "b", "c"), frozenset(TEAM[:3]), quorum, DEADLINE_MS, tie_breaker, "s")


def test_what_decides_over_a_run_is_won_by_nobody_at_its_deadline_without_its_quorum() -> None:
    approval = replace(three("majority"), type="approval", options=("yes", "no"), strict=True)
    one, two = {"alice": "yes"}, {"alice": "yes", "bob": "no"}
    assert tally(approval, one, DEADLINE_MS) == Decided(None, "deadline")
    assert tally(approval, two, DEADLINE_MS) == Decided(None, "deadline")
    assert tally(approval, {"user": "yes", "alice": "yes"}, DEADLINE_MS) == Decided(None, "deadline")
    assert tally(approval, one, 0) == tally(approval, two, 0) == Undecided()
    assert tally(approval, one | {"carol": "yes"}, 0) == Decided("yes", "settled")
    assert tally(replace(approval, strict=False), one, DEADLINE_MS) == Decided("yes", "deadline")
    assert tally(replace(approval, quorum=1), one, DEADLINE_MS) == Decided("yes", "deadline")


def test_the_no_of_a_person_ends_a_vote_on_a_rule() -> None:
    asked = replace(three(), type="approval", options=("yes", "no"), grants=2)
    assert tally(asked, {"user": "no"}, 0) == tally(asked, {"alice": "no", "bob": "no"}, 0) == Decided("no", "settled")
    assert tally(asked, {"alice": "no"}, 0) == Undecided()
    assert tally(asked, {"user": "yes", "alice": "yes"}, 0) == Decided("yes", "settled")


def four(rule: Method, tie_breaker: TieBreaker | None = None) -> ProposalState:
    return replace(three(rule, tie_breaker), electors=frozenset(TEAM), quorum=4)


def votes(choices: str) -> dict[str, str]:
    """``ab``: alice for a, bob for b. A blank: has not voted."""
    return {name: choice for name, choice in zip(TEAM, choices, strict=False) if choice != " "}


@pytest.mark.parametrize(
    ("ballot", "choices", "winner", "why"),
    [
        (three(), "aab", "a", "quorum"),
        (three(), "abc", None, "quorum"),
        (three(tie_breaker="first"), "cab", "a", "quorum"),
        (three(tie_breaker="first"), " bc", "b", None),
        (three(quorum=2), "ab", None, "quorum"),
        (three(), "aa", "a", "settled"),
        (four("plurality", "first"), "aa", "a", "settled"),
        (four("plurality", "first"), "bb", None, None),
        (four("plurality", "first"), "abb", None, None),
        (four("plurality"), "aab", None, None),
        (four("majority"), "aabb", None, "quorum"),
        (four("majority", "first"), "bbaa", "a", "quorum"),
        (four("majority", "first"), "bbac", None, "quorum"),
        (four("majority"), "aaab", "a", "quorum"),
        (four("majority"), "aaa", "a", "settled"),
        (four("majority"), "abc", None, "settled"),
        (four("majority"), "ab", None, None),
        (four("majority"), "abcc", None, "quorum"),
        (three("unanimous"), "aaa", "a", "quorum"),
        (three("unanimous"), "aa", None, None),
        (three("unanimous"), "ab", None, "settled"),
    ],
)
def test_who_wins_and_when(ballot: ProposalState, choices: str, winner: str | None, why: Why | None) -> None:
    found = tally(ballot, votes(choices), 0)
    if why is None:
        assert found == Undecided()
    else:
        assert isinstance(found, Decided)
        assert (found.winner, found.why) == (winner, why)


@pytest.mark.promise("P24")
@pytest.mark.parametrize(
    ("ballot", "choices", "winner"),
    [
        (three(), "", None),
        (three(tie_breaker="first"), "", None),
        (three(), "b", "b"),
        (three("majority"), "b", "b"),
        (three("majority"), "bc", None),
        (three("unanimous"), "bb", None),
        (three("unanimous", quorum=2), " bb", "b"),
        (three(tie_breaker="creator-decides"), "abc", None),
    ],
)
def test_at_its_deadline_the_votes_that_were_cast_decide(
    ballot: ProposalState, choices: str, winner: str | None
) -> None:
    """Dead voters; a quorum is wanted by the unanimous only; nobody wins without a vote."""
    found = tally(ballot, votes(choices), DEADLINE_MS)
    assert isinstance(found, Decided)
    assert (found.winner, found.why) == (winner, "deadline")


def test_its_creator_may_break_a_tie_only_while_it_is_open() -> None:
    ballot = three(tie_breaker="creator-decides")
    assert tally(ballot, votes("abc"), DEADLINE_MS - 1) == Undecided(("a", "b", "c"))
    assert tally(ballot, votes("abc"), DEADLINE_MS) == Decided(None, "deadline", ("a", "b", "c"))
    assert tally(ballot, votes("abb"), 0) == Decided("b", "quorum")


def test_the_vote_of_a_person_counts_and_nobody_waits_for_it() -> None:
    person = {"user": "b"}
    assert tally(three(quorum=2), {**votes("a"), **person}, 0) == Undecided()
    assert tally(three(quorum=2), {**votes("ab"), **person}, 0) == Decided("b", "quorum")
    assert tally(three("unanimous"), {**votes("aa"), **person}, 0) == Decided(None, "settled")


def test_an_assignment_has_no_winner_and_waits_for_all() -> None:
    """contracts 5: each option gets the agents who chose it."""
    ballot = replace(three(), type="assignment")
    assert tally(ballot, votes("aa"), 0) == Undecided()
    assert tally(ballot, votes("aab"), 0) == Decided(None, "quorum")
    assert tally(ballot, votes("a"), DEADLINE_MS) == Decided(None, "deadline")


def test_lots_are_drawn_anew_for_each_ballot_and_once_for_each() -> None:
    drawn = [tally(replace(three(tie_breaker="random"), seed=str(seed)), votes("abc"), 0) for seed in range(40)]
    again = [tally(replace(three(tie_breaker="random"), seed=str(seed)), votes("abc"), 0) for seed in range(40)]
    assert drawn == again
    assert {one.winner for one in drawn if isinstance(one, Decided)} == {"a", "b", "c"}


def _cast(ballot: ProposalState, choices: list[int]) -> dict[str, str]:
    options = ballot.options
    return {
        name: options[choice % len(options)] for name, choice in zip(sorted(ballot.electors), choices, strict=False)
    }


choices: Final = st.lists(st.integers(0, 11), max_size=6)


@pytest.mark.promise("P24")
@settings(max_examples=2 * EXAMPLES)
@given(ballot=ballots(), chosen=choices)
def test_it_ends_at_its_deadline_whatever_was_voted(ballot: ProposalState, chosen: list[int]) -> None:
    """A ballot always ends, and only somebody who was voted for wins."""
    cast = _cast(ballot, chosen)
    found = tally(ballot, cast, DEADLINE_MS)
    assert isinstance(found, Decided)
    assert found.winner is None or found.winner in cast.values()


@settings(max_examples=2 * EXAMPLES)
@given(ballot=ballots(), chosen=choices, data=st.data())
def test_in_which_order_the_votes_come_never_matters(
    ballot: ProposalState, chosen: list[int], data: st.DataObject
) -> None:
    whole = replace(ballot, quorum=len(ballot.electors))
    chosen = (chosen + [0] * 6)[: len(whole.electors)]
    cast = _cast(whole, chosen)
    so_far: dict[str, str] = {}
    found = tally(whole, so_far, 0)
    for voter in data.draw(st.permutations(sorted(cast))):
        if isinstance(found, Decided):
            break
        so_far[voter] = cast[voter]
        found = tally(whole, so_far, 0)
    all_at_once = tally(whole, cast, 0)
    if isinstance(found, Decided) and isinstance(all_at_once, Decided):
        assert found.winner == all_at_once.winner
    else:
        assert found == all_at_once


def _ends(ballot: ProposalState, counts: Mapping[str, int], left: int) -> Iterator[str | None]:
    for more in range(left + 1):
        for future in combinations_with_replacement(ballot.options, more):
            total = {option: counts[option] + future.count(option) for option in counts}
            yield _result(ballot, total, quorum=more == left)


def _result(ballot: ProposalState, counts: Mapping[str, int], *, quorum: bool) -> str | None:
    cast = sum(counts.values())
    best = [option for option in ballot.options if counts[option] == max(counts.values()) and cast]
    match ballot.rule:
        case "plurality":
            ahead = best
        case "majority":
            wins = [option for option in best if counts[option] > cast / 2]
            ahead = wins or [option for option in best if counts[option] == cast / 2]
            ahead = ahead if wins or len(ahead) == 2 else []
        case "unanimous":
            ahead = best if quorum and best and counts[best[0]] == cast else []
    if len(ahead) < 2:
        return ahead[0] if ahead else None
    if ballot.tie_breaker == "creator-decides":
        return "tie" if quorum else None
    every = {option: index for index, option in enumerate(ahead)}
    voting = {f"v{option}": option for option in every}
    found = tally(replace(ballot, rule="plurality", electors=frozenset(voting), quorum=len(every)), voting, 0)
    return found.winner if isinstance(found, Decided) else "tie"


@settings(max_examples=5 * EXAMPLES)
@given(ballot=ballots(), chosen=choices)
def test_it_ends_early_exactly_when_nothing_could_change_what_comes_of_it(
    ballot: ProposalState, chosen: list[int]
) -> None:
    cast = _cast(ballot, chosen[: max(ballot.quorum - 1, 0)])
    left = ballot.quorum - len(cast)
    futures = set(_ends(ballot, counted(ballot.options, cast), left))
    found = tally(ballot, cast, 0)
    if isinstance(found, Decided):
        assert found.why == "settled"
        assert futures == {found.winner}
    else:
        assert len(futures) > 1 or futures == {"tie"}


@pytest.mark.promise("P24")
@settings(max_examples=2 * EXAMPLES)
@given(ballot=ballots(), chosen=choices)
def test_once_all_are_there_it_ends_as_the_rules_say(ballot: ProposalState, chosen: list[int]) -> None:
    cast = _cast(ballot, (chosen + [0] * 6)[: ballot.quorum])
    found = tally(ballot, cast, 0)
    expected = _result(ballot, counted(ballot.options, cast), quorum=True)
    if expected == "tie":
        assert isinstance(found, Undecided)
        assert len(found.tied) > 1
    else:
        assert isinstance(found, Decided)
        assert (found.winner, found.why) == (expected, "quorum")
