"""Voting: the terms of a proposal and its result. Pure; the order of the votes never matters.

A proposal ends when its quorum has voted, when no further vote can change its result, and at its deadline at the
latest. "No winner" is a normal result. A vote that decides a run (``strict``) has no winner at its deadline unless its
quorum has voted.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from protocol.errors import Refused, accepted, bad_request
from protocol.message import USER
from protocol.names import AgentKey, check_name
from protocol.text import encode_json
from protocol.voting import (
    DESCRIPTION_LIMIT,
    LONGEST_SECONDS,
    METADATA_BYTES,
    NO,
    OPTION_ID,
    OPTIONS_LIMIT,
    SHORTEST_SECONDS,
    TITLE_LIMIT,
    USUAL_SECONDS,
    YES,
    BallotState,
    BallotType,
    Binds,
    Method,
    Option,
    ProposalTerms,
    Resolution,
    TieBreaker,
    Vote,
    Why,
)
from protocol.workflow import VERDICT_SECONDS, VerdictTerms


class ProposalState(msgspec.Struct, frozen=True):
    """Proposal without its votes, for counting; ``seed`` is for ``random`` tie-breaks."""

    type: BallotType
    rule: Method
    options: tuple[str, ...]
    electors: frozenset[str]
    quorum: int
    deadline_ms: int
    tie_breaker: TieBreaker | None = None
    seed: str = ""
    strict: bool = False
    """Without the quorum no option wins, even at the deadline."""
    grants: int = 0
    """Number of yes votes that a rule requires; set only for approvals of rules, where nothing else counts."""


class Ballot(ProposalState, frozen=True, kw_only=True):
    """Stored proposal with its votes; ``creator_key`` is None for a person, and ``hops`` come from its message."""

    number: int
    space: str
    run: int
    name: str
    title: str
    description: str = ""
    labels: tuple[Option, ...]
    binding: bool = False
    creator: str
    creator_key: AgentKey | None
    hops: int = 0
    created_ms: int = 0
    state: BallotState = "open"
    tie_told: bool = False
    winner: str | None = None
    why: Why | None = None
    reason: str = ""
    ended_ms: int | None = None
    ended_by: str | None = None
    votes: tuple[Vote, ...] = ()

    @property
    def choices(self) -> dict[str, str]:
        """Return the votes, from voter to option."""
        return {vote.voter: vote.choice for vote in self.votes}


class Undecided(msgspec.Struct, frozen=True):
    """Open proposal; ``tied``: all votes are in, and its creator may choose one of these options."""

    tied: tuple[str, ...] = ()


class Decided(msgspec.Struct, frozen=True):
    """Ended proposal; ``winner`` None: no winner. ``tied``: the tied options, whether or not the tie was broken."""

    winner: str | None
    why: Why
    tied: tuple[str, ...] = ()


def tally(ballot: ProposalState, votes: Mapping[str, str], now_ms: int) -> Undecided | Decided:
    """Return the result of ``votes`` (voter to option); votes of non-electors count, but not for the quorum."""
    if ballot.grants:
        return _granted(ballot, votes, now_ms)
    left = max(ballot.quorum - len(ballot.electors & votes.keys()), 0)
    over = now_ms >= ballot.deadline_ms
    counts = counted(ballot.options, votes)
    if ballot.type == "assignment":
        ahead: tuple[str, ...] = ()
        settled = False
    else:
        ahead = AHEAD[ballot.rule](counts, left)
        settled = SETTLED[ballot.rule](ballot, counts, left)
    if over:
        return _decided(ballot, () if ballot.strict and left else ahead, "deadline")
    if left:
        return _decided(ballot, ahead, "settled") if settled else Undecided()
    if len(ahead) > 1 and ballot.tie_breaker == "creator-decides":
        return Undecided(ahead)
    return _decided(ballot, ahead, "quorum")


def _granted(ballot: ProposalState, votes: Mapping[str, str], now_ms: int) -> Undecided | Decided:
    agreed = sum(1 for choice in votes.values() if choice == YES)
    if agreed >= ballot.grants:
        return Decided(YES, "settled")
    if votes.get(USER) == NO or agreed + len(ballot.electors - votes.keys()) < ballot.grants:
        return Decided(NO, "settled")
    return Decided(None, "deadline") if now_ms >= ballot.deadline_ms else Undecided()


def counted(options: tuple[str, ...], votes: Mapping[str, str]) -> dict[str, int]:
    """Return the number of votes for each option, in the order of ``options``."""
    counts = Counter(votes.values())
    return {option: counts[option] for option in options}


def _decided(ballot: ProposalState, ahead: tuple[str, ...], why: Why) -> Decided:
    winner = _first(ballot, ahead)
    return Decided(winner, why, ahead if len(ahead) > 1 else ())


def _first(ballot: ProposalState, ahead: tuple[str, ...]) -> str | None:
    if len(ahead) < 2:
        return ahead[0] if ahead else None
    place = _places(ballot)
    return min(ahead, key=lambda option: place[option]) if place else None


def _places(ballot: ProposalState) -> Mapping[str, tuple[str, int]]:
    if ballot.tie_breaker == "first":
        return {option: ("", place) for place, option in enumerate(ballot.options)}
    if ballot.tie_breaker == "random":
        return {
            option: (hashlib.sha256(f"{ballot.seed}\n{option}".encode("utf-8", "surrogatepass")).hexdigest(), place)
            for place, option in enumerate(ballot.options)
        }
    return {}


Counts = Mapping[str, int]


def _most(counts: Counts, _left: int) -> tuple[str, ...]:
    most = max(counts.values(), default=0)
    return tuple(option for option, count in counts.items() if count == most) if most else ()


def _more_than_half(counts: Counts, _left: int) -> tuple[str, ...]:
    total = sum(counts.values())
    half = tuple(option for option, count in counts.items() if total and 2 * count >= total)
    return half if len(half) == 2 or any(2 * counts[option] > total for option in half) else ()


def _all_alike(counts: Counts, left: int) -> tuple[str, ...]:
    chosen = tuple(option for option, count in counts.items() if count)
    return chosen if len(chosen) == 1 and not left else ()


AHEAD: Final[Mapping[Method, Callable[[Counts, int], tuple[str, ...]]]] = {
    "plurality": _most,
    "majority": _more_than_half,
    "unanimous": _all_alike,
}
"""Leading options if the vote ended now with ``left`` electors missing: none, one, or a tie."""


def _out_of_reach(ballot: ProposalState, counts: Counts, left: int) -> bool:
    winner = _first(ballot, _most(counts, left))
    if winner is None:
        return False
    place = _places(ballot)
    return all(
        count + left < counts[winner] or (count + left == counts[winner] and bool(place) and place[winner] < place[one])
        for one, count in counts.items()
        if one != winner
    )


def _sure_of_majority(ballot: ProposalState, counts: Counts, left: int) -> bool:
    total = sum(counts.values())
    if 2 * max(counts.values()) + left <= total:
        return True
    winner = _first(ballot, _more_than_half(counts, left))
    if winner is None:
        return False
    spare = 2 * counts[winner] - (total + left)
    if spare:
        return spare > 0
    # The winner may end with exactly half: it wins that tie only against a single rival and if it is first.
    place = _places(ballot)
    one_rival = len(counts) == 2 or (left == 1 and counts[winner] == total)
    return one_rival and bool(place) and min(counts, key=lambda option: place[option]) == winner


SETTLED: Final[Mapping[Method, Callable[[ProposalState, Counts, int], bool]]] = {
    "plurality": _out_of_reach,
    "majority": _sure_of_majority,
    "unanimous": lambda _ballot, counts, _left: sum(1 for count in counts.values() if count) > 1,
}
"""Return whether the result is certain, regardless of the ``left`` electors' votes."""


