"""The voting rule: a proposal is put to its members, who vote once; it is resolved once, and ends in any case. Pure.

Members are woken by it as by a mention. Its creator is woken by what comes of it, but for what it did itself: then the
answer to its call says so. A person may vote as well, and nobody waits for that. Where the workflow ends, what is open
is cancelled.

The markers in the texts are for the eye: the truth is the message's kind.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kernel.policy.voting import Decided, ProposalOpened, Undecided, check_terms, counted, tally
from kernel.rule.assignment import assign_mentioned, limit_reached, limited, no_channel, not_running
from kernel.rule.draft import (
    Draft,
    Fact,
    ProposalCancelled,
    ProposalDue,
    ProposalEnded,
    ProposalTied,
    VoteCast,
    WorkflowStopped,
)
from kernel.rule.effects import (
    Append,
    Creator,
    Effect,
    EndProposal,
    OpenProposal,
    RecordTie,
    RecordVote,
    Refuse,
    Rule,
    WriteRow,
)
from kernel.rule.view import ProposalView, View, Workspace
from protocol.message import SYSTEM, USER
from protocol.names import is_personal, place_of, split_space
from protocol.text import encode_json, one_line
from protocol.voting import BallotType, Binds, Method, Option, TieBreaker, Why

_TYPES: Final[Mapping[BallotType, str]] = MappingProxyType(
    {
        "election": "an election",
        "decision": "a decision",
        "approval": "an approval",
        "assignment": "an assignment: each option gets those who choose it",
    }
)
_METHODS: Final[Mapping[Method, str]] = MappingProxyType(
    {
        "plurality": "most votes win",
        "majority": "more than half of the votes win",
        "unanimous": "all votes must be the same",
    }
)
_TIES: Final[Mapping[TieBreaker, str]] = MappingProxyType(
    {
        "first": "the first option wins a tie",
        "random": "lots break a tie",
        "creator-decides": "whoever called for it breaks a tie",
    }
)
_BROKEN: Final[Mapping[TieBreaker | None, str]] = MappingProxyType(
    {
        "first": "the first of them wins",
        "random": "it was decided by lot",
        "creator-decides": "broken by the casting vote",
    }
)
_WHYS: Final[Mapping[Why, str]] = MappingProxyType(
    {
        "quorum": "the votes are in",  # of all, or of as many as are wanted
        "settled": "further votes could not change it",
        "creator": "the votes are in",
        "deadline": "the time is up",
        "cancelled": "cancelled",
    }
)


def announced(opened: ProposalOpened) -> str:
    """Something is put to the vote, and how to vote."""
    terms = [_TYPES[opened.terms.type]]
    if opened.grants:
        terms.append(f"{opened.grants} of {', '.join(opened.electors or ())} have to say yes; a person may too")
    elif opened.terms.type != "assignment":
        terms.append(_METHODS[opened.terms.resolution.type])
    if opened.terms.resolution.tie_breaker is not None:
        terms.append(_TIES[opened.terms.resolution.tie_breaker])
    if not opened.grants:
        terms.append(f"{opened.quorum} {'member has' if opened.quorum == 1 else 'members have'} to vote")
    if opened.terms.binding and opened.terms.type == "assignment":
        terms.append("each option is a task, which is given to the first member who chooses it")
    if opened.strict:
        terms.append("without these votes nobody wins, also when its time is up")
    binds = opened.terms.binds or Binds()
    if opened.terms.binding and opened.terms.type == "election":
        what = f"what {', '.join(map(one_line, binds.documents))} names of" if binds.documents else "all of"
        terms.append(f"the winner owns {what} the documents, and alone writes them")
    if binds.suggestion is not None:
        terms.append(f"yes accepts the suggestion {one_line(binds.suggestion)}, no rejects it")
    if binds.tray is not None:
        terms.append(f"yes has {one_line(binds.tray)} remembered, no rejects it")
    terms.append(f"open for {_duration(opened.timeout_ms)} at most")
    lines = [
        f"[PROPOSAL:{opened.name}] {one_line(opened.terms.title)}",
        f"This is {'a binding vote, ' if opened.terms.binding else ''}{'; '.join(terms)}.",
        *([opened.terms.description.strip()] if opened.terms.description.strip() else []),
        "Options:",
        *(
            f"- {_named(option)}" + (f" {encode_json(option.metadata).decode()}" if option.metadata else "")
            for option in opened.terms.options
        ),
        f'Vote once, with team_vote: {{"proposal": "{opened.name}", "choice": "<option>", "reason": "<why>"}}.',
        "A vote is final.",
    ]
    return "\n".join(lines)


def voted(ballot: ProposalView, choice: str, reason: str, *, breaks_tie: bool, seen: str = "") -> str:
    """Somebody votes, who has ``seen`` that state of the files; "": nobody knows."""
    verb = "I break the tie for" if breaks_tie else "I vote for"
    vote = f"[VOTE:{ballot.name}] {verb} {_label(ballot, choice)}{_because(reason)}"
    return f"{vote}\n(seen: {seen})" if seen else vote


def tied(ballot: ProposalView, among: tuple[str, ...]) -> str:
    """Its creator has to break a tie."""
    options = ", ".join(among)
    return (
        f"[PROPOSAL:{ballot.name}] {one_line(ballot.title)}\n"
        f"The votes are in, and it is a tie between {options}. {ballot.creator} decides, as long as it is open: "
        f'team_vote with {{"proposal": "{ballot.name}", "choice": "<one of these>"}}.'
    )


def resolved(ballot: ProposalView, votes: Mapping[str, str], decided: Decided) -> str:
    """Return what came of it; where its time was up and nobody had won, it has expired."""
    marker = "EXPIRED" if expired(ballot, votes, decided) else "RESOLVED"
    counts = counted(ballot.counting.options, votes)
    cast = ", ".join(f"{option}={count}" for option, count in counts.items() if count) or "none"
    if ballot.counting.type == "assignment":
        takers = {
            option: ", ".join(sorted(voter for voter, choice in votes.items() if choice == option)) or "nobody"
            for option in ballot.counting.options
        }
        result = "; ".join(f"{option}: {names}" for option, names in takers.items())
    elif decided.winner is not None:
        result = _label(ballot, decided.winner)
    elif decided.tied:
        result = f"nobody wins, it is a tie between {', '.join(decided.tied)}"
    else:
        result = "nobody wins"
    return (
        f"[{marker}:{ballot.name}] {one_line(ballot.title)}\n"
        f"Result: {result} ({_why(ballot, votes, decided)})\nVotes: {cast}"
    )


def cancelled(ballot: ProposalView, reason: str) -> str:
    """It was taken back."""
    return f"[RESOLVED:{ballot.name}] {one_line(ballot.title)}\nCancelled{_because(reason)}"


def expired(ballot: ProposalView, votes: Mapping[str, str], decided: Decided) -> bool:
    """Return whether its time was up before anything came of it."""
    assigns = ballot.counting.type == "assignment" and bool(votes)
    return decided.why == "deadline" and decided.winner is None and not assigns


def _why(ballot: ProposalView, votes: Mapping[str, str], decided: Decided) -> str:
    counting = ballot.counting
    voted = len(counting.electors & votes.keys())
    why = _WHYS[decided.why]
    if decided.why == "quorum" and voted < len(counting.electors):
        why = f"{voted} of {len(counting.electors)} members have voted, which is enough"
    if decided.winner is None or not decided.tied:
        return why
    return f"{why}; a tie between {', '.join(decided.tied)}: {_BROKEN[counting.tie_breaker]}"


def _label(ballot: ProposalView, choice: str) -> str:
    return next((_named(option) for option in ballot.labels if option.id == choice), choice)


def _named(option: Option) -> str:
    label = one_line(option.label)
    return option.id if label in ("", option.id) else f"{option.id}: {label}"


def _because(reason: str) -> str:
    return f" ({one_line(reason)})" if reason.strip() else ""


def _duration(milliseconds: int) -> str:
    seconds = max(milliseconds // 1000, 1)
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            return _plural(seconds // size, unit)
    return _plural(seconds, "second")


def _plural(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


MOST_OPEN: Final = 16
"""In one space: each wakes everybody."""


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Return what follows from a step of a ballot; from other messages of these kinds nothing does."""
    step = STEPS.get(type(fact.draft.payload))
    return () if step is None else step(fact, fact.draft.payload, view)


