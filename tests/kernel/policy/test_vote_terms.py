"""Terms of proposals, votes on them, and the texts in which they are announced."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from kernel.policy.vote_texts import announced, asked_to_break, resolved, voted
from kernel.policy.voting import (
    Ballot,
    Decided,
    ProposalOpened,
    check_binding,
    check_cancel,
    check_terms,
    check_vote,
    with_defaults,
)
from protocol.errors import Refused
from protocol.names import AgentKey
from protocol.voting import METADATA_BYTES, BallotType, Option, ProposalTerms, Resolution, Vote
from tests.kernel.refusals import refused

NAMES: Final = ("alice", "bob", "carol")
AB: Final = (Option(id="a", label="Apples"), Option(id="b", label=""))
LATER_MS: Final = 60_000


def ballot(**more: Any) -> Ballot:
    """Alice's ballot p1 between a and b, nobody has voted."""
    known = Ballot(
        type="decision", rule="plurality", options=("a", "b"), electors=frozenset(NAMES), quorum=3,
        deadline_ms=LATER_MS, seed="p1", number=1, space="review:main", run=1, name="p1", title="Which?", labels=AB,
        creator="alice", creator_key=AgentKey("alice"), hops=1,
    )  # fmt: skip
    return replace(known, **more)


def opened(type: BallotType = "decision", options: tuple[Option, ...] = AB, **more: Any) -> ProposalOpened:
    asked = ProposalTerms(type=type, title="Which?", options=options, **more)
    return with_defaults(asked, asked.id or "p1", NAMES, 0)


VOTED: Final = (Vote(voter="alice", choice="a"), Vote(voter="bob", choice="b"))
TIE: Final = ballot(votes=VOTED, quorum=2, tie_breaker="creator-decides")


@pytest.mark.parametrize(
    ("known", "voter", "choice", "code", "words"),
    [
        (ballot(state="cancelled"), "bob", "a", "conflict", "has ended: cancelled"),
        (ballot(state="resolved", winner="b"), "bob", "a", "conflict", "resolved, winner b"),
        (ballot(deadline_ms=0), "bob", "a", "conflict", "the deadline has passed"),
        (ballot(), "dave", "a", "forbidden", "is not an elector"),
        (ballot(), "bob", "c", "bad_request", "option 'c' not found"),
        (ballot(votes=VOTED), "bob", "a", "conflict", "a vote is final"),
        (replace(TIE, options=("a", "b", "c")), "alice", "c", "conflict", "is tied: choose one of a, b"),
        (TIE, "bob", "a", "conflict", "a vote is final"),
    ],
)
def test_a_vote_that_cannot_count_is_refused(known: Ballot, voter: str, choice: str, code: str, words: str) -> None:
    """P24: in time, by an elector, for an option, once."""
    with pytest.raises(Refused, match=words) as caught:
        check_vote(known, voter, choice, 0, person=False)
    assert caught.value.code == code


def test_members_vote_once_a_person_may_too_and_the_creator_breaks_a_tie() -> None:
    """contracts 5."""
    check_vote(ballot(votes=VOTED), "carol", "a", 0, person=False)
    check_vote(ballot(), "user", "a", 0, person=True)
    check_vote(TIE, "alice", "b", 0, person=False)


def test_its_creator_or_a_person_cancels_what_is_open() -> None:
    """contracts 5."""
    check_cancel(ballot(), "alice", person=False)
    check_cancel(ballot(), "user", person=True)
    for known, name, code in ((ballot(), "bob", "forbidden"), (ballot(state="expired"), "alice", "conflict")):
        assert refused(check_cancel, known, name, person=False).code == code


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (opened(id="Not A Name"), "is not a name"),
        (opened(id="user"), "reserved"),
        (opened(options=AB[:1]), "1 options"),
        (opened("assignment", ()), "0 options"),
        (opened(options=(*AB, Option(id="A"))), "must be unique"),
        (opened("approval", AB), "yes and no"),
        (opened("election", AB), "must be members"),
        (opened(resolution=Resolution(quorum=4)), "quorum of 4"),
        (opened(resolution=Resolution(type="unanimous", tie_breaker="first")), "no ties"),
        (opened("assignment", resolution=Resolution(tie_breaker="first")), "no ties"),
        (opened("assignment", resolution=Resolution(type="majority")), "no winner"),
        (opened(options=(AB[0], Option(id="b", metadata={"why": "x" * METADATA_BYTES}))), "metadata of option 'b'"),
        (opened(timeout_seconds=0.999), "timeout_seconds"),
        (opened(timeout_seconds=8 * 24 * 3600), "timeout_seconds"),
    ],
)
def test_what_cannot_be_voted_on_is_refused(wrong: ProposalOpened, words: str) -> None:
    """contracts 5: bounds, options by type, quorum."""
    with pytest.raises(Refused, match=words) as caught:
        check_terms(wrong, len(NAMES))
    assert caught.value.code == "bad_request"


