"""Any sequence of votes, deadlines, restarts and stops leaves ballots as a plain model says."""

from typing import Final

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from kernel.policy.voting import Ballot, check_vote
from kernel.store import voting
from kernel.store.transitions import due
from kernel.store.transitions import voting as ballot_commits
from tests.kernel.store.soak import STEADY
from tests.kernel.store.voting_machine import VotingMachine
from tests.shorthand import sabotage

pytestmark = pytest.mark.promise("P24")


@pytest.mark.promise("P24", "XF18")
def test_any_sequence_of_votes_agrees_with_the_model() -> None:
    run_state_machine_as_test(VotingMachine, settings=settings(STEADY, max_examples=8, stateful_step_count=40))


SABOTAGE: Final = {
    "a deadline is forgotten": (due, "NEXT", "FROM ballots AS v WHERE v.state = 'open'", "FROM ballots AS v WHERE 0"),
    "what is due stays open": (ballot_commits, "DUE", "expires_ms <= ?", "expires_ms <= ? - 1000000000"),
    "the winner is lost": (voting, "END", "winner = :winner", "winner = NULLIF(:winner, :winner)"),
}
"""Where, and what to put in the place of what."""
EARLY: Final = 9
"""A seed with which each is found within a second; with others the last takes a hundred sequences."""


def found_out() -> None:
    """The machine disagrees with what the kernel does now."""
    generous = settings(STEADY, max_examples=200, stateful_step_count=30)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(seed(EARLY)(type("Seeded", (VotingMachine,), {})), settings=generous)


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_store_that_breaks_the_promise_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch, *SABOTAGE[what])
    found_out()


@pytest.mark.promise("XF18")
def test_a_rule_that_takes_a_second_vote_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(ballot: Ballot, voter: str, choice: str, now_ms: int, *, person: bool) -> None:
        if voter not in ballot.choices:
            check_vote(ballot, voter, choice, now_ms, person=person)

    monkeypatch.setattr(ballot_commits, "check_vote", lenient)
    monkeypatch.setattr(voting, "VOTE", voting.VOTE.replace("INSERT INTO", "INSERT OR REPLACE INTO"))
    found_out()