_OPTION_ID: Final = re.compile(OPTION_ID)
YES_OR_NO: Final = (Option(id=YES, label="Yes"), Option(id=NO, label="No"))


class ProposalOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Payload of ``proposal``: a proposal with complete terms, open until ``expires_ms``.

    ``salt`` is random and used for random tie-breaks.
    """

    name: str
    terms: ProposalTerms
    expires_ms: int
    salt: str = ""
    electors: tuple[str, ...] | None = None
    """None: all members."""
    strict: bool = False
    """The vote decides the run: no option wins without the quorum."""
    grants: int = 0
    """Number of yes votes that a rule waits for."""

    @property
    def quorum(self) -> int:
        """Return the number of electors that have to vote."""
        return self.terms.resolution.quorum or 0

    @property
    def timeout_ms(self) -> int:
        """Return the longest time that the proposal stays open."""
        return self.terms.timeout_ms or 0


def with_defaults(
    asked: ProposalTerms, name: str, members: tuple[str, ...], now_ms: int, salt: str = ""
) -> ProposalOpened:
    """Add ``name`` and defaults to the terms; ``members`` are an election's default options."""
    # default options of an election and an approval
    usual: tuple[Option, ...]
    ids = tuple(option.id for option in asked.options)
    given = {option.id: option.metadata for option in asked.options}
    if asked.type == "approval" and set(ids) <= {YES, NO}:
        usual = tuple(msgspec.structs.replace(one, metadata=given.get(one.id, {})) for one in YES_OR_NO)
    elif asked.type == "election" and set(ids) <= set(members):
        usual = tuple(
            Option(id=member, label=f"@{member}", metadata=given.get(member, {}))
            for member in dict.fromkeys(ids or members)
        )
    else:
        usual = ()
    options = usual or asked.options
    terms = asked.resolution
    timeout_ms = round(USUAL_SECONDS * 1000) if asked.timeout_ms is None else asked.timeout_ms
    full = msgspec.structs.replace(
        asked,
        options=options,
        resolution=msgspec.structs.replace(terms, quorum=len(members) if terms.quorum is None else terms.quorum),
        timeout_seconds=timeout_ms / 1000,
    )
    return ProposalOpened(name=name, terms=full, expires_ms=now_ms + timeout_ms, salt=salt)


