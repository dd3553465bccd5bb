"""Decides what grants allow: whether a call has authority, and what may be handed on. Pure.

A grant stands while nobody has revoked it, its time is not over, and those stand that it derives from: the one that its
giver has the same by (``parent``), and the one by which its giver may give anything at all (``warrant``). What is done
with it counts in every grant of its line, so that all that derives from one together is done no more often than that
one allows.
"""

from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

import msgspec

from protocol.agent import Scope
from protocol.errors import Refused
from protocol.names import AgentKey

LONGEST_LINE: Final = 16
"""Grants that one may derive from, one from the other."""


class ScopeGrant(msgspec.Struct, frozen=True, kw_only=True):
    """One grant of a scope, as far as it decides something."""

    number: int
    agent: AgentKey
    """Who has it."""
    scope: Scope | None
    """None: it is the answer to one request, and opens nothing."""
    parent: int | None = None
    warrant: int | None = None
    until_ms: int | None = None
    uses: int | None = None
    used: int = 0
    revoked: bool = False


Book = Mapping[int, ScopeGrant]
"""Grants by their number: those that are asked about, with all that they derive from."""


class Authority(NamedTuple):
    """Leave to make a call. ``line``: the grant, and those it is handed on from. ``spent``: it is used up."""

    line: tuple[int, ...]
    spent: bool


class WantedGrant(NamedTuple):
    """A grant as it is asked for. None: no bound of its own."""

    scope: Scope
    until_ms: int | None
    uses: int | None


class GrantTerms(NamedTuple):
    """Bounds of a grant: those above it, and its end."""

    parent: int | None
    warrant: int | None
    until_ms: int | None


def stands(book: Book, number: int, now_ms: int) -> bool:
    """Return whether the grant counts now, with all that it derives from. One that nobody knows does not."""
    waiting, seen = [number], set[int]()
    while waiting:
        found = book.get(waiting.pop())
        if found is None or found.revoked or (found.until_ms is not None and found.until_ms <= now_ms):
            return False
        if found.number not in seen:
            seen.add(found.number)
            waiting += [above for above in (found.parent, found.warrant) if above is not None]
    return True


def line(book: Book, number: int) -> Iterator[ScopeGrant]:
    """The grant, and those that it is handed on from, the nearest first."""
    above: int | None = number
    while above is not None:
        found = book[above]
        yield found
        above = found.parent


def uses_left(book: Book, number: int) -> int | None:
    """The number of times it may still be used, by its own bound and those of its line. None: there is no bound."""
    bounds = [one.uses - one.used for one in line(book, number) if one.uses is not None]
    return max(0, min(bounds)) if bounds else None


def authority(book: Book, agent: AgentKey, scope: Scope, now_ms: int) -> Authority | None:
    """The leave that ``agent`` has to use ``scope``; None: it has none.

    Those without a bound come first, then what ends soonest.
    """
    found = [
        (left == 0, left is not None, inf if one.until_ms is None else one.until_ms, one.number)
        for one in book.values()
        if one.agent == agent and one.scope == scope and stands(book, one.number, now_ms)
        for left in (uses_left(book, one.number),)
    ]
    if not found:
        return None
    spent, _, _, number = min(found)
    return Authority(tuple(one.number for one in line(book, number)), spent)


def delegation(book: Book, giver: AgentKey, own: Collection[Scope], wanted: WantedGrant, now_ms: int) -> GrantTerms:
    """The terms of a grant by the agent ``giver``, whose file gives it ``own``.

    It gives what it has itself: for no longer, and no more often. Raises Refused: forbidden.
    """
    warrants = [] if "auth" in own else _standing(book, giver, "auth", now_ms)
    if "auth" not in own and not warrants:
        raise Refused("forbidden", "it takes the scope auth to give anything", "ask a person, or who has it")
    sources: list[ScopeGrant | None] = (
        [None] if wanted.scope in own else [*_standing(book, giver, wanted.scope, now_ms)]
    )
    if not sources:
        raise Refused("forbidden", f"you do not have the scope {wanted.scope} yourself", "give what you have")
    warrant = warrants[0] if warrants else None
    most: tuple[str, str] | None = None
    for source in sources:
        ends = [one.until_ms for one in (source, warrant) if one is not None and one.until_ms is not None]
        left = None if source is None else uses_left(book, source.number)
        depth = 0 if source is None else sum(1 for _ in line(book, source.number))
        until_ms = wanted.until_ms if wanted.until_ms is not None or not ends else min(ends)
        if ends and wanted.until_ms is not None and wanted.until_ms > min(ends):
            most = most or ("you do not have it for so long yourself", "leave until away: it ends with yours")
        elif left is not None and (left == 0 or (wanted.uses or 0) > left):
            most = most or (f"you may use it {left} times more yourself", "leave uses away, or give fewer")
        elif depth >= LONGEST_LINE:
            most = most or (f"it was handed on {depth} times already", "ask who had it first")
        else:
            return GrantTerms(
                None if source is None else source.number, None if warrant is None else warrant.number, until_ms
            )
    assert most is not None, "each source was refused"
    raise Refused("forbidden", *most)


def _standing(book: Book, agent: AgentKey, scope: Scope, now_ms: int) -> list[ScopeGrant]:
    """The grants of ``scope`` that ``agent`` has, first those that last longest and may be used most."""

    def reach(one: ScopeGrant) -> tuple[float, float, int]:
        left = uses_left(book, one.number)
        return -(inf if one.until_ms is None else one.until_ms), -(inf if left is None else left), one.number

    own = (one for one in book.values() if one.agent == agent and one.scope == scope)
    return sorted((one for one in own if stands(book, one.number, now_ms)), key=reach)