def _open(fact: Fact, opened: ProposalOpened, view: View) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.draft.space)
    if workspace is None or not workspace.has_channel:
        return (_no_place(fact.draft.space, workspace),)
    members = view.roster(fact.draft.space)
    electors = members if opened.electors is None else tuple(one for one in members if one[1] in opened.electors)
    if (refused := _refusal(fact.draft.space, opened, len(opened.electors or electors), view)) is not None:
        return (refused,)
    row = OpenProposal(
        opened=opened,
        space=fact.draft.space,
        creator=Creator(name=fact.draft.sender, agent=fact.speaker, hops=fact.hops),
        electors=(*(name for _, name in electors), *((USER,) if USER in (opened.electors or ()) else ())),
    )
    others = (one for one in electors if one[0] != fact.speaker)
    return (WriteRow(row), *assign_mentioned(fact, workspace, others))


def _no_place(space: str, workspace: Workspace | None) -> Refuse:
    if is_personal(space):
        text = f"nobody votes in {space}: it is between {split_space(space)[1]} and the user"
        return Refuse("not_a_participant", text, "members of a workspace vote with each other")
    return not_running(space) if workspace is None else no_channel(space)


def _refusal(space: str, opened: ProposalOpened, members: int, view: View) -> Refuse | None:
    if view.ballot(space, opened.name) is not None:
        text = f"there is a proposal {opened.name} already, open or ended"
        return Refuse("already_exists", text, "give it another id, or none; team_proposal_status shows them")
    if len(view.ballot_names(space, only_open=True)) >= MOST_OPEN:
        return Refuse(
            "conflict", f"{MOST_OPEN} proposals are open in {place_of(space)}", "vote on those first, or cancel one"
        )
    wrong = check_terms(opened, members)
    return None if wrong is None else Refuse("bad_request", *wrong)


