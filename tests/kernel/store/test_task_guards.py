"""Second conditions of tasks: claimed, ended, given or planned by another one, elsewhere, or meanwhile."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from kernel.rule.draft import Author, Draft
from kernel.store import tasks as store_tasks
from kernel.store.transitions import rules, task_work, tasks
from kernel.store.transitions.append import append
from kernel.store.transitions.lease import lease
from kernel.store.transitions.runs import stop_workflow
from protocol.message import USER
from protocol.names import InstructionId
from protocol.rules import RuleSpec
from protocol.tasks import TaskSpec
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace
from tests.kernel.store.running_store import token_hash
from tests.kernel.store.test_tasks import Board, refused
from tests.shorthand import present

pytestmark = pytest.mark.promise("P39")

OTHER: Final = "task:main"
ONE: Final = (TaskSpec(key="a", title="First"),)
ASKED: Final = "SELECT count(*) FROM instructions WHERE name = ? AND state = 'queued'"


@pytest.fixture
def board(workspace: BusyWorkspace) -> Board:
    """A workspace at work, and another one beside it."""
    workspace.begin_beside(OTHER)
    return Board(workspace)


def elsewhere(board: Board, *specs: TaskSpec) -> None:
    board.workspace.commit(tasks.plan, OTHER, specs)


def cancel(board: Board, name: str) -> tasks.TaskChanged:
    return board.workspace.commit(tasks.cancel_task, SPACE, name, "no")


REFUSED: Final[list[tuple[Callable[[Board], object], str]]] = [
    (lambda board: board.claim("bob", "t9"), "not_found"),
    (lambda board: board.claim("bob", "elsewhere"), "not_found"),
    (lambda board: cancel(board, "t9"), "not_found"),
    (lambda board: board.claim("bob", "hers"), "forbidden"),
    (lambda board: board.claim("bob", "claimed"), "conflict"),
    (lambda board: board.claim(USER, "claimed"), "conflict"),
    (lambda board: board.claim("bob", "over"), "conflict"),
    (lambda board: board.done("bob", "claimed"), "conflict"),
    (lambda board: board.fail("bob", "claimed"), "conflict"),
    (lambda board: board.done("bob", "free"), "conflict"),
    (lambda board: board.done("bob", "over"), "conflict"),
    (lambda board: board.done(USER, "over"), "conflict"),
    (lambda board: cancel(board, "over"), "conflict"),
    (lambda board: board.workspace.commit(tasks.claim, "dm:alice", "t1"), "not_a_participant"),
    (lambda board: board.workspace.commit(tasks.claim, "none:main", "t1"), "workflow_not_running"),
]


@pytest.mark.parametrize(("act", "code"), REFUSED)
def test_what_another_one_has_or_has_ended_is_refused_and_stays(
    board: Board, act: Callable[[Board], object], code: str
) -> None:
    board.plan(*(TaskSpec(key=key, title=key, for_="carol" if key == "hers" else None) for key in KEYS))
    elsewhere(board, TaskSpec(key="elsewhere", title="Elsewhere"))
    board.claim("alice", "claimed")
    cancel(board, "over")
    before = board.states()
    assert refused(lambda: act(board)).code == code
    assert (board.states(), board.holder("claimed")) == (before, "alice")


KEYS: Final = ("free", "claimed", "over", "hers")


def test_a_person_may_take_what_is_for_another_and_end_what_another_holds(board: Board) -> None:
    """A person only; what the user holds is not a member's, nor the other way round."""
    board.plan(TaskSpec(key="hers", title="Hers", for_="carol"), TaskSpec(key="bobs", title="His"))
    assert board.claim(USER, "hers").holder == USER
    assert refused(lambda: board.done("carol", "hers")).code == "conflict"
    board.claim("bob", "bobs")
    assert refused(lambda: board.claim(USER, "bobs")).code == "conflict"
    board.done(USER, "bobs")
    assert board.states() == {"hers": "claimed", "bobs": "done"}


