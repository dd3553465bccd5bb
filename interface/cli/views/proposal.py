"""One proposal: what is voted on, who voted how, and what came of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from interface.cli.proposal_verbs.named import full_name
from protocol.ballot import BallotInfo, Option, Resolution, TieBreaker, Vote, Why

_WHYS: Final[Mapping[Why | None, str]] = MappingProxyType(
    {
        "quorum": "enough have voted",
        "settled": "more votes would change nothing",
        "creator": "its creator broke the tie",
        "deadline": "its time was up",
    }
)
_TIES: Final[Mapping[TieBreaker | None, str]] = MappingProxyType(
    {"first": "the first of them wins", "random": "it was decided by lot", "creator-decides": "its creator decided"}
)
_RULES: Final = MappingProxyType(
    {
        "plurality": "the most votes win",
        "majority": "more than half of the votes win",
        "unanimous": "all votes have to be equal",
    }
)


def lines(body: bytes, screen: Screen) -> list[str]:
    """The question, the options with their votes, who is waited for, and the result."""
    one = msgspec.json.decode(body, type=BallotInfo)
    kind = f"binding {one.type}" if one.binding else one.type
    head = screen.style(one_line(f"{full_name(one.id, one.space)}: {one.title}"), "bold")
    about = escape(one.description).strip("\n").split("\n") if one.description.strip() else []
    return [
        head,
        one_line(f"{kind} by {one.creator}, {one.created_at}; {_rule(one)}"),
        *about,
        *(_option(one, option) for option in one.options),
        *(_vote(vote) for vote in one.votes),
        *_end(one),
    ]


def outcome(one: BallotInfo) -> str:
    """How it stands, in few words."""
    match one.state:
        case "open" if one.tied:
            return f"tied: {one.creator} chooses of {', '.join(one.tied)}"
        case "open":
            return f"open until {one.expires_at}"
        case "resolved" if one.assigned:
            return "assigned"
        case "resolved":
            return "nobody won" if one.winner is None else f"{one.winner} won"
        case _:
            return one.state


def _rule(one: BallotInfo) -> str:
    terms: Resolution = one.resolution
    if one.type == "assignment":
        return f"each option gets those who choose it, quorum {terms.quorum} of {len(one.electors)}"
    tie = f", a tie: {terms.tie_breaker}" if terms.tie_breaker else ""
    return f"{_RULES[terms.type]}, quorum {terms.quorum} of {len(one.electors)}{tie}"


def _option(one: BallotInfo, option: Option) -> str:
    count = one.counts.get(option.id, 0)
    votes = "vote" if count == 1 else "votes"
    label = "" if option.label.lower() in ("", option.id.lower()) else f" ({option.label})"
    return f"  {one_line(f'{option.id}: {count} {votes}{label}')}"


def _vote(vote: Vote) -> str:
    why = f": {vote.reason}" if vote.reason else ""
    return f"  {one_line(f'{vote.voter} voted {vote.choice}{why}')}"


def _end(one: BallotInfo) -> list[str]:
    if one.state == "open":
        missing = f"; not yet: {', '.join(one.missing)}" if one.missing else ""
        return [one_line(f"{outcome(one)}{missing}")]
    why = f" ({_WHYS[one.why]}{_tie(one)})" if one.why in _WHYS else ""
    by = f" by {one.ended_by}" if one.ended_by else ""
    reason = f": {one.reason}" if one.reason else ""
    took = [one_line(f"{option}: {', '.join(names) or 'nobody'}") for option, names in one.assigned.items()]
    silent = [one_line(f"did not vote: {', '.join(one.missing)}")] if one.missing else []
    return [one_line(f"{outcome(one)}{by}, {one.ended_at}{why}{reason}"), *took, *silent]


def _tie(one: BallotInfo) -> str:
    """How it came that this one won of several with as many votes."""
    most = [option for option, count in one.counts.items() if count == one.counts.get(one.winner or "")]
    return f"; a tie: {_TIES[one.resolution.tie_breaker]}" if len(most) > 1 and one.why != "creator" else ""