def decisive(
    asked: ProposalTerms, terms: VerdictTerms, members: tuple[str, ...], now_ms: int, salt: str
) -> ProposalOpened:
    """Return the proposal that decides a run, with only the ``terms`` of its workflow."""
    electors = terms.electors or members
    resolution = Resolution(type=terms.type, quorum=terms.quorum or len(electors), tie_breaker=terms.tie_breaker)
    under = msgspec.structs.replace(asked, resolution=resolution, timeout_seconds=_verdict_ms(terms) / 1000)
    opened = with_defaults(under, terms.id, members, now_ms, salt)
    return msgspec.structs.replace(opened, electors=electors, strict=True)


def check_verdict(asked: ProposalTerms, terms: VerdictTerms, members: tuple[str, ...]) -> None:
    """Raise Refused (bad_request) unless ``asked`` has the terms that its workflow requires to decide a run."""
    if asked.type != "approval" or not asked.binding:
        text = f"proposal {terms.id!r} is the verdict of this workflow: it must be a binding approval"
        raise bad_request(text, "use type approval and binding: true, or another id")
    given, usual = asked.resolution, Resolution()
    quorum = terms.quorum or len(terms.electors or members)
    other = [
        *(["quorum"] if given.quorum not in (usual.quorum, quorum) else []),
        *(["type"] if given.type not in (usual.type, terms.type) else []),
        *(["tie_breaker"] if given.tie_breaker not in (usual.tie_breaker, terms.tie_breaker) else []),
        *(["timeout_seconds"] if asked.timeout_ms not in (None, _verdict_ms(terms)) else []),
    ]
    if other:
        text = f"terms of the verdict {terms.id!r} are fixed by the workflow file"
        hint = "retry without resolution and timeout_seconds"
        raise bad_request(f"{text}: {', '.join(other)} cannot be changed", hint)


def _verdict_ms(terms: VerdictTerms) -> int:
    return round((VERDICT_SECONDS if terms.timeout is None else terms.timeout) * 1000)


BINDING: Final[Mapping[BallotType, str]] = {
    "approval": "an approval that the workflow file names is the verdict of its run (verdict: ID), and "
    "one that binds a suggestion or a tray item accepts it",
    "election": "an election makes the winner the owner of documents",
    "assignment": "an assignment of unclaimed tasks (by id or key) assigns them to their voters",
}
"""Effect of a binding vote, for each type that can have one."""


def check_binding(asked: ProposalTerms, verdict: str | None, assignable: frozenset[str] = frozenset()) -> None:
    """Raise Refused (bad_request) if ``asked``, which is no verdict, is binding without any effect.

    ``assignable`` are the options that are unclaimed tasks: an assignment is binding if all options are. The hint
    lists what would be binding here.
    """
    binds = asked.binds or Binds()
    if not asked.binding:
        if asked.binds is not None:
            raise bad_request("binds is only valid for a binding proposal", "add binding: true")
        return
    if asked.type == "election" and binds.suggestion is None and binds.tray is None:
        return  # the winner owns documents
    if asked.type == "approval" and (binds.suggestion is None) != (binds.tray is None) and not binds.documents:
        return  # yes accepts the suggestion or the tray item
    tasks = {one.id for one in asked.options} if asked.type == "assignment" and asked.binds is None else set[str]()
    if tasks and tasks <= assignable:
        return
    would = dict(BINDING)
    if verdict is not None:
        would["approval"] = f"the approval {verdict} decides this workflow"
    hint = f"omit binding: all members read the result; these are binding: {'; '.join(would.values())}"
    raise bad_request(f"proposal cannot be binding: this {asked.type} has no effect", hint)


