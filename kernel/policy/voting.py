"""Voting: the terms of a proposal, and its result by the votes. Pure; in which order the votes came never matters.

A proposal ends when as many electors have voted as it wants, when no further vote of theirs could change its result,
and at its deadline in any case. That nobody wins is a result like any other; what decides over a run (``strict``) is
won by nobody at its deadline, unless as many have voted as it wants.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from protocol.errors import Refused, bad_request
from protocol.message import USER
from protocol.names import AgentKey, NameRejected, check_name
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
    """One ballot, as it is counted. ``seed`` is what ``random`` draws its lots from. Times are the kernel's."""

    type: BallotType
    rule: Method
    options: tuple[str, ...]
    electors: frozenset[str]
    quorum: int
    deadline_ms: int
    tie_breaker: TieBreaker | None = None
    seed: str = ""
    strict: bool = False
    """Nobody wins without the quorum, also once its time is up."""
    grants: int = 0
    """Set where a rule of the workspace asks for it: so many have to say yes, and nothing else counts."""


class Ballot(ProposalState, frozen=True, kw_only=True):
    """A proposal as it is stored, with its votes. ``creator_key`` None: a person. ``hops`` of its message."""

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
        """Return the votes, voter to option."""
        return {vote.voter: vote.choice for vote in self.votes}


class Undecided(msgspec.Struct, frozen=True):
    """It stays open. ``tied``: all are there, and its creator may choose one of these."""

    tied: tuple[str, ...] = ()


class Decided(msgspec.Struct, frozen=True):
    """It is over. ``winner`` None: nobody wins. ``tied``: between which options it was a tie, broken or not."""

    winner: str | None
    why: Why
    tied: tuple[str, ...] = ()


def tally(ballot: ProposalState, votes: Mapping[str, str], now_ms: int) -> Undecided | Decided:
    """Return what ``votes`` (voter to option) come to.

    Votes of others than electors count, but nobody waits for them.
    """
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
    """As tally, where so many have to agree: a person counts as one of them, and a person's no is the end of it."""
    agreed = sum(1 for choice in votes.values() if choice == YES)
    if agreed >= ballot.grants:
        return Decided(YES, "settled")
    if votes.get(USER) == NO or agreed + len(ballot.electors - votes.keys()) < ballot.grants:
        return Decided(NO, "settled")
    return Decided(None, "deadline") if now_ms >= ballot.deadline_ms else Undecided()


def counted(options: tuple[str, ...], votes: Mapping[str, str]) -> dict[str, int]:
    """Votes for each option, in the order of the options."""
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
"""Among which options the winner is, were it over now and ``left`` electors missing: none, one, or a tie."""


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
    # It may end with half of them only. It wins that tie if it comes first, and if one rival has the other half.
    place = _places(ballot)
    one_rival = len(counts) == 2 or (left == 1 and counts[winner] == total)
    return one_rival and bool(place) and min(counts, key=lambda option: place[option]) == winner


def _at_odds(_ballot: ProposalState, counts: Counts, _left: int) -> bool:
    return sum(1 for count in counts.values() if count) > 1


SETTLED: Final[Mapping[Method, Callable[[ProposalState, Counts, int], bool]]] = {
    "plurality": _out_of_reach,
    "majority": _sure_of_majority,
    "unanimous": _at_odds,
}
"""Whether what comes of it is sure, however the ``left`` electors vote, or whether they do."""


_OPTION_ID: Final = re.compile(OPTION_ID)
YES_OR_NO: Final = (Option(id=YES, label="Yes"), Option(id=NO, label="No"))


class ProposalOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Payload of ``proposal``: something is put to the vote until ``expires_ms``, on terms that leave nothing open.

    ``salt`` is of chance: lots are drawn from it.
    """

    name: str
    terms: ProposalTerms
    expires_ms: int
    salt: str = ""
    electors: tuple[str, ...] | None = None
    """None: all members."""
    strict: bool = False
    """It decides over the run: nobody wins it without its quorum."""
    grants: int = 0
    """A rule waits for so many who say yes."""

    @property
    def quorum(self) -> int:
        """Return how many of the electors have to vote."""
        return self.terms.resolution.quorum or 0

    @property
    def timeout_ms(self) -> int:
        """Return how long it is open at most."""
        return self.terms.timeout_ms or 0


def with_defaults(
    asked: ProposalTerms, name: str, members: tuple[str, ...], now_ms: int, salt: str = ""
) -> ProposalOpened:
    """Return what was asked, with its ``name`` and what goes without saying: an election is among the ``members``."""
    # What an election and an approval are about, if nothing else was asked for.
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
    """Return what decides over a run, under the ``terms`` of its workflow and no others."""
    electors = terms.electors or members
    resolution = Resolution(type=terms.type, quorum=terms.quorum or len(electors), tie_breaker=terms.tie_breaker)
    under = msgspec.structs.replace(asked, resolution=resolution, timeout_seconds=_verdict_ms(terms) / 1000)
    opened = with_defaults(under, terms.id, members, now_ms, salt)
    return msgspec.structs.replace(opened, electors=electors, strict=True)


def check_verdict(asked: ProposalTerms, terms: VerdictTerms, members: tuple[str, ...]) -> None:
    """Raise Refused (bad_request) unless ``asked`` decides a run on the terms of its workflow."""
    if asked.type != "approval" or not asked.binding:
        text = f"{terms.id} is the verdict of this workflow: it has to be a binding approval"
        raise bad_request(text, "give it type approval and binding: true, or another id")
    given, usual = asked.resolution, Resolution()
    quorum = terms.quorum or len(terms.electors or members)
    other = [
        *(["quorum"] if given.quorum not in (usual.quorum, quorum) else []),
        *(["type"] if given.type not in (usual.type, terms.type) else []),
        *(["tie_breaker"] if given.tie_breaker not in (usual.tie_breaker, terms.tie_breaker) else []),
        *(["timeout_seconds"] if asked.timeout_ms not in (None, _verdict_ms(terms)) else []),
    ]
    if other:
        text = f"{terms.id} is the verdict of this workflow, whose file says how it is decided"
        hint = "ask again without resolution and timeout_seconds"
        raise bad_request(f"{text}: {', '.join(other)} cannot be changed", hint)


def _verdict_ms(terms: VerdictTerms) -> int:
    return round((VERDICT_SECONDS if terms.timeout is None else terms.timeout) * 1000)


BINDING: Final[Mapping[BallotType, str]] = {
    "approval": "an approval that the workflow's file names is the verdict of its run (verdict: ID), and "
    "one that binds a suggestion, or what is in a tray, accepts it",
    "election": "an election makes the winner the owner of documents",
    "assignment": "an assignment of tasks, by id or key, that nobody is at gives them to who chose them",
}
"""What follows from a binding vote, for each type of which something does."""


def check_binding(asked: ProposalTerms, verdict: str | None, assignable: frozenset[str] = frozenset()) -> None:
    """Raise Refused (bad_request) where ``asked``, which is no verdict, is binding and nothing follows from it.

    ``assignable`` are those of its options that are tasks nobody is at: an assignment binds where all of them are. The
    hint says what would be binding here, of all types.
    """
    binds = asked.binds or Binds()
    if not asked.binding:
        if asked.binds is not None:
            raise bad_request("binds is only for what is binding", "add binding: true")
        return
    if asked.type == "election" and binds.suggestion is None and binds.tray is None:
        return  # the winner owns documents
    if asked.type == "approval" and (binds.suggestion is None) != (binds.tray is None) and not binds.documents:
        return  # yes accepts the suggestion, or what is in a tray
    tasks = {one.id for one in asked.options} if asked.type == "assignment" and asked.binds is None else set[str]()
    if tasks and tasks <= assignable:
        return
    would = dict(BINDING)
    if verdict is not None:
        would["approval"] = f"the approval {verdict} decides over this workflow"
    hint = f"leave binding out: everybody reads what comes of it; binding is: {'; '.join(would.values())}"
    raise bad_request(f"nothing relies on what comes of this {asked.type}, so it cannot be binding", hint)


def check_terms(opened: ProposalOpened, electors: int) -> None:
    """Raise Refused (bad_request) where it cannot be put to the vote of so many ``electors``."""
    terms = opened.terms
    try:
        check_name(opened.name)
    except NameRejected as rejected:
        raise bad_request(f"{rejected}", "leave the id out to be given one") from None
    if not terms.title.strip():
        raise bad_request("the title is empty", "say in it what is voted on")
    if len(terms.title) > TITLE_LIMIT or len(terms.description) > DESCRIPTION_LIMIT:
        text = f"a title can have {TITLE_LIMIT} characters, a description {DESCRIPTION_LIMIT}"
        raise bad_request(text, "put the rest into a file and name that")
    _check_options(terms)
    large = next((one.id for one in terms.options if len(encode_json(one.metadata)) > METADATA_BYTES), None)
    if large is not None:
        raise bad_request(f"the metadata of {large} is over {METADATA_BYTES} bytes", "put it into a file and name that")
    if terms.resolution.tie_breaker is not None and (
        terms.resolution.type == "unanimous" or terms.type == "assignment"
    ):
        what = "an assignment" if terms.type == "assignment" else "a unanimous vote"
        raise bad_request(f"{what} has no ties", "leave tie_breaker out")
    if terms.type == "assignment" and terms.resolution.type != "plurality":
        text = "an assignment has no winner: everybody gets what they choose"
        raise bad_request(text, "leave the resolution's type out")
    if not 1 <= opened.quorum <= electors:
        text = f"a quorum of {opened.quorum} cannot be: {electors} can vote"
        raise bad_request(text, "leave it out to wait for all of them")
    if not SHORTEST_SECONDS <= opened.timeout_ms / 1000 <= LONGEST_SECONDS:
        raise bad_request(f"timeout_seconds has to be from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} (7 days)")


def _check_options(terms: ProposalTerms) -> None:
    ids = [option.id for option in terms.options]
    if terms.type == "approval" and ids != [YES, NO]:
        raise bad_request("the options of an approval are yes and no", "leave options out, or make it a decision")
    if terms.type == "election" and any(option.label != f"@{option.id}" for option in terms.options):
        raise bad_request("the options of an election are members", "leave options out, or make it a decision")
    if any(_OPTION_ID.fullmatch(one) is None for one in ids):
        text = "an option's id has letters, digits, dots, dashes and underscores, at most 64"
        raise bad_request(text, "say the rest in its label")
    least = 1 if terms.type in ("assignment", "election") else 2
    if not least <= len(ids) <= OPTIONS_LIMIT:
        text = f"{len(ids)} options: a {terms.type} has from {least} to {OPTIONS_LIMIT}"
        raise bad_request(text, "give options as [{id, label}, ...]")
    if len({one.lower() for one in ids}) < len(ids):
        raise bad_request("two options have the same id")


def check_vote(ballot: Ballot, voter: str, choice: str, now_ms: int, *, person: bool) -> None:
    """Raise Refused where ``voter`` cannot vote so now, neither first nor to break a tie."""
    if ballot.state != "open" or now_ms >= ballot.deadline_ms:
        raise _over(ballot)
    if voter not in ballot.electors and not person:
        text = f"{voter} is not among those who vote on {ballot.name}"
        raise Refused("forbidden", text, f"they are {', '.join(sorted(ballot.electors))}")
    if choice not in ballot.options:
        text = f"{choice[:64]!r} is no option of {ballot.name}"
        raise bad_request(text, f"choose of: {', '.join(ballot.options)}")
    if voter not in ballot.choices or may_break(ballot, voter, choice, now_ms):
        return
    among = tied(ballot, now_ms)
    if among and voter == ballot.creator:
        raise Refused("conflict", f"{ballot.name} is a tie that you break: choose of {', '.join(among)}")
    text = f"{voter} has voted for {ballot.choices[voter]} already, and a vote is final"
    raise Refused("conflict", text)


def check_cancel(ballot: Ballot, name: str, *, person: bool) -> None:
    """Raise Refused where ``name`` cannot cancel ``ballot``."""
    if name != ballot.creator and not person:
        text = f"{ballot.name} was put to the vote by {ballot.creator}, who alone may cancel it"
        raise Refused("forbidden", text, "vote, and say why")
    if ballot.state != "open":
        raise _over(ballot)


def _over(ballot: Ballot) -> Refused:
    if ballot.state == "open":
        return Refused("conflict", f"the time of {ballot.name} is up")
    result = f", and {ballot.winner} won" if ballot.winner is not None else ""
    return Refused("conflict", f"{ballot.name} is over: it is {ballot.state}{result}")


def may_break(ballot: Ballot, voter: str, choice: str, now_ms: int) -> bool:
    """Return whether ``voter`` is the creator, has voted, and chooses one of the options that are tied."""
    may = voter == ballot.creator and voter in ballot.choices and ballot.state == "open"
    return may and choice in tied(ballot, now_ms)


def tied(ballot: Ballot, now_ms: int) -> tuple[str, ...]:
    """Return the options between which the creator has to choose."""
    result = tally(ballot, ballot.choices, now_ms)
    return result.tied if isinstance(result, Undecided) else ()
