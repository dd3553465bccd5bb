"""A vote in a workspace: put to its members, who vote once; it is resolved once, and ends in any case.

Members are woken by it as by a mention. Its creator is woken by what comes of it, but for what it did itself: then the
answer to its call says so. A person may vote as well, and nobody waits for that. Where the workflow ends, what is open
is cancelled.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kernel.policy.ballot import Decided, Undecided, tally
from kernel.rule.ballot_terms import fault
from kernel.rule.ballot_words import cancelled, expired, resolved, tied
from kernel.rule.draft import (
    BallotCancelled,
    BallotDue,
    BallotEnded,
    BallotOpened,
    BallotTied,
    BallotVoted,
    Draft,
    WorkflowStopped,
)
from kernel.rule.effects import Append, BallotEnd, BallotOpen, BallotTie, BallotVote, Effect, Put, Refuse
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.refusals import no_channel, not_running
from kernel.rule.view import PutToVote, View, Workspace
from kernel.rule.waking import call_upon, limit_reached, limited
from protocol.message import SYSTEM, USER
from protocol.names import is_personal, place_of, split_space

MOST_OPEN: Final = 16
"""In one space: each wakes everybody."""


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """What follows from a step of a ballot; from other messages of these kinds nothing does."""
    step = STEPS.get(type(fact.payload))
    return () if step is None else step(fact, fact.payload, view)


def _open(fact: Fact, opened: BallotOpened, view: View) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.space)
    if workspace is None or not workspace.has_channel:
        return (_no_place(fact.space, workspace),)
    members = view.roster(fact.space)
    electors = members if opened.electors is None else tuple(one for one in members if one[1] in opened.electors)
    if (refused := _refusal(fact.space, opened, len(electors), view)) is not None:
        return (refused,)
    row = BallotOpen(
        opened=opened,
        space=fact.space,
        creator=fact.sender,
        creator_key=fact.speaker,
        hops=fact.hops,
        electors=tuple(name for _, name in electors),
    )
    others = (one for one in electors if one[0] != fact.speaker)
    return (Put(row), *call_upon(fact, workspace, others))


def _no_place(space: str, workspace: Workspace | None) -> Refuse:
    if is_personal(space):
        text = f"nobody votes in {space}: it is between {split_space(space)[1]} and the user"
        return Refuse("not_a_participant", text, "members of a workspace vote with each other")
    return not_running(space) if workspace is None else no_channel(space)


def _refusal(space: str, opened: BallotOpened, members: int, view: View) -> Refuse | None:
    """Why it is not put to the vote."""
    if view.ballot(space, opened.name) is not None:
        text = f"there is a proposal {opened.name} already, open or ended"
        return Refuse("already_exists", text, "give it another id, or none; team_proposal_status shows them")
    if len(view.ballot_names(space, only_open=True)) >= MOST_OPEN:
        return Refuse(
            "conflict", f"{MOST_OPEN} proposals are open in {place_of(space)}", "vote on those first, or cancel one"
        )
    wrong = fault(opened, members)
    return None if wrong is None else Refuse("bad_request", *wrong)


def _vote(fact: Fact, vote: BallotVoted, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.space, vote.name)
    if ballot is None:
        return (unknown(fact.space, vote.name, view),)
    if (refused := _invalid(fact, vote, ballot)) is not None:
        return (refused,)
    if may_break(ballot, fact.sender, vote.choice, vote.now_ms):
        decided = Decided(vote.choice, "creator", _tied(ballot, vote.now_ms))
        return (_end(fact, ballot, ballot.votes, decided, by=fact.sender),)
    if fact.sender in ballot.votes:
        return (_final(ballot, fact.sender, vote.now_ms),)
    return _count(fact, vote, ballot)


def _invalid(fact: Fact, vote: BallotVoted, ballot: PutToVote) -> Refuse | None:
    """Why nobody, or not this one, may vote so."""
    if ballot.state != "open" or vote.now_ms >= ballot.counting.deadline_ms:
        return _over(ballot)
    if fact.sender not in ballot.counting.electors and not _is_person(fact):
        return Refuse("forbidden", f"{fact.sender} is not among those who vote on {ballot.name}", _electors(ballot))
    if vote.choice not in ballot.counting.options:
        text = f"{vote.choice[:64]!r} is no option of {ballot.name}"
        return Refuse("bad_request", text, f"choose of: {', '.join(ballot.counting.options)}")
    return None


def _electors(ballot: PutToVote) -> str:
    return f"they are {', '.join(sorted(ballot.counting.electors))}"


def _count(fact: Fact, vote: BallotVoted, ballot: PutToVote) -> tuple[Effect, ...]:
    votes = {**ballot.votes, fact.sender: vote.choice}
    put = Put(BallotVote(ballot=ballot.number, voter=fact.sender, choice=vote.choice, reason=vote.reason))
    match tally(ballot.counting, votes, vote.now_ms):
        case Decided() as decided:
            return (put, _end(fact, ballot, votes, decided))
        case Undecided(among) if among and not ballot.tie_told and ballot.creator != fact.sender:
            payload = BallotTied(name=ballot.name)
            draft = Draft(kind="proposal", space=fact.space, sender=SYSTEM, text=tied(ballot, among), payload=payload)
            return (put, Append(draft))
        case _:
            return (put,)


def may_break(ballot: PutToVote, voter: str, choice: str, now_ms: int) -> bool:
    """Whether this is its creator, who has voted, choosing one of those that are tied."""
    may = voter == ballot.creator and voter in ballot.votes and ballot.state == "open"
    return may and choice in _tied(ballot, now_ms)


def _tied(ballot: PutToVote, now_ms: int) -> tuple[str, ...]:
    """Of which its creator may choose one."""
    stands = tally(ballot.counting, ballot.votes, now_ms)
    return stands.tied if isinstance(stands, Undecided) else ()


def _tell_tie(fact: Fact, one: BallotTied, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.space, one.name)
    if ballot is None:
        return ()
    return (Put(BallotTie(ballot=ballot.number)), *_call_creator(fact, ballot, view))


def _due(fact: Fact, due: BallotDue, view: View) -> tuple[Effect, ...]:
    """Never a refusal: what is due has to end."""
    ballot = view.ballot(fact.space, due.name)
    if ballot is None or ballot.state != "open":
        return ()
    match tally(ballot.counting, ballot.votes, due.now_ms):
        case Decided() as decided:
            return (_end(fact, ballot, ballot.votes, decided, quietly=due.quietly),)
        case Undecided():
            return ()


def _end(
    fact: Fact,
    ballot: PutToVote,
    votes: Mapping[str, str],
    decided: Decided,
    by: str | None = None,
    *,
    quietly: bool = False,
) -> Effect:
    """What came of it is told by the system, once, and its creator is woken unless it was its own doing."""
    payload = BallotEnded(
        name=ballot.name,
        state="expired" if expired(ballot, votes, decided) else "resolved",
        winner=decided.winner,
        why=decided.why,
        wakes=not quietly and fact.sender != ballot.creator,
        by=by,
    )
    hops = max(fact.hops, ballot.hops + 1)
    text = resolved(ballot, votes, decided)
    return Append(Draft(kind="resolved", space=fact.space, sender=SYSTEM, text=text, hops=hops, payload=payload))


def _cancel(fact: Fact, asked: BallotCancelled, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.space, asked.name)
    if ballot is None:
        return (unknown(fact.space, asked.name, view),)
    if fact.sender != ballot.creator and not _is_person(fact):
        text = f"{ballot.name} was put to the vote by {ballot.creator}, who alone may cancel it"
        return (Refuse("forbidden", text, "vote, and say why"),)
    if ballot.state != "open":
        return (_over(ballot),)
    ended = BallotEnded(
        name=ballot.name,
        state="cancelled",
        winner=None,
        why="cancelled",
        wakes=not asked.quietly and fact.sender != ballot.creator,
        by=fact.sender,
        reason=asked.reason,
    )
    return _ended(fact, ended, view)


def _ended(fact: Fact, ended: BallotEnded, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.space, ended.name)
    if ballot is None:
        return ()
    end = BallotEnd(
        ballot=ballot.number,
        state=ended.state,
        winner=ended.winner,
        why=ended.why,
        by=ended.by,
        reason=ended.reason,
    )
    return (Put(end), *(_call_creator(fact, ballot, view) if ended.wakes else ()))


def _call_creator(fact: Fact, ballot: PutToVote, view: View) -> tuple[Effect, ...]:
    """A person is not woken: who watches, sees it."""
    workspace = view.workspace(fact.space)
    if workspace is None or ballot.creator_key is None:
        return ()
    limit = limit_reached(fact, workspace, 1)
    if limit is not None and workspace.mode == "run":
        return limited(fact.space, workspace, limit)  # nobody can continue a run: it would only be one more to give up
    return call_upon(fact, workspace, [(ballot.creator_key, ballot.creator)])


def _stop(fact: Fact, _stopped: WorkflowStopped, view: View) -> tuple[Effect, ...]:
    reason = "the workflow has ended"
    return tuple(
        Append(
            Draft(
                kind="resolved",
                space=fact.space,
                sender=SYSTEM,
                text=cancelled(ballot, reason),
                payload=BallotEnded(
                    name=name, state="cancelled", winner=None, why="cancelled", wakes=False, by=SYSTEM, reason=reason
                ),
            )
        )
        for name in view.ballot_names(fact.space, only_open=True)
        if (ballot := view.ballot(fact.space, name)) is not None
    )


def unknown(space: str, name: str, view: View) -> Refuse:
    """There is no such ballot; and which there are."""
    known = ", ".join(view.ballot_names(space, only_open=False)[:8])
    hint = f"there are: {known}" if known else "nothing was put to the vote here"
    return Refuse("not_found", f"there is no proposal {name[:40]!r} in {place_of(space)}", hint)


def _over(ballot: PutToVote) -> Refuse:
    if ballot.state == "open":
        return Refuse("conflict", f"the time of {ballot.name} is up")
    result = f", and {ballot.winner} won" if ballot.winner is not None else ""
    return Refuse("conflict", f"{ballot.name} is over: it is {ballot.state}{result}")


def _final(ballot: PutToVote, voter: str, now_ms: int) -> Refuse:
    among = _tied(ballot, now_ms)
    if among and voter == ballot.creator:
        return Refuse("conflict", f"{ballot.name} is a tie that you break: choose of {', '.join(among)}")
    return Refuse("conflict", f"{voter} has voted for {ballot.votes[voter]} already, and a vote is final")


def _is_person(fact: Fact) -> bool:
    return fact.sender == USER and fact.cause is None


STEPS: Final[Mapping[type, Callable[[Fact, Any, View], tuple[Effect, ...]]]] = MappingProxyType(
    {
        BallotOpened: _open,
        BallotTied: _tell_tie,
        BallotVoted: _vote,
        BallotDue: _due,
        BallotCancelled: _cancel,
        BallotEnded: _ended,
        WorkflowStopped: _stop,
    }
)

BALLOT: Final = Proposal(
    name="ballot", kinds=frozenset({"proposal", "vote", "resolved", "due", "status"}), decide=decide
)