def check_terms(opened: ProposalOpened, electors: int) -> None:
    """Raise Refused (bad_request) if the proposal is not valid for ``electors`` voters."""
    terms = opened.terms
    accepted(check_name, opened.name, "omit the id to get a generated one")
    if not terms.title.strip():
        raise bad_request("title is empty", "summarize the question in the title")
    if len(terms.title) > TITLE_LIMIT or len(terms.description) > DESCRIPTION_LIMIT:
        text = (
            f"text too long: the limit is {TITLE_LIMIT} characters for a title, {DESCRIPTION_LIMIT} for a description"
        )
        raise bad_request(text, "put the rest into a file and name the file")
    _check_options(terms)
    large = next((one.id for one in terms.options if len(encode_json(one.metadata)) > METADATA_BYTES), None)
    if large is not None:
        raise bad_request(
            f"metadata of option {large!r} too large: the limit is {METADATA_BYTES} bytes", "put the data into a file"
        )
    if terms.resolution.tie_breaker is not None and (
        terms.resolution.type == "unanimous" or terms.type == "assignment"
    ):
        what = "an assignment" if terms.type == "assignment" else "a unanimous vote"
        raise bad_request(f"tie_breaker not allowed: {what} has no ties", "omit tie_breaker")
    if terms.type == "assignment" and terms.resolution.type != "plurality":
        text = "resolution type not allowed: an assignment has no winner"
        raise bad_request(text, "omit the type of the resolution")
    if not 1 <= opened.quorum <= electors:
        text = f"quorum of {opened.quorum} impossible: {electors} can vote"
        raise bad_request(text, "omit the quorum to wait for all electors")
    if not SHORTEST_SECONDS <= opened.timeout_ms / 1000 <= LONGEST_SECONDS:
        raise bad_request(f"timeout_seconds must be from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} (7 days)")


def _check_options(terms: ProposalTerms) -> None:
    ids = [option.id for option in terms.options]
    if terms.type == "approval" and ids != [YES, NO]:
        raise bad_request("options of an approval must be yes and no", "omit options, or use type decision")
    if terms.type == "election" and any(option.label != f"@{option.id}" for option in terms.options):
        raise bad_request("options of an election must be members", "omit options, or use type decision")
    if any(_OPTION_ID.fullmatch(one) is None for one in ids):
        text = "option id invalid: use at most 64 letters, digits, dots, dashes and underscores"
        raise bad_request(text, "put the rest into the label")
    least = 1 if terms.type in ("assignment", "election") else 2
    if not least <= len(ids) <= OPTIONS_LIMIT:
        text = f"proposal has {len(ids)} options: {least} to {OPTIONS_LIMIT} are allowed for type {terms.type}"
        raise bad_request(text, "give options as [{id, label}, ...]")
    if len({one.lower() for one in ids}) < len(ids):
        raise bad_request("option ids must be unique")


def check_vote(ballot: Ballot, voter: str, choice: str, now_ms: int, *, person: bool) -> None:
    """Raise Refused if ``voter`` may not choose ``choice`` now. Second votes only break ties."""
    if ballot.state != "open" or now_ms >= ballot.deadline_ms:
        raise _over(ballot)
    if voter not in ballot.electors and not person:
        text = f"{voter!r} is not an elector of proposal {ballot.name!r}"
        raise Refused("forbidden", text, f"electors: {', '.join(sorted(ballot.electors))}")
    if choice not in ballot.options:
        text = f"option {choice[:64]!r} not found in proposal {ballot.name!r}"
        raise bad_request(text, f"options: {', '.join(ballot.options)}")
    if voter not in ballot.choices or may_break(ballot, voter, choice, now_ms):
        return
    among = tied(ballot, now_ms)
    if among and voter == ballot.creator:
        raise Refused("conflict", f"proposal {ballot.name!r} is tied: choose one of {', '.join(among)}")
    text = f"{voter!r} has already voted for {ballot.choices[voter]}: a vote is final"
    raise Refused("conflict", text)


def check_cancel(ballot: Ballot, name: str, *, person: bool) -> None:
    """Raise Refused if ``name`` may not cancel ``ballot``."""
    if name != ballot.creator and not person:
        text = f"proposal {ballot.name!r} can only be cancelled by its creator {ballot.creator}"
        raise Refused("forbidden", text, "vote, and give a reason")
    if ballot.state != "open":
        raise _over(ballot)


def _over(ballot: Ballot) -> Refused:
    if ballot.state == "open":
        return Refused("conflict", f"proposal {ballot.name!r} has ended: the deadline has passed")
    result = f", winner {ballot.winner}" if ballot.winner is not None else ""
    return Refused("conflict", f"proposal {ballot.name!r} has ended: {ballot.state}{result}")


def may_break(ballot: Ballot, voter: str, choice: str, now_ms: int) -> bool:
    """Return whether ``voter`` is the creator, has voted, and chooses one of the tied options."""
    may = voter == ballot.creator and voter in ballot.choices and ballot.state == "open"
    return may and choice in tied(ballot, now_ms)


def tied(ballot: Ballot, now_ms: int) -> tuple[str, ...]:
    """Return the tied options between which the creator has to choose."""
    result = tally(ballot, ballot.choices, now_ms)
    return result.tied if isinstance(result, Undecided) else ()
