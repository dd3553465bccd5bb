"""The voting rule: where a vote can be held, and who is woken by what."""

from typing import Any, Final

import pytest

from kernel.policy.voting import ProposalOpened, with_defaults
from kernel.rule.draft import Draft, Fact, Payload, ProposalEnded, Wakes
from kernel.rule.effects import OpenProposal, WriteRow
from kernel.rule.evaluate import CORE_TABLE, evaluate
from protocol.errors import Refused
from protocol.message import MessageKind
from protocol.names import AgentKey
from protocol.voting import BallotType, Option, ProposalTerms
from tests.kernel.rule.view_double import SPACE, ViewDouble, team

NAMES: Final = ("alice", "bob", "carol")
AB: Final = (Option(id="a", label="Apples"), Option(id="b", label=""))
ALICE: Final = Wakes(agent=AgentKey(f"alice@{SPACE}"), name="alice")


def view(**more: Any) -> ViewDouble:
    return ViewDouble(members=team(*NAMES), **more)


def said(
    where: ViewDouble, kind: MessageKind, payload: Payload, sender: str = "alice", space: str = SPACE
) -> ViewDouble:
    """One message, and all that follows from it."""
    agent = sender in NAMES
    fact = Fact(
        Draft(kind=kind, space=space, sender=sender, payload=payload),
        hops=2,
        cause=7 if agent else None,
        speaker=AgentKey(f"{sender}@{SPACE}") if agent else None,
    )
    evaluate(fact, CORE_TABLE, where, where)
    return where


def rows(where: ViewDouble) -> list[Any]:
    return [one.row for _, effects in where.recorded for one in effects if isinstance(one, WriteRow)]


def opened(type: BallotType = "decision", options: tuple[Option, ...] = AB, **more: Any) -> ProposalOpened:
    asked = ProposalTerms(type=type, title="Which?", options=options, **more)
    return with_defaults(asked, asked.id or "p1", NAMES, 0)


def test_everybody_but_its_creator_is_woken_as_by_a_mention() -> None:
    where = said(view(), "proposal", opened())
    assert where.woken() == [(f"bob@{SPACE}", "immediate"), (f"carol@{SPACE}", "immediate")]
    (row,) = rows(where)
    assert isinstance(row, OpenProposal)
    assert (row.creator, row.creator_key, row.hops) == ("alice", f"alice@{SPACE}", 2)
    assert row.electors == NAMES


def test_what_a_person_puts_to_the_vote_wakes_all() -> None:
    assert len(said(view(), "proposal", opened(), "user").woken()) == 3


@pytest.mark.parametrize(
    ("where", "space", "code"),
    [
        (view(), "dm:alice", "not_a_participant"),
        (view(runs=False), SPACE, "workflow_not_running"),
        (view(has_channel=False), SPACE, "not_a_participant"),
        (view(ballots=("p1",)), SPACE, "already_exists"),
        (view(open=16), SPACE, "conflict"),
    ],
)
def test_where_nobody_can_vote_nothing_is_put_to_the_vote(where: ViewDouble, space: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        said(where, "proposal", opened(), "user", space)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)


@pytest.mark.parametrize("payload", [ALICE, ProposalEnded(name="p1", winner="a", wakes=ALICE)])
def test_its_creator_is_woken_as_by_a_mention(payload: Payload) -> None:
    """contracts 5: the creator learns the result."""
    where = said(view(), "resolved", payload, "system")
    assert where.woken() == [(f"alice@{SPACE}", "immediate")]


@pytest.mark.promise("P27")
def test_a_limit_holds_back_who_would_be_woken_by_the_end() -> None:
    where = said(view(assigned=1000), "resolved", ALICE, "system")
    assert (where.woken(), where.held_back()) == ([], [(f"alice@{SPACE}", "hops")])


def test_a_result_that_its_creator_has_seen_wakes_nobody() -> None:
    assert said(view(), "resolved", ProposalEnded(name="p1", winner="a", wakes=None)).woken() == []
    assert said(view(runs=False), "resolved", ALICE, "system").woken() == []
