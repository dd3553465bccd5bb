"""What grants allow, row by row."""

import pytest

from kernel.policy.grants import LONGEST_LINE, Grant, Refusal, Terms, Wanted, authority, delegation, stands, uses_left
from protocol.agent import Scope
from protocol.names import AgentKey

pytestmark = pytest.mark.promise("P61", "P62")

A, B, C = AgentKey("a"), AgentKey("b"), AgentKey("c")
NOW = 100


def book(*rows: Grant) -> dict[int, Grant]:
    """Grants by their number."""
    return {one.number: one for one in rows}


@pytest.mark.parametrize("broken", ["parent", "warrant"])
@pytest.mark.parametrize("how", ["revoked", "over", "unknown"])
def test_a_grant_stands_while_all_stands_that_it_derives_from(broken: str, how: str) -> None:
    above = {"revoked": {"revoked": True}, "over": {"until_ms": NOW}, "unknown": {}}[how]
    root = Grant(number=1, agent=A, scope="votes", **above)  # type: ignore[arg-type]
    handed = Grant(number=2, agent=B, scope="votes", **{broken: 1})  # type: ignore[arg-type]
    known = book(handed) if how == "unknown" else book(root, handed)
    assert not stands(known, 2, NOW)
    assert authority(known, B, "votes", NOW) is None
    assert stands(book(Grant(number=1, agent=A, scope="votes", until_ms=NOW + 1), handed), 2, NOW)


def test_what_is_left_is_the_least_of_the_line() -> None:
    known = book(
        Grant(number=1, agent=A, scope="votes", uses=5, used=4),
        Grant(number=2, agent=B, scope="votes", parent=1, uses=3),
        Grant(number=3, agent=C, scope="votes", parent=2),
    )
    assert [uses_left(known, number) for number in (1, 2, 3)] == [1, 1, 1]
    assert authority(known, C, "votes", NOW) == ((3, 2, 1), False)


def test_one_without_a_bound_is_used_first_then_what_ends_soonest() -> None:
    """So that a bounded one is kept for when it is needed."""
    bounded = Grant(number=1, agent=A, scope="votes", uses=1)
    soon = Grant(number=2, agent=A, scope="votes", uses=1, until_ms=NOW + 1)
    free = Grant(number=3, agent=A, scope="votes")
    for known, line in ((book(bounded, soon, free), (3,)), (book(bounded, soon), (2,))):
        found = authority(known, A, "votes", NOW)
        assert found is not None
        assert found.line == line


@pytest.mark.parametrize(
    ("until_ms", "uses", "terms"),
    [
        (None, None, Terms(1, 2, 200)),
        (150, 2, Terms(1, 2, 150)),
        (200, None, Terms(1, 2, 200)),
        (201, None, "you do not have it for so long yourself"),
        (None, 3, "you may use it 2 times more yourself"),
    ],
)
def test_who_hands_on_gives_no_more_than_he_has(until_ms: int | None, uses: int | None, terms: Terms | str) -> None:
    known = book(
        Grant(number=1, agent=A, scope="votes", uses=3, used=1, until_ms=300),
        Grant(number=2, agent=A, scope="auth", until_ms=200),
    )
    found = delegation(known, A, (), Wanted("votes", until_ms, uses), NOW)
    assert (found.text if isinstance(found, Refusal) else found) == terms


def test_it_takes_the_scope_auth_and_the_scope_itself() -> None:
    assert delegation({}, A, {"auth", "votes"}, Wanted("votes", None, None), NOW) == Terms(None, None, None)
    files: tuple[set[Scope], ...] = ({"votes"}, {"auth"})
    for own in files:
        assert isinstance(delegation({}, A, own, Wanted("votes", None, None), NOW), Refusal)
    others = (Grant(number=n, agent=B, scope="votes", parent=n - 1 or None) for n in range(1, LONGEST_LINE))
    known = book(*others, Grant(number=LONGEST_LINE, agent=A, scope="votes", parent=LONGEST_LINE - 1))
    assert isinstance(delegation(known, A, {"auth"}, Wanted("votes", None, None), NOW), Refusal)
