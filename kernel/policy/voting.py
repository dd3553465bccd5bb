"""What a ballot comes to: whether it stays open, and who wins. Pure; in which order the votes came never matters.

It ends when as many electors have voted as it wants, when no further vote of theirs could change what comes of it, and
at its deadline in any case. That nobody wins is a result like any other; what decides over a run (``strict``) is won by
nobody at its deadline, unless as many have voted as it wants.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from protocol.voting import BallotType, Method, TieBreaker, Why


@dataclass(frozen=True, slots=True)
class ProposalState:
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


@dataclass(frozen=True, slots=True)
class Undecided:
    """It stays open. ``tied``: all are there, and its creator may choose one of these."""

    tied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """It is over. ``winner`` None: nobody wins. ``tied``: between which options it was a tie, broken or not."""

    winner: str | None
    why: Why
    tied: tuple[str, ...] = ()


def tally(ballot: ProposalState, votes: Mapping[str, str], now_ms: int) -> Undecided | Decided:
    """What ``votes`` (voter to option) come to. Votes of others than electors count, but nobody waits for them."""
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


def counted(options: tuple[str, ...], votes: Mapping[str, str]) -> dict[str, int]:
    """Votes for each option, in the order of the options."""
    counts = Counter(votes.values())
    return {option: counts[option] for option in options}


def _decided(ballot: ProposalState, ahead: tuple[str, ...], why: Why) -> Decided:
    winner = _first(ballot, ahead)
    return Decided(winner, why, ahead if len(ahead) > 1 else ())


def _first(ballot: ProposalState, ahead: tuple[str, ...]) -> str | None:
    """Who of those that are ahead wins, were it over now. Its creator breaks no tie by silence."""
    if len(ahead) < 2:
        return ahead[0] if ahead else None
    place = _places(ballot)
    return min(ahead, key=lambda option: place[option]) if place else None


def _places(ballot: ProposalState) -> Mapping[str, tuple[str, int]]:
    """Which option comes before which in a tie; nothing where no rule says so."""
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
    """Two with half of the votes each are a tie: one vote more would have made a majority."""
    total = sum(counts.values())
    half = tuple(option for option, count in counts.items() if total and 2 * count >= total)
    return half if len(half) == 2 or any(2 * counts[option] > total for option in half) else ()


def _all_alike(counts: Counts, left: int) -> tuple[str, ...]:
    chosen = tuple(option for option, count in counts.items() if count)
    return chosen if len(chosen) == 1 and not left else ()


AHEAD: Final[Mapping[Method, Callable[[Counts, int], tuple[str, ...]]]] = MappingProxyType(
    {"plurality": _most, "majority": _more_than_half, "unanimous": _all_alike}
)
"""Among which options the winner is, were it over now and ``left`` electors missing: none, one, or a tie."""


def _out_of_reach(ballot: ProposalState, counts: Counts, left: int) -> bool:
    """Nobody can catch up with who leads, though all that are left voted for the same."""
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
    """More than half of all that can be is for one; or nobody can get there any more."""
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
    """They will not be of one mind any more."""
    return sum(1 for count in counts.values() if count) > 1


SETTLED: Final[Mapping[Method, Callable[[ProposalState, Counts, int], bool]]] = MappingProxyType(
    {"plurality": _out_of_reach, "majority": _sure_of_majority, "unanimous": _at_odds}
)
"""Whether what comes of it is sure, however the ``left`` electors vote, or whether they do."""