def _vote(fact: Fact, vote: VoteCast, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.draft.space, vote.name)
    if ballot is None:
        return (unknown(fact.draft.space, vote.name, view),)
    # Why nobody, or not this one, may vote so.
    invalid: Refuse | None
    if ballot.state != "open" or vote.now_ms >= ballot.counting.deadline_ms:
        invalid = _over(ballot)
    elif fact.draft.sender not in ballot.counting.electors and not _is_person(fact):
        invalid = Refuse(
            "forbidden",
            f"{fact.draft.sender} is not among those who vote on {ballot.name}",
            f"they are {', '.join(sorted(ballot.counting.electors))}",
        )
    elif vote.choice not in ballot.counting.options:
        text = f"{vote.choice[:64]!r} is no option of {ballot.name}"
        invalid = Refuse("bad_request", text, f"choose of: {', '.join(ballot.counting.options)}")
    else:
        invalid = None
    if (refused := invalid) is not None:
        return (refused,)
    if may_break(ballot, fact.draft.sender, vote.choice, vote.now_ms):
        decided = Decided(vote.choice, "creator", _tied(ballot, vote.now_ms))
        return (_end(fact, ballot, ballot.votes, decided, by=fact.draft.sender),)
    if fact.draft.sender in ballot.votes:
        return (_final(ballot, fact.draft.sender, vote.now_ms),)
    return _count(fact, vote, ballot)


def _final(ballot: ProposalView, voter: str, now_ms: int) -> Refuse:
    among = _tied(ballot, now_ms)
    if among and voter == ballot.creator:
        return Refuse("conflict", f"{ballot.name} is a tie that you break: choose of {', '.join(among)}")
    return Refuse("conflict", f"{voter} has voted for {ballot.votes[voter]} already, and a vote is final")


def _count(fact: Fact, vote: VoteCast, ballot: ProposalView) -> tuple[Effect, ...]:
    votes = {**ballot.votes, fact.draft.sender: vote.choice}
    put = WriteRow(RecordVote(ballot=ballot.number, voter=fact.draft.sender, choice=vote.choice, reason=vote.reason))
    match tally(ballot.counting, votes, vote.now_ms):
        case Decided() as decided:
            return (put, _end(fact, ballot, votes, decided))
        case Undecided(among) if among and not ballot.tie_told and ballot.creator != fact.draft.sender:
            payload = ProposalTied(name=ballot.name)
            draft = Draft(
                kind="proposal", space=fact.draft.space, sender=SYSTEM, text=tied(ballot, among), payload=payload
            )
            return (put, Append(draft))
        case _:
            return (put,)


def may_break(ballot: ProposalView, voter: str, choice: str, now_ms: int) -> bool:
    """Return whether this is its creator, who has voted, choosing one of those that are tied."""
    may = voter == ballot.creator and voter in ballot.votes and ballot.state == "open"
    return may and choice in _tied(ballot, now_ms)


def _tied(ballot: ProposalView, now_ms: int) -> tuple[str, ...]:
    stands = tally(ballot.counting, ballot.votes, now_ms)
    return stands.tied if isinstance(stands, Undecided) else ()


def _tell_tie(fact: Fact, one: ProposalTied, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.draft.space, one.name)
    if ballot is None:
        return ()
    return (WriteRow(RecordTie(ballot=ballot.number)), *_call_creator(fact, ballot, view))


