"""Who may open a space below a run's, and who says who is in it."""

import pytest

from kernel.policy.spaces import (
    MOST_IN_RUN,
    MOST_MEMBERS,
    MOST_OPEN,
    MembershipChange,
    RunSpaces,
    change_of_members,
    is_over,
    members_of_new,
)
from tests.kernel.refusals import refused

pytestmark = pytest.mark.promise("P64")

TEAM = ("lead", "alice", "bob")
MANY = tuple(f"a{n}" for n in range(MOST_MEMBERS))
RUN = RunSpaces(colleagues=TEAM, open_names=("budget",), opened=1)


def test_who_opens_a_space_is_in_it_and_each_once() -> None:
    assert members_of_new("lead", "design", ("bob", "lead", "bob"), RUN) == ("lead", "bob")


@pytest.mark.parametrize(
    ("name", "wanted", "run", "code"),
    [
        ("budget", ("bob",), RUN, "conflict"),
        ("design", ("mallory",), RUN, "not_a_participant"),
        ("design", ("bob",), RUN._replace(open_names=tuple(map(str, range(MOST_OPEN)))), "conflict"),
        ("design", ("bob",), RUN._replace(opened=MOST_IN_RUN), "conflict"),
        ("design", MANY, RUN._replace(colleagues=(*TEAM, *MANY)), "conflict"),
    ],
    ids=["open already", "no member of the run", "too many open", "too many in the run", "too many members"],
)
def test_what_may_not_be_opened_is_refused(name: str, wanted: tuple[str, ...], run: RunSpaces, code: str) -> None:
    assert refused(members_of_new, "lead", name, wanted, run).code == code


@pytest.mark.parametrize(
    ("caller", "add", "remove", "code"),
    [
        ("alice", ("bob",), (), "forbidden"),
        ("alice", (), ("alice",), "forbidden"),
        ("lead", ("bob",), ("bob", "alice"), "bad_request"),
        ("lead", (), ("lead",), "conflict"),
        (None, (), ("lead",), "conflict"),
        (None, ("mallory",), (), "not_a_participant"),
    ],
)
def test_only_who_opened_it_and_people_change_who_is_in_it(
    caller: str | None, add: tuple[str, ...], remove: tuple[str, ...], code: str
) -> None:
    error = refused(change_of_members, caller, "lead", ("lead", "alice"), MembershipChange(add, remove), TEAM)
    assert error.code == code


def test_who_is_in_it_is_not_added_and_who_is_not_is_not_removed() -> None:
    change = MembershipChange(("alice", "bob", "bob"), ("carol",))
    assert change_of_members("lead", "lead", ("lead", "alice"), change, TEAM) == MembershipChange(("bob",), ())
    assert change_of_members("alice", "lead", ("lead", "alice"), MembershipChange((), ()), TEAM) == MembershipChange(
        (), ()
    )


@pytest.mark.parametrize("at_work", [True, False])
@pytest.mark.parametrize("work_open", [True, False])
def test_a_space_is_over_once_all_work_of_it_has_ended(at_work: bool, work_open: bool) -> None:
    assert is_over(opener_at_work=at_work, work_open=work_open) is not (at_work or work_open)
