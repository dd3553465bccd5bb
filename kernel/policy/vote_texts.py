"""Texts of votes: announcements, votes, ties and results. Pure.

The markers in the texts are for the eye: the truth is the message's kind.
"""

from collections.abc import Mapping

from kernel.policy.voting import Ballot, Decided, ProposalOpened, counted
from protocol.text import encode_json, one_line
from protocol.voting import BallotType, Binds, Method, Option, TieBreaker, Why

_TYPES: Mapping[BallotType, str] = {
    "election": "an election",
    "decision": "a decision",
    "approval": "an approval",
    "assignment": "an assignment: each option gets those who choose it",
}
_METHODS: Mapping[Method, str] = {
    "plurality": "most votes win",
    "majority": "more than half of the votes win",
    "unanimous": "all votes must be the same",
}
_TIES: Mapping[TieBreaker, str] = {
    "first": "the first option wins a tie",
    "random": "lots break a tie",
    "creator-decides": "whoever called for it breaks a tie",
}
_BROKEN: Mapping[TieBreaker | None, str] = {
    "first": "the first of them wins",
    "random": "it was decided by lot",
    "creator-decides": "broken by the casting vote",
}
_WHYS: Mapping[Why, str] = {
    "quorum": "the votes are in",  # of all, or of as many as are wanted
    "settled": "further votes could not change it",
    "creator": "the votes are in",
    "deadline": "the time is up",
    "cancelled": "cancelled",
}


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


def voted(ballot: Ballot, choice: str, reason: str, *, breaks_tie: bool, seen: str = "") -> str:
    """Somebody votes, who has ``seen`` that state of the files; "": nobody knows."""
    verb = "I break the tie for" if breaks_tie else "I vote for"
    vote = f"[VOTE:{ballot.name}] {verb} {_label(ballot, choice)}{_because(reason)}"
    return f"{vote}\n(seen: {seen})" if seen else vote


def asked_to_break(ballot: Ballot, among: tuple[str, ...]) -> str:
    """Ask the creator to break a tie."""
    options = ", ".join(among)
    return (
        f"[PROPOSAL:{ballot.name}] {one_line(ballot.title)}\n"
        f"The votes are in, and it is a tie between {options}. {ballot.creator} decides, as long as it is open: "
        f'team_vote with {{"proposal": "{ballot.name}", "choice": "<one of these>"}}.'
    )


def resolved(ballot: Ballot, votes: Mapping[str, str], decided: Decided) -> str:
    """Return what came of it; where its time was up and nobody had won, it has expired."""
    marker = "EXPIRED" if expired(ballot, votes, decided) else "RESOLVED"
    counts = counted(ballot.options, votes)
    cast = ", ".join(f"{option}={count}" for option, count in counts.items() if count) or "none"
    if ballot.type == "assignment":
        takers = {
            option: ", ".join(sorted(voter for voter, choice in votes.items() if choice == option)) or "nobody"
            for option in ballot.options
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


def cancelled(ballot: Ballot, reason: str) -> str:
    """It was taken back."""
    return f"[RESOLVED:{ballot.name}] {one_line(ballot.title)}\nCancelled{_because(reason)}"


def expired(ballot: Ballot, votes: Mapping[str, str], decided: Decided) -> bool:
    """Return whether its time was up before anything came of it."""
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