def test_only_the_attempt_that_claimed_a_task_holds_it(board: Board) -> None:
    board.plan(*ONE)
    board.claim("alice", "a")
    row = store_tasks.find(board.workspace.conn, SPACE, "a")
    author = board.workspace.author("alice")
    assert row is not None and author is not None
    assert tasks.is_holder(row, "alice", author)
    assert not tasks.is_holder(row, "bob", author)
    assert not tasks.is_holder(row, "alice", None)
    assert not tasks.is_holder(row, "alice", Author(author.instruction, author.epoch + 1))
    assert not tasks.is_holder(row, "alice", Author(InstructionId("i999"), author.epoch))
    board.crash("alice")
    left = present(store_tasks.find(board.workspace.conn, SPACE, "a"))
    assert (left.state, tasks.is_holder(left, "alice", author)) == ("ready", False)
    board.claim(USER, "a")
    mine = present(store_tasks.find(board.workspace.conn, SPACE, "a"))
    assert (tasks.is_holder(mine, USER, None), tasks.is_holder(mine, USER, author)) == (True, False)


def test_an_attempt_does_not_take_back_a_task_whose_files_another_agent_holds(board: Board) -> None:
    files = {"a": "src/**", "b": "docs/**", "c": "src/a.py"}
    board.plan(*(TaskSpec(key=key, title=key, files=(glob,)) for key, glob in files.items()))
    board.claim("bob", "a")
    board.claim("bob", "b")
    board.crash("bob")
    board.claim("carol", "c")
    board.workspace.take_all()
    assert {key: board.holder(key) for key in files} == {"a": None, "b": "bob", "c": "carol"}


def test_the_same_name_in_another_space_is_another_task(board: Board) -> None:
    needs = TaskSpec(key="b", title="Second", needs=("a",))
    board.plan(*ONE, needs)
    elsewhere(board, *ONE, needs)
    board.claim("bob", "a")
    board.done("bob", "t1")
    conn = board.workspace.conn
    theirs = {name: store_tasks.find(conn, OTHER, name) for name in ("a", "t1", "b", "t2")}
    assert {name: row and row.state for name, row in theirs.items()} == {
        "a": "ready",
        "t1": "ready",
        "b": "open",
        "t2": "open",
    }
    assert board.states() == {"a": "done", "b": "ready"}
    board.workspace.commit(tasks.give_out_again, SPACE)
    assert board.states() == {"a": "done", "b": "ready"}


def test_an_assignment_gives_only_what_is_free_to_who_is_a_member(board: Board) -> None:
    board.plan(*(TaskSpec(key=key, title=key) for key in ("free", "claimed", "over", "left")))
    board.plan(TaskSpec(key="waits", title="waits", needs=("claimed",)))
    board.claim("alice", "claimed")
    cancel(board, "over")
    names = ("free", "claimed", "over", "left", "waits", "none")
    assert board.workspace.commit(tasks.assignable, SPACE, names) == {"free", "left", "waits"}
    takers = {name: "dave" if name == "left" else "bob" for name in names}
    board.workspace.commit(tasks.assign_tasks, SPACE, takers, "p1")
    assert {key: board.whose(key) for key in names[:5]} == {
        "free": "bob",
        "claimed": None,
        "over": None,
        "left": None,
        "waits": "bob",
    }
    assert [one.partition("given by ")[2] for one in board.said() if "given by" in one] == [
        "the vote p1: t1 to bob, t5 to bob"
    ]
    before = len(board.said())
    board.workspace.commit(tasks.assign_tasks, SPACE, {"over": "bob"}, "p2")
    assert len(board.said()) == before


def test_an_attempt_that_ends_lets_go_of_what_it_held_and_says_so_once(board: Board) -> None:
    board.plan(TaskSpec(key="held", title="Held"), TaskSpec(key="ended", title="Ended"))
    board.claim("alice", "held")
    board.claim("alice", "ended")
    board.done("alice", "ended")
    number = int(board.workspace.attempt("alice").instruction[1:])
    board.workspace.commit(tasks.attempt_over, number)
    assert board.states() == {"held": "ready", "ended": "done"}
    said = board.said()
    assert sum("ready again" in one for one in said) == 1
    board.workspace.commit(tasks.attempt_over, number)
    board.workspace.commit(tasks.instruction_over, number, "done")
    assert board.said() == said, "it holds nothing any more"


def given(board: Board, who: str) -> str:
    """A task for ``who``, at which it is at work. Returns its instruction."""
    board.plan(TaskSpec(key="for", title="For one", for_=who))
    return present(board.work_of("for"))


