"""Second conditions of spaces below a run: of another run or member, closed or left meanwhile."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from kernel.policy.spaces import MembershipChange
from kernel.rule.draft import Draft
from kernel.store import spaces, tasks
from kernel.store.transitions import close
from kernel.store.transitions import spaces as steps
from kernel.store.transitions.append import append
from kernel.store.transitions.tasks import cancel_task, plan
from protocol.message import USER
from protocol.names import SpaceId
from protocol.tasks import TaskSpec
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace, refused
from tests.shorthand import present

pytestmark = pytest.mark.promise("P64")

STATES: Final = "SELECT name, state FROM instructions WHERE space = ? ORDER BY id"


@pytest.fixture
def work(workspace: BusyWorkspace) -> BusyWorkspace:
    """alice has opened the space design with bob, who has work there."""
    open_space(workspace, "alice", "design", "bob")
    append_said(workspace, "@bob draw it")
    return workspace


def open_space(work: BusyWorkspace, who: str, name: str, *members: str, space: str = SPACE) -> None:
    work.commit(steps.open_space, space, steps.SpaceRequest(name, members), author=work.attempt(who))


def append_said(work: BusyWorkspace, text: str) -> None:
    draft = Draft(kind="said", space=below(work), sender="alice", text=text, author=work.author("alice"))
    work.commit(append, draft)


def below(work: BusyWorkspace, name: str = "design") -> SpaceId:
    return present(spaces.find_open(work.conn, SPACE, name)).space


def states(work: BusyWorkspace, space: str) -> list[tuple[str, str]]:
    return [(str(name), str(state)) for name, state in work.conn.execute(STATES, (space,))]


def change(
    work: BusyWorkspace, who: str, name: str = "design", space: str = SPACE, add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> Any:  # fmt: skip
    author = work.author(who)
    return work.commit(steps.change_members, space, name, MembershipChange(tuple(add), tuple(remove)), author=author)


REFUSED: Final[list[tuple[Callable[[BusyWorkspace], object], str]]] = [
    (lambda work: change(work, "carol"), "not_found"),
    (lambda work: change(work, "alice", "none"), "not_found"),
    (lambda work: change(work, USER, space="task:main"), "not_found"),
    (lambda work: change(work, "alice", space="task:main"), "forbidden"),
]


@pytest.mark.parametrize(("step", "code"), REFUSED)
def test_a_space_that_is_not_the_callers_is_not_there(
    work: BusyWorkspace, step: Callable[[BusyWorkspace], object], code: str
) -> None:
    assert refused(lambda: step(work)) == code
    assert set(change(work, USER).members) == {"alice", "bob"}, "a person sees all"


def test_who_is_taken_out_loses_what_it_has_to_do_there_and_nothing_else(work: BusyWorkspace) -> None:
    change(work, "alice", add=("carol",))
    append_said(work, "@carol too")
    here = below(work)
    elsewhere = states(work, SPACE)
    change(work, "alice", remove=("carol",))
    assert states(work, here) == [("bob", "queued"), ("carol", "cancelled")]
    assert states(work, SPACE) == elsewhere
    change(work, "alice", add=("carol",))
    change(work, "alice", remove=("carol",))
    assert states(work, here) == [("bob", "queued"), ("carol", "cancelled")]


def test_who_joins_is_given_the_tasks_that_wait_for_it(work: BusyWorkspace) -> None:
    here = below(work)
    work.commit(plan, here, (TaskSpec(key="a", title="paint"),))
    work.commit(tasks.set_for, present(tasks.find(work.conn, here, "a")), "carol")
    assert states(work, here) == [("bob", "queued")]
    change(work, "alice", add=("carol",))
    assert states(work, here)[-1] == ("carol", "queued")
    before = states(work, here)
    change(work, "alice", remove=("bob",))
    assert len(states(work, here)) == len(before)


def test_a_person_closes_an_open_space_once(work: BusyWorkspace) -> None:
    here = below(work)
    work.commit(steps.close_by_person, here)
    said = int(work.conn.execute("SELECT count(*) FROM messages").get)
    for space in (here, "review:main~none"):
        work.commit(steps.close_by_person, SpaceId(space))
    assert int(work.conn.execute("SELECT count(*) FROM messages").get) == said
    assert (states(work, here), spaces.find_open(work.conn, SPACE, "design")) == ([("bob", "cancelled")], None)


def test_what_is_open_in_a_space_that_closes_is_called_off_there_alone(work: BusyWorkspace) -> None:
    here = below(work)
    work.commit(plan, here, (TaskSpec(key="a", title="A"), TaskSpec(key="b", title="B")))
    work.commit(plan, SPACE, (TaskSpec(key="a", title="A"),))
    work.commit(cancel_task, here, "a", "mine")
    work.commit(close.close_space, present(spaces.by_space(work.conn, here)), "over")
    conn = work.conn
    found = {(space, key): tasks.find(conn, space, key) for space in (here, SPACE) for key in ("a", "b")}
    assert {place: one and (one.state, one.ended_by) for place, one in found.items()} == {
        (here, "a"): ("cancelled", USER),
        (here, "b"): ("cancelled", "system"),
        (SPACE, "a"): ("ready", None),
        (SPACE, "b"): None,
    }
