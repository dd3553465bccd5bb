"""Decides what grants allow: whether a call is authorized, and what may be delegated. Pure.

A grant is valid until it is revoked or expires, and only while the grants that it derives from are valid: the one
through which the giver has the same scope (``parent``) and the one that allows the giver to delegate (``warrant``).
Each use counts in the whole chain of parents, so that all derived grants together never exceed the uses of an ancestor.
"""

from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

import msgspec

from protocol.agent import Scope
from protocol.errors import Refused
from protocol.names import AgentKey

LONGEST_LINE: Final = 16
"""Maximum length of a chain of derived grants."""


class ScopeGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Grant of a scope, with the columns that decisions need."""

    number: int
    agent: AgentKey
    """Holder of the grant."""
    scope: Scope | None
    """None: the grant answers one request and opens no scope."""
    parent: int | None = None
    warrant: int | None = None
    until_ms: int | None = None
    uses: int | None = None
    used: int = 0
    revoked: bool = False


Book = Mapping[int, ScopeGrant]
"""Grants by number: those in question and all that they derive from."""


class Authority(NamedTuple):
    """Permission for a call; ``line``: the grant and its parents, ``spent``: no uses are left."""

    line: tuple[int, ...]
    spent: bool


class WantedGrant(NamedTuple):
    """Requested grant. ``until_ms`` None: no end of its own. ``uses`` None: no limit of its own."""

    scope: Scope
    until_ms: int | None
    uses: int | None


class GrantTerms(NamedTuple):
    """Terms of a new grant: its ``parent``, its ``warrant`` and its end."""

    parent: int | None
    warrant: int | None
    until_ms: int | None


def stands(book: Book, number: int, now_ms: int) -> bool:
    """Return whether grant ``number`` and all grants that it derives from are known and valid."""
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
    """Yield grant ``number`` and its chain of parents, nearest first."""
    above: int | None = number
    while above is not None:
        found = book[above]
        yield found
        above = found.parent


def uses_left(book: Book, number: int) -> int | None:
    """Return the remaining uses of a grant under its own limit and its parents' limits; None: unlimited."""
    bounds = [one.uses - one.used for one in line(book, number) if one.uses is not None]
    return max(0, min(bounds)) if bounds else None


def authority(book: Book, agent: AgentKey, scope: Scope, now_ms: int) -> Authority | None:
    """Return the permission of ``agent`` to use ``scope``; None: no valid grant.

    Grants with uses left are preferred, then grants with unlimited uses, then the first to end.
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
    """Return the terms on which ``giver``, whose file has the scopes ``own``, may grant ``wanted``.

    The terms cannot exceed the giver's own permission in time or uses. Raises Refused: forbidden.
    """
    warrants = [] if "auth" in own else _standing(book, giver, "auth", now_ms)
    if "auth" not in own and not warrants:
        raise Refused(
            "forbidden", "scope 'auth' missing: delegating requires it", "ask a person or an agent with that scope"
        )
    sources: list[ScopeGrant | None] = (
        [None] if wanted.scope in own else [*_standing(book, giver, wanted.scope, now_ms)]
    )
    if not sources:
        raise Refused(
            "forbidden",
            f"scope {wanted.scope!r} missing: you can delegate only your own scopes",
            "delegate a scope that you have",
        )
    warrant = warrants[0] if warrants else None
    most: tuple[str, str] | None = None
    for source in sources:
        ends = [one.until_ms for one in (source, warrant) if one is not None and one.until_ms is not None]
        left = None if source is None else uses_left(book, source.number)
        depth = 0 if source is None else sum(1 for _ in line(book, source.number))
        until_ms = wanted.until_ms if wanted.until_ms is not None or not ends else min(ends)
        if ends and wanted.until_ms is not None and wanted.until_ms > min(ends):
            most = most or ("grant would outlast your own", "omit until: the grant then ends with yours")
        elif left is not None and (left == 0 or (wanted.uses or 0) > left):
            most = most or (f"grant exceeds your own uses: {left} left", "omit uses, or grant fewer")
        elif depth >= LONGEST_LINE:
            most = most or (f"grant already delegated {depth} times: limit reached", "ask its first holder")
        else:
            return GrantTerms(
                None if source is None else source.number, None if warrant is None else warrant.number, until_ms
            )
    assert most is not None, "each source was refused"
    raise Refused("forbidden", *most)


def _standing(book: Book, agent: AgentKey, scope: Scope, now_ms: int) -> list[ScopeGrant]:
    def reach(one: ScopeGrant) -> tuple[float, float, int]:
        left = uses_left(book, one.number)
        return -(inf if one.until_ms is None else one.until_ms), -(inf if left is None else left), one.number

    own = (one for one in book.values() if one.agent == agent and one.scope == scope)
    return sorted((one for one in own if stands(book, one.number, now_ms)), key=reach)