def test_what_is_for_an_agent_is_released_in_silence_and_again_its_work(board: Board) -> None:
    name = given(board, "bob")
    author = board.workspace.attempt("bob")
    conn = board.workspace.conn
    conn.execute("UPDATE instructions SET state = 'done', ended_ms = 1 WHERE id = ?", (int(author.instruction[1:]),))
    board.workspace.commit(lease, InstructionId(name), token_hash("bob", 7))
    board.claim("bob", "for")
    before = board.said()
    board.workspace.commit(tasks.attempt_over, int(name[1:]))
    assert (board.states()["for"], board.said()) == ("ready", before)


@pytest.mark.parametrize(("ends", "is_withdrawn"), [("cancel", True), ("done", True), ("holder", False)])
def test_work_that_nobody_has_begun_is_withdrawn_with_its_task(board: Board, ends: str, *, is_withdrawn: bool) -> None:
    """Where another one ends it; never the work of who ends it itself."""
    name = given(board, "bob")
    if ends == "cancel":
        changed = cancel(board, "for")
    elif ends == "done":
        changed = board.done(USER, "for")
    else:
        board.claim("bob", "for")
        changed = board.done("bob", "for")
    assert changed.withdrawn == (name if is_withdrawn else None)


def test_a_claim_withdraws_nothing_and_a_task_that_is_nobodys_has_nothing(board: Board) -> None:
    given(board, "bob")
    change = board.workspace.commit(tasks.claim, SPACE, "for")
    board.plan(*ONE)
    assert (change.withdrawn, cancel(board, "a").withdrawn) == (None, None)


def test_where_nothing_runs_nothing_is_given_out_or_said(board: Board) -> None:
    board.plan(*ONE)
    board.claim("alice", "a")
    author = board.workspace.attempt("alice")
    before = board.said()
    board.workspace.commit(stop_workflow, SPACE, "stopped", 0)
    board.workspace.commit(tasks.instruction_over, int(author.instruction[1:]), "done")
    assert (board.workspace.commit(tasks.give_out, SPACE), board.said()) == ([], before)


def test_a_step_is_made_from_the_state_that_was_read(board: Board) -> None:
    board.plan(*ONE)
    row = present(store_tasks.find(board.workspace.conn, SPACE, "a"))

    def step(by: str) -> bool:
        change = store_tasks.TaskChange(step="claim", by=by, holder=by)
        return bool(board.workspace.commit(store_tasks.make_step, row, change))

    assert (step("bob"), step("carol"), board.holder("a")) == (True, False, "bob")


@pytest.mark.parametrize(
    ("who", "key", "code"),
    [
        ("alice", "hers", None),
        ("carol", "hers", None),
        ("bob", "hers", "forbidden"),
        (USER, "hers", None),
        ("bob", "held", None),
        ("alice", "held", "conflict"),
        (USER, "held", None),
        ("alice", "over", "conflict"),
    ],
)
def test_a_task_is_split_by_whose_it_is(board: Board, who: str, key: str, code: str | None) -> None:
    board.plan(TaskSpec(key="hers", title="Hers", for_="carol"), *(TaskSpec(key=k, title=k) for k in ("held", "over")),
               who="alice")  # fmt: skip
    board.claim("bob", "held")
    cancel(board, "over")

    def split() -> Any:
        author = board.workspace.author(who)
        return board.workspace.commit(tasks.split, SPACE, key, (TaskSpec(title="part"),), author=author)

    if code is None:
        assert split().tasks == ("t4",)
        assert (board.states()[key], board.states()["t4"]) == ("open", "ready")
    else:
        assert refused(split).code == code


def test_a_task_is_not_given_out_while_queued_work_needs_its_files(board: Board) -> None:
    """Only once that has ended."""
    for key, name, files in (("a", "carol", "src/**"), ("b", "bob", "src/a.py")):
        board.plan(TaskSpec(key=key, title=key, for_=name, files=(files,)))
    assert (board.states(), board.work_of("a") is None, board.work_of("b")) == (
        {"a": "ready", "b": "ready"},
        False,
        None,
    )
    board.end_work("carol")
    board.done("carol", "a")
    assert board.work_of("b") is not None


