"""What grants allow, row by row."""

import pytest

from kernel.policy.grants import (
    LONGEST_LINE,
    GrantTerms,
    ScopeGrant,
    WantedGrant,
    authority,
    delegation,
    stands,
    uses_left,
)
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.names import AgentKey

pytestmark = pytest.mark.promise("P61", "P62")

A, B, C = AgentKey("a"), AgentKey("b"), AgentKey("c")
NOW = 100


def book(*rows: ScopeGrant) -> dict[int, ScopeGrant]:
    """Grants by their number."""
    return {one.number: one for one in rows}


@pytest.mark.parametrize("broken", ["parent", "warrant"])
@pytest.mark.parametrize("how", ["revoked", "over", "unknown"])
def test_a_grant_stands_while_all_stands_that_it_derives_from(broken: str, how: str) -> None:
    above = {"revoked": {"revoked": True}, "over": {"until_ms": NOW}, "unknown": {}}[how]
    root = ScopeGrant(number=1, agent=A, scope="votes", **above)  # type: ignore[arg-type]
    handed = ScopeGrant(number=2, agent=B, scope="votes", **{broken: 1})  # type: ignore[arg-type]
    known = book(handed) if how == "unknown" else book(root, handed)
    assert not stands(known, 2, NOW)
    assert authority(known, B, "votes", NOW) is None
    assert stands(book(ScopeGrant(number=1, agent=A, scope="votes", until_ms=NOW + 1), handed), 2, NOW)


def test_what_is_left_is_the_least_of_the_line() -> None:
    known = book(
        ScopeGrant(number=1, agent=A, scope="votes", uses=5, used=4),
        ScopeGrant(number=2, agent=B, scope="votes", parent=1, uses=3),
        ScopeGrant(number=3, agent=C, scope="votes", parent=2),
    )
    assert [uses_left(known, number) for number in (1, 2, 3)] == [1, 1, 1]
    assert authority(known, C, "votes", NOW) == ((3, 2, 1), False)


def test_one_without_a_bound_is_used_first_then_what_ends_soonest() -> None:
    """So that a bounded one is kept for when it is needed."""
    bounded = ScopeGrant(number=1, agent=A, scope="votes", uses=1)
    soon = ScopeGrant(number=2, agent=A, scope="votes", uses=1, until_ms=NOW + 1)
    free = ScopeGrant(number=3, agent=A, scope="votes")
    for known, line in ((book(bounded, soon, free), (3,)), (book(bounded, soon), (2,))):
        found = authority(known, A, "votes", NOW)
        assert found is not None
        assert found.line == line


@pytest.mark.parametrize(
    ("until_ms", "uses", "terms"),
    [
        (None, None, GrantTerms(1, 2, 200)),
        (150, 2, GrantTerms(1, 2, 150)),
        (200, None, GrantTerms(1, 2, 200)),
        (201, None, "grant would outlast your own"),
        (None, 3, "grant exceeds your own uses: 2 left"),
    ],
)
def test_who_hands_on_gives_no_more_than_he_has(
    until_ms: int | None, uses: int | None, terms: GrantTerms | str
) -> None:
    known = book(
        ScopeGrant(number=1, agent=A, scope="votes", uses=3, used=1, until_ms=300),
        ScopeGrant(number=2, agent=A, scope="auth", until_ms=200),
    )
    if isinstance(terms, str):
        with pytest.raises(Refused, match=terms):
            delegation(known, A, (), WantedGrant("votes", until_ms, uses), NOW)
    else:
        assert delegation(known, A, (), WantedGrant("votes", until_ms, uses), NOW) == terms


def test_it_takes_the_scope_auth_and_the_scope_itself() -> None:
    assert delegation({}, A, {"auth", "votes"}, WantedGrant("votes", None, None), NOW) == GrantTerms(None, None, None)
    files: tuple[set[Scope], ...] = ({"votes"}, {"auth"})
    for own in files:
        with pytest.raises(Refused):
            delegation({}, A, own, WantedGrant("votes", None, None), NOW)
    others = (ScopeGrant(number=n, agent=B, scope="votes", parent=n - 1 or None) for n in range(1, LONGEST_LINE))
    known = book(*others, ScopeGrant(number=LONGEST_LINE, agent=A, scope="votes", parent=LONGEST_LINE - 1))
    with pytest.raises(Refused):
        delegation(known, A, {"auth"}, WantedGrant("votes", None, None), NOW)