def _due(fact: Fact, due: ProposalDue, view: View) -> tuple[Effect, ...]:
    """Never a refusal: what is due has to end."""
    ballot = view.ballot(fact.draft.space, due.name)
    if ballot is None or ballot.state != "open":
        return ()
    match tally(ballot.counting, ballot.votes, due.now_ms):
        case Decided() as decided:
            return (_end(fact, ballot, ballot.votes, decided, quietly=due.quietly),)
        case Undecided():
            return ()


def _end(
    fact: Fact,
    ballot: ProposalView,
    votes: Mapping[str, str],
    decided: Decided,
    by: str | None = None,
    *,
    quietly: bool = False,
) -> Effect:
    """Return what came of it is told by the system, once, and its creator is woken unless it was its own doing."""
    payload = ProposalEnded(
        name=ballot.name,
        state="expired" if expired(ballot, votes, decided) else "resolved",
        winner=decided.winner,
        why=decided.why,
        wakes=not quietly and fact.draft.sender != ballot.creator,
        by=by,
    )
    hops = max(fact.hops, ballot.hops + 1)
    text = resolved(ballot, votes, decided)
    return Append(Draft(kind="resolved", space=fact.draft.space, sender=SYSTEM, text=text, hops=hops, payload=payload))


def _cancel(fact: Fact, asked: ProposalCancelled, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.draft.space, asked.name)
    if ballot is None:
        return (unknown(fact.draft.space, asked.name, view),)
    if fact.draft.sender != ballot.creator and not _is_person(fact):
        text = f"{ballot.name} was put to the vote by {ballot.creator}, who alone may cancel it"
        return (Refuse("forbidden", text, "vote, and say why"),)
    if ballot.state != "open":
        return (_over(ballot),)
    ended = ProposalEnded(
        name=ballot.name,
        state="cancelled",
        winner=None,
        why="cancelled",
        wakes=not asked.quietly and fact.draft.sender != ballot.creator,
        by=fact.draft.sender,
        reason=asked.reason,
    )
    return _ended(fact, ended, view)


def _ended(fact: Fact, ended: ProposalEnded, view: View) -> tuple[Effect, ...]:
    ballot = view.ballot(fact.draft.space, ended.name)
    if ballot is None:
        return ()
    end = EndProposal(ballot=ballot.number, ended=ended)
    return (WriteRow(end), *(_call_creator(fact, ballot, view) if ended.wakes else ()))


def _call_creator(fact: Fact, ballot: ProposalView, view: View) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.draft.space)
    if workspace is None or ballot.creator_key is None:
        return ()
    limit = limit_reached(fact, workspace, 1)
    if limit is not None and workspace.mode == "run":
        return limited(
            fact.draft.space, workspace, limit
        )  # nobody can continue a run: it would only be one more to give up
    return assign_mentioned(fact, workspace, [(ballot.creator_key, ballot.creator)])


def _stop(fact: Fact, _stopped: WorkflowStopped, view: View) -> tuple[Effect, ...]:
    reason = "the workflow has ended"
    return tuple(
        Append(
            Draft(
                kind="resolved",
                space=fact.draft.space,
                sender=SYSTEM,
                text=cancelled(ballot, reason),
                payload=ProposalEnded(
                    name=name, state="cancelled", winner=None, why="cancelled", wakes=False, by=SYSTEM, reason=reason
                ),
            )
        )
        for name in view.ballot_names(fact.draft.space, only_open=True)
        if (ballot := view.ballot(fact.draft.space, name)) is not None
    )


def unknown(space: str, name: str, view: View) -> Refuse:
    """There is no such ballot; and which there are."""
    known = ", ".join(view.ballot_names(space, only_open=False)[:8])
    hint = f"there are: {known}" if known else "nothing was put to the vote here"
    return Refuse("not_found", f"there is no proposal {name[:40]!r} in {place_of(space)}", hint)


def _over(ballot: ProposalView) -> Refuse:
    if ballot.state == "open":
        return Refuse("conflict", f"the time of {ballot.name} is up")
    result = f", and {ballot.winner} won" if ballot.winner is not None else ""
    return Refuse("conflict", f"{ballot.name} is over: it is {ballot.state}{result}")


def _is_person(fact: Fact) -> bool:
    return fact.draft.sender == USER and fact.cause is None


STEPS: Final[Mapping[type, Callable[[Fact, Any, View], tuple[Effect, ...]]]] = MappingProxyType(
    {
        ProposalOpened: _open,
        ProposalTied: _tell_tie,
        VoteCast: _vote,
        ProposalDue: _due,
        ProposalCancelled: _cancel,
        ProposalEnded: _ended,
        WorkflowStopped: _stop,
    }
)

VOTING: Final = Rule(name="ballot", kinds=frozenset({"proposal", "vote", "resolved", "due", "status"}), decide=decide)