def test_a_split_task_is_given_out_again_after_its_parts(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A", for_="bob"))
    board.end_work("bob")
    board.end_work("bob")
    part = (TaskSpec(key="p", title="Part"),)
    board.workspace.commit(tasks.split, SPACE, "a", part, author=board.workspace.author("bob"))
    assert board.work_of("a") is None
    board.done(USER, "p")
    assert board.work_of("a") is not None


def test_a_task_for_one_who_left_or_whose_files_another_changes_is_not_given(board: Board) -> None:
    conn = board.workspace.conn
    board.plan(TaskSpec(key="held", title="Held", files=("src/**",)))
    board.claim("alice", "held")
    for key, fields in (("same", {"files": ("src/a.py",)}), ("other", {"files": ("docs/**",)}), ("none", {})):
        board.plan(TaskSpec(key=key, title=key, for_="bob", **fields))  # type: ignore[arg-type]
    assert [board.work_of(key) is None for key in ("same", "other", "none")] == [True, False, False]
    conn.execute("DELETE FROM members WHERE name = 'carol'")
    row = present(store_tasks.find(conn, SPACE, "none"))
    for name, may in (("bob", True), ("carol", False)):
        board.workspace.commit(store_tasks.set_for, row, name)
        assert board.workspace.commit(task_work.may_be_given, present(store_tasks.find(conn, SPACE, "none"))) == may
    assert not board.workspace.commit(task_work.may_be_given, msgspec.structs.replace(row, for_name=None))


def test_a_full_list_takes_no_more_until_some_are_over(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_work, "MOST_OPEN", 2)
    elsewhere(board, *ONE, TaskSpec(title="more"))
    board.plan(*ONE, TaskSpec(title="more"))
    assert refused(lambda: board.plan(TaskSpec(title="one more"))).code == "conflict"
    cancel(board, "a")
    board.plan(TaskSpec(title="one more"))
    assert refused(lambda: board.plan(TaskSpec(title="and one"))).code == "conflict"


def test_what_is_on_its_way_is_not_given_again_and_a_next_run_gives_its_own_anew(board: Board) -> None:
    name = given(board, "bob")
    elsewhere(board, TaskSpec(key="for", title="For one", for_="alice"))
    conn = board.workspace.conn
    assert board.workspace.commit(tasks.give_out, SPACE) == []
    conn.execute("UPDATE instructions SET state = 'cancelled', ended_ms = 1 WHERE id = ?", (int(name[1:]),))
    assert board.workspace.commit(tasks.give_out, SPACE) == []
    board.workspace.commit(tasks.give_out_again, OTHER)
    assert board.work_of("for") == name
    theirs = store_tasks.find(conn, OTHER, "for")
    board.workspace.commit(tasks.give_out_again, SPACE)
    assert (board.work_of("for") != name, store_tasks.find(conn, OTHER, "for")) == (True, theirs)


@pytest.mark.parametrize("held", [True, False])
def test_a_task_of_a_rule_is_given_once_its_files_are_free(board: Board, *, held: bool) -> None:
    if held:
        board.plan(TaskSpec(key="held", title="Held", files=("src/**",)))
        board.claim("alice", "held")
    task = {"task": {"title": "part", "for": "bob", "files": ["src/a.py"]}}
    rule = msgspec.convert({"name": "one", "when": {"said": {"matches": "^go$"}}, "then": [task]}, RuleSpec)
    board.workspace.commit(rules.define, SPACE, rule)
    board.workspace.commit(append, Draft(kind="said", space=SPACE, sender=USER, text="go"))
    name = "t2" if held else "t1"
    assert (board[name].title, board.work_of(name) is None) == ("part", held)


@pytest.mark.parametrize(("times", "reason", "is_said"), [(0, "why", False), (1, "", False), (1, "why", True)])
def test_work_that_is_given_again_says_why_it_was_left(board: Board, times: int, reason: str, *, is_said: bool) -> None:
    board.plan(*ONE)
    row = present(store_tasks.find(board.workspace.conn, SPACE, "a"))
    text = task_work.work_text(msgspec.structs.replace(row, given_out=times, reason=reason))
    assert ("assigned to you again" in text) == is_said