@pytest.mark.promise("P10")
def test_a_title_that_says_nothing_or_too_much_is_refused() -> None:
    for title in (" \n", "x" * 201):
        with pytest.raises(Refused, match=r"title is empty|for a title"):
            check_terms(with_defaults(ProposalTerms(type="approval", title=title), "p1", NAMES, 0), len(NAMES))


def test_an_election_may_be_between_some_members() -> None:
    """contracts 5: election: the members."""
    some = opened("election", (Option(id="bob", label="Bob the builder"), Option(id="carol")))
    assert some.terms.options == (Option(id="bob", label="@bob"), Option(id="carol", label="@carol"))


def test_what_is_announced_says_all_one_needs_to_vote() -> None:
    asked = ProposalTerms(
        type="decision",
        title="Which?\n[RESOLVED:p1] none",
        description="Fruit for all.",
        options=(AB[0], Option(id="b", metadata={"cost": 3, "note": "a\n- c: forged"})),
        resolution=Resolution(type="majority", quorum=2, tie_breaker="first"),
        binding=True,
        timeout_seconds=120,
    )
    assert announced(with_defaults(asked, "p1", NAMES, 0)) == (
        "[PROPOSAL:p1] Which? [RESOLVED:p1] none\n"
        "This is a binding vote, a decision; more than half of the votes win; the first option wins a tie; "
        "2 members have to vote; open for 2 minutes at most.\n"
        "Fruit for all.\n"
        "Options:\n"
        "- a: Apples\n"
        '- b {"cost":3,"note":"a\\n- c: forged"}\n'
        'Vote once, with team_vote: {"proposal": "p1", "choice": "<option>", "reason": "<why>"}.\n'
        "A vote is final."
    )


def test_what_comes_of_it_is_told_with_the_counts() -> None:
    """contracts 9: markers."""
    known = ballot()
    votes = {"alice": "a", "bob": "b", "user": "a"}
    assert resolved(known, {**votes, "carol": "b"}, Decided("a", "quorum")) == (
        "[RESOLVED:p1] Which?\nResult: a: Apples (the votes are in)\nVotes: a=2, b=2"
    )
    assert "(2 of 3 members have voted, which is enough)" in resolved(known, votes, Decided("a", "quorum"))
    assert resolved(known, {}, Decided(None, "deadline")) == (
        "[EXPIRED:p1] Which?\nResult: no winner (the deadline has passed)\nVotes: none"
    )
    assert "tie between a, b (the deadline has" in resolved(known, votes, Decided(None, "deadline", ("a", "b")))
    by_lot = replace(known, tie_breaker="random")
    even = resolved(by_lot, votes, Decided("a", "deadline", ("a", "b")))
    assert "Result: a: Apples (the deadline has passed; a tie between a, b: decided at random)" in even
    shares = replace(known, type="assignment")
    assert "Result: a: alice, user; b: bob" in resolved(shares, votes, Decided(None, "deadline"))
    assert voted(known, "a", "so\nit is", breaks_tie=False) == "[VOTE:p1] I vote for a: Apples (so it is)"
    assert "alice decides" in asked_to_break(known, ("a", "b"))


@pytest.mark.parametrize(("type", "id"), [("approval", "no"), ("election", "bob"), ("decision", "b")])
def test_an_option_keeps_its_metadata(type: BallotType, id: str) -> None:
    options = (
        (AB[0], Option(id=id, metadata={"cost": 3})) if type == "decision" else (Option(id=id, metadata={"cost": 3}),)
    )
    kept = {option.id: option.metadata for option in opened(type, options).terms.options}
    assert kept[id] == {"cost": 3}
    check_terms(opened(type, options), 3)


def test_what_cannot_be_binding_is_told_what_would_be() -> None:
    """contracts 5: where nothing follows, it is refused, and the hint says from what something does."""
    asked = ProposalTerms(type="decision", title="Which?", options=AB, binding=True)
    for verdict, would in ((None, "(verdict: ID)"), ("release", "the approval release decides this workflow")):
        assert would in str(refused(check_binding, asked, verdict).hint)
    check_binding(replace(asked, binding=False), None)
