"""Texts of votes. Pure. Markers in them are for readers; software uses the kind of the message."""

from collections.abc import Mapping

from kernel.policy.voting import Ballot, Decided, ProposalOpened, counted
from protocol.text import encode_json, one_line
from protocol.voting import BallotType, Binds, Method, Option, TieBreaker, Why

_TYPES: Mapping[BallotType, str] = {
    "election": "an election",
    "decision": "a decision",
    "approval": "an approval",
    "assignment": "an assignment: members are assigned to the option that they choose",
}
_METHODS: Mapping[Method, str] = {
    "plurality": "most votes win",
    "majority": "more than half of the votes win",
    "unanimous": "all votes must be the same",
}
_TIES: Mapping[TieBreaker, str] = {
    "first": "the first option wins a tie",
    "random": "a tie is broken at random",
    "creator-decides": "the creator breaks a tie",
}
_BROKEN: Mapping[TieBreaker | None, str] = {
    "first": "the first of them wins",
    "random": "decided at random",
    "creator-decides": "decided by the creator",
}
_WHYS: Mapping[Why, str] = {
    "quorum": "the votes are in",  # of all members, or of the quorum
    "settled": "further votes cannot change the result",
    "creator": "the votes are in",
    "deadline": "the deadline has passed",
    "cancelled": "cancelled",
}


def announced(opened: ProposalOpened) -> str:
    """Return the announcement of a proposal, with instructions for voting."""
    terms = [_TYPES[opened.terms.type]]
    if opened.grants:
        terms.append(f"{opened.grants} of {', '.join(opened.electors or ())} must vote yes; a person may vote too")
    elif opened.terms.type != "assignment":
        terms.append(_METHODS[opened.terms.resolution.type])
    if opened.terms.resolution.tie_breaker is not None:
        terms.append(_TIES[opened.terms.resolution.tie_breaker])
    if not opened.grants:
        terms.append(f"{opened.quorum} {'member has' if opened.quorum == 1 else 'members have'} to vote")
    if opened.terms.binding and opened.terms.type == "assignment":
        terms.append("each option is a task, assigned to the first member who chooses it")
    if opened.strict:
        terms.append("without this quorum no option wins, even at the deadline")
    binds = opened.terms.binds or Binds()
    if opened.terms.binding and opened.terms.type == "election":
        what = f"what {', '.join(map(one_line, binds.documents))} names of" if binds.documents else "all of"
        terms.append(f"the winner owns {what} the documents, and only the owner can write them")
    if binds.suggestion is not None:
        terms.append(f"yes accepts the suggestion {one_line(binds.suggestion)}, no rejects it")
    if binds.tray is not None:
        terms.append(f"yes approves the memory item {one_line(binds.tray)}, no rejects it")
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


def voted(ballot: Ballot, choice: str, reason: str, *, breaks_tie: bool, seen: str = "") -> str:
    """Return the text of a vote; ``seen`` is the state of the files that the voter saw, "" if unknown."""
    verb = "I break the tie for" if breaks_tie else "I vote for"
    vote = f"[VOTE:{ballot.name}] {verb} {_label(ballot, choice)}{_because(reason)}"
    return f"{vote}\n(seen: {seen})" if seen else vote


def asked_to_break(ballot: Ballot, among: tuple[str, ...]) -> str:
    """Return the request to the creator to break a tie."""
    options = ", ".join(among)
    return (
        f"[PROPOSAL:{ballot.name}] {one_line(ballot.title)}\n"
        f"The votes are in, with a tie between {options}. {ballot.creator} decides until the deadline: "
        f'team_vote with {{"proposal": "{ballot.name}", "choice": "<one of these>"}}.'
    )


def resolved(ballot: Ballot, votes: Mapping[str, str], decided: Decided) -> str:
    """Return the announcement of the result, or of expiry if no option won by the deadline."""
    marker = "EXPIRED" if expired(ballot, votes, decided) else "RESOLVED"
    counts = counted(ballot.options, votes)
    cast = ", ".join(f"{option}={count}" for option, count in counts.items() if count) or "none"
    if ballot.type == "assignment":
        takers = {
            option: ", ".join(sorted(voter for voter, choice in votes.items() if choice == option)) or "no member"
            for option in ballot.options
        }
        result = "; ".join(f"{option}: {names}" for option, names in takers.items())
    elif decided.winner is not None:
        result = _label(ballot, decided.winner)
    elif decided.tied:
        result = f"no winner, a tie between {', '.join(decided.tied)}"
    else:
        result = "no winner"
    return (
        f"[{marker}:{ballot.name}] {one_line(ballot.title)}\n"
        f"Result: {result} ({_why(ballot, votes, decided)})\nVotes: {cast}"
    )


def cancelled(ballot: Ballot, reason: str) -> str:
    """Return the announcement of a cancellation."""
    return f"[RESOLVED:{ballot.name}] {one_line(ballot.title)}\nCancelled{_because(reason)}"


def expired(ballot: Ballot, votes: Mapping[str, str], decided: Decided) -> bool:
    """Return whether a deadline passed without a result; an assignment's votes are a result."""
    assigns = ballot.type == "assignment" and bool(votes)
    return decided.why == "deadline" and decided.winner is None and not assigns


def _why(ballot: Ballot, votes: Mapping[str, str], decided: Decided) -> str:
    voted = len(ballot.electors & votes.keys())
    why = _WHYS[decided.why]
    if decided.why == "quorum" and voted < len(ballot.electors):
        why = f"{voted} of {len(ballot.electors)} members have voted, which is enough"
    if decided.winner is None or not decided.tied:
        return why
    return f"{why}; a tie between {', '.join(decided.tied)}: {_BROKEN[ballot.tie_breaker]}"


def _label(ballot: Ballot, choice: str) -> str:
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
