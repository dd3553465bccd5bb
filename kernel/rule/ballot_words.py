"""What a channel says of a ballot. The markers are for the eye: the truth is the message's kind. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kernel.policy.ballot import Decided, counted
from kernel.rule.draft import BallotOpened
from kernel.rule.view import PutToVote
from protocol.ballot import BallotType, Method, Option, TieBreaker, Why

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


def one_line(text: str) -> str:
    """``text`` without line breaks, so that it cannot look like a message of its own."""
    return " ".join(text.split())


def announced(opened: BallotOpened) -> str:
    """Something is put to the vote, and how to vote."""
    terms = [_TYPES[opened.kind]]
    if opened.kind != "assignment":
        terms.append(_METHODS[opened.rule])
    if opened.tie_breaker is not None:
        terms.append(_TIES[opened.tie_breaker])
    terms.append(f"{opened.quorum} {'member has' if opened.quorum == 1 else 'members have'} to vote")
    if opened.strict:
        terms.append("without these votes nobody wins, also when its time is up")
    terms.append(f"open for {_duration(opened.timeout_ms)} at most")
    lines = [
        f"[PROPOSAL:{opened.name}] {one_line(opened.title)}",
        f"This is {'a binding vote, ' if opened.binding else ''}{'; '.join(terms)}.",
        *([opened.description.strip()] if opened.description.strip() else []),
        "Options:",
        *(f"- {_named(option)}" for option in opened.options),
        f'Vote once, with team_vote: {{"proposal": "{opened.name}", "choice": "<option>", "reason": "<why>"}}.',
        "A vote is final.",
    ]
    return "\n".join(lines)


def voted(ballot: PutToVote, choice: str, reason: str, *, breaks_tie: bool) -> str:
    """Somebody votes."""
    verb = "I break the tie for" if breaks_tie else "I vote for"
    return f"[VOTE:{ballot.name}] {verb} {_label(ballot, choice)}{_because(reason)}"


def tied(ballot: PutToVote, among: tuple[str, ...]) -> str:
    """Its creator has to break a tie."""
    options = ", ".join(among)
    return (
        f"[PROPOSAL:{ballot.name}] {one_line(ballot.title)}\n"
        f"The votes are in, and it is a tie between {options}. {ballot.creator} decides, as long as it is open: "
        f'team_vote with {{"proposal": "{ballot.name}", "choice": "<one of these>"}}.'
    )


def resolved(ballot: PutToVote, votes: Mapping[str, str], decided: Decided) -> str:
    """What came of it; where its time was up and nobody had won, it has expired."""
    marker = "EXPIRED" if expired(ballot, votes, decided) else "RESOLVED"
    counts = counted(ballot.counting.options, votes)
    cast = ", ".join(f"{option}={count}" for option, count in counts.items() if count) or "none"
    return (
        f"[{marker}:{ballot.name}] {one_line(ballot.title)}\n"
        f"Result: {_result(ballot, votes, decided)} ({_why(ballot, votes, decided)})\nVotes: {cast}"
    )


def cancelled(ballot: PutToVote, reason: str) -> str:
    """It was taken back."""
    return f"[RESOLVED:{ballot.name}] {one_line(ballot.title)}\nCancelled{_because(reason)}"


def expired(ballot: PutToVote, votes: Mapping[str, str], decided: Decided) -> bool:
    """Whether its time was up before anything came of it."""
    assigns = ballot.counting.type == "assignment" and bool(votes)
    return decided.why == "deadline" and decided.winner is None and not assigns


def _why(ballot: PutToVote, votes: Mapping[str, str], decided: Decided) -> str:
    """What ended it, if not all have voted how many had to; and how a tie was broken."""
    counting = ballot.counting
    voted = len(counting.electors & votes.keys())
    why = _WHYS[decided.why]
    if decided.why == "quorum" and voted < len(counting.electors):
        why = f"{voted} of {len(counting.electors)} members have voted, which is enough"
    if decided.winner is None or not decided.tied:
        return why
    return f"{why}; a tie between {', '.join(decided.tied)}: {_BROKEN[counting.tie_breaker]}"


def _result(ballot: PutToVote, votes: Mapping[str, str], decided: Decided) -> str:
    if ballot.counting.type == "assignment":
        taken = (f"{option}: {_who(votes, option)}" for option in ballot.counting.options)
        return "; ".join(taken)
    if decided.winner is not None:
        return _label(ballot, decided.winner)
    if decided.tied:
        return f"nobody wins, it is a tie between {', '.join(decided.tied)}"
    return "nobody wins"


def _who(votes: Mapping[str, str], option: str) -> str:
    return ", ".join(sorted(voter for voter, choice in votes.items() if choice == option)) or "nobody"


def _label(ballot: PutToVote, choice: str) -> str:
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
