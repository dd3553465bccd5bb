"""Tasks of a workspace on a real store: who may do what, what follows, and what a dead agent holds."""

from collections.abc import Callable

import msgspec
import pytest

from kernel.policy.needs import needs
from kernel.policy.tasks import TRANSITIONS
from kernel.store import task_views
from kernel.store import tasks as store_tasks
from kernel.store.needs import snapshot
from kernel.store.rows import RowPage
from kernel.store.transitions import tasks
from kernel.store.transitions.clear import clear
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.runs import stop_workflow
from kernel.store.work_notes import handed_over, left_with, write_handover
from protocol.api.approvals import Need
from protocol.api.instructions import Handover
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import InstructionId
from protocol.tasks import TaskInfo, TaskSpec
from protocol.voting import Option
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace, asked
from tests.kernel.store.task_graphs import trial

SAID = "SELECT sender || ': ' || text FROM messages WHERE space = ? AND text LIKE '[TASK%' ORDER BY seq"
CRASH = Requeue(status="queued", outcome="crash", cause="crash", charge="crash")


class Board:
    """The tasks of a workspace, and short ways to act on them."""

    def __init__(self, workspace: BusyWorkspace) -> None:
        self.workspace = workspace

    def plan(self, *specs: TaskSpec, who: str = USER, key: str | None = None) -> dict[str, str]:
        return self.workspace.commit(tasks.plan, SPACE, specs, author=self.workspace.author(who, key)).ids

    def claim(self, who: str, name: str) -> TaskInfo:
        return self.workspace.commit(tasks.claim, SPACE, name, author=self.workspace.author(who)).task

    def done(self, who: str, name: str, result: str = "") -> tasks.TaskChanged:
        return self.workspace.commit(tasks.finish, SPACE, name, result, author=self.workspace.author(who))

    def fail(self, who: str, name: str) -> tasks.TaskChanged:
        return self.workspace.commit(tasks.fail, SPACE, name, "it broke", author=self.workspace.author(who))

    def end_work(self, who: str) -> None:
        """Its instruction ends well, and it begins with the next."""
        self.workspace.close(who, "done with it")
        self.workspace.take_all()

    def hand_over(self, who: str, done: str) -> None:
        self.workspace.commit(write_handover, Handover(done=done, next="the rest"), self.workspace.attempt(who))

    def given(self, who: str) -> str | None:
        """The words that it begins with of who was at its task before."""
        found = handed_over(self.workspace.conn, self.workspace.attempt(who).instruction)
        return None if found is None else found.done

    def left_with(self, name: str) -> str | None:
        found = left_with(self.workspace.conn, SPACE, self[name].id)
        return None if found is None else found.done

    def crash(self, who: str) -> InstructionId:
        return self.workspace.requeue(who, CRASH).instruction

    def __getitem__(self, name: str) -> TaskInfo:
        found = store_tasks.find(self.workspace.conn, SPACE, name)
        assert found is not None, name
        return task_views.info(found)

    def holder(self, name: str) -> str | None:
        return self[name].holder

    def whose(self, name: str) -> str | None:
        return self[name].for_

    def work_of(self, name: str) -> str | None:
        return self[name].instruction

    def states(self) -> dict[str, str]:
        found = task_views.listed(self.workspace.conn, SPACE, RowPage())
        return {one.key or one.id: one.state for one in found.tasks}

    def said(self) -> list[str]:
        return [str(text) for (text,) in self.workspace.conn.execute(SAID, (SPACE,))]

    def needs(self) -> dict[str, Need]:
        found = needs(snapshot(self.workspace.conn, self.workspace.now_ms))
        return {one.id: one for one in found if one.kind == "task"}


@pytest.fixture
def board(workspace: BusyWorkspace) -> Board:
    return Board(workspace)


def refused(act: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value


CHAIN = (TaskSpec(key="a", title="First"), TaskSpec(key="b", title="Second", needs=("a",)))


@pytest.mark.promise("P39")
def test_a_task_is_ready_once_what_it_needs_is_done_and_the_channel_says_so(board: Board) -> None:
    assert board.plan(*CHAIN, who="alice") == {"a": "t1", "b": "t2"}
    assert board.states() == {"a": "ready", "b": "open"}
    assert board["t2"].blocked_by == ("t1",)
    assert board["t1"].blocks == ("t2",)
    assert board.claim("bob", "a").holder == "bob"
    assert refused(lambda: board.claim("carol", "t1")).text == "t1 is claimed by bob"
    assert refused(lambda: board.claim("carol", "t2")).text == "t2 waits for t1"
    assert refused(lambda: board.done("carol", "t1")).code == "conflict"
    board.done("bob", "t1", "made it")
    assert board.states() == {"a": "done", "b": "ready"}
    assert board["t1"].result == "made it"
    assert board.said() == [
        "alice: [TASKS] planned, 2:\n- t1 First\n- t2 Second (after t1)",
        "bob: [TASK:t1] claimed: First",
        "bob: [TASK:t1] done: First\nmade it\nReady now: t2",
    ]
    assert refused(lambda: board.done("bob", "t1")).text == "t1 is done"


@pytest.mark.promise("P39")
def test_a_plan_with_a_circle_or_an_unknown_name_stores_nothing(board: Board) -> None:
    circle = (TaskSpec(key="a", title="A", needs=("b",)), TaskSpec(key="b", title="B", needs=("a",)))
    assert refused(lambda: board.plan(*circle)).text == "tasks depend on each other: a -> b -> a"
    assert refused(lambda: board.plan(TaskSpec(title="x", needs=("zzz",)))).code == "not_found"
    assert refused(lambda: board.plan(TaskSpec(title="x", for_="zoe"))).code == "bad_request"
    assert board.states() == {}
    board.plan(*CHAIN)
    board.claim("bob", "a")
    bob = board.workspace.author("bob")
    part = (TaskSpec(key="p", title="Part", needs=("b",)),)
    caught = refused(lambda: board.workspace.commit(tasks.split, SPACE, "a", part, author=bob))
    assert "p" in caught.text and "t1" in caught.text and "t2" in caught.text
    assert board.states() == {"a": "claimed", "b": "open"}


@pytest.mark.promise("P40")
def test_a_dead_attempt_holds_nothing_and_takes_it_again_unless_another_was_faster(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A"), TaskSpec(key="b", title="B"))
    board.claim("bob", "a")
    board.claim("bob", "b")
    board.crash("bob")
    assert board.states() == {"a": "ready", "b": "ready"}
    assert board.holder("a") is None
    board.claim("carol", "a")
    board.workspace.take_all()
    assert (board.holder("a"), board.holder("b")) == ("carol", "bob")
    board.done("bob", "b")
    board.workspace.restart()
    assert board.holder("a") == "carol"
    board.done("carol", "a")


@pytest.mark.promise("P40")
def test_an_attempt_that_only_waits_keeps_what_it_holds(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A"))
    board.claim("bob", "a")
    before = board.workspace.requeue("bob", Requeue(status="yielded", outcome="yielded"))
    assert board.holder("a") == "bob"
    board.workspace.take_all()
    caught = refused(lambda: board.workspace.commit(tasks.finish, SPACE, "a", author=before))
    assert caught.code == "stale_attempt"
    assert board.done("bob", "a").task.state == "done"


@pytest.mark.promise("P39")
def test_a_ready_task_for_an_agent_becomes_its_work_and_is_given_once_more_if_left(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A", text="All of it.", for_="bob"), who="alice")
    assert board.states() == {"a": "ready"}
    board.end_work("bob")
    assert board.holder("a") == "bob", "he was given it, and is at it"
    board.end_work("bob")
    assert board.holder("a") == "bob", "said neither done nor fail: once more"
    board.end_work("bob")
    assert board["a"].state == "ready"
    assert board.holder("a") is None
    need = board.needs()["t1"]
    assert [one.command for one in need.actions] == ["awk task done @review t1", "awk task cancel @review t1"]
    board.done(USER, "t1")
    assert board.needs() == {}


@pytest.mark.promise("P42")
def test_a_hand_over_reaches_whoever_takes_up_the_task_next(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A", for_="bob"), TaskSpec(key="other", title="B", for_="carol"))
    board.end_work("bob")
    board.end_work("carol")
    assert (board.holder("a"), board.holder("other")) == ("bob", "carol")
    assert board.given("bob") is None
    board.hand_over("bob", "half")
    assert board.left_with("a") is None, "it is his own"
    before = board.workspace.author("bob")
    board.end_work("bob")
    assert board.workspace.author("bob") != before
    assert board.holder("a") == "bob"
    assert (board.given("bob"), board.given("carol")) == ("half", None)
    board.end_work("bob")
    board.workspace.commit(tasks.assign_tasks, SPACE, {"a": "carol"}, "p1")
    board.end_work("carol")
    while board.holder("a") != "carol":
        board.end_work("carol")
    assert (board.given("carol"), board.left_with("a")) == ("half", "half")
    board.hand_over("carol", "more of it")
    assert (board.given("carol"), board.left_with("a")) == ("more of it", None)
    board.plan(TaskSpec(key="free", title="C"))
    board.claim("alice", "free")
    board.hand_over("alice", "a third")
    board.crash("alice")
    board.claim("bob", "free")
    assert board.left_with("free") == "a third"


@pytest.mark.promise("P39")
@pytest.mark.parametrize(("own", "expected"), [(None, "open"), ("skip", "ready"), ("cancel", "cancelled")])
def test_what_needs_a_failed_task_is_held_goes_on_or_is_cancelled(board: Board, own: str | None, expected: str) -> None:
    board.plan(CHAIN[0], TaskSpec(key="b", title="B", needs=("a",), on_failure=own))  # type: ignore[arg-type]
    board.claim("bob", "a")
    board.fail("bob", "a")
    assert board.states() == {"a": "failed", "b": expected}
    if own is not None:
        return
    need = board.needs()["t2"]
    assert [one.command for one in need.actions] == ["awk task done @review t1", "awk task cancel @review t2"]
    board.done(USER, "t1")
    assert board.states() == {"a": "done", "b": "ready"}


@pytest.mark.promise("P39")
def test_one_that_nobody_claims_needs_a_person_after_a_while_unless_somebody_is_at_work(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A"))
    board.workspace.now_ms += 61_000
    assert board.needs() == {}
    for who in ("alice", "bob", "carol"):
        board.workspace.close(who)
    assert list(board.needs()) == ["t1"]


@pytest.mark.promise("P39")
def test_a_split_task_waits_for_its_parts_and_is_ready_again_after_them(board: Board) -> None:
    board.plan(*CHAIN)
    board.claim("bob", "a")
    bob = board.workspace.author("bob")
    parts = (TaskSpec(key="p", title="P"), TaskSpec(key="q", title="Q", needs=("p",)))
    board.workspace.commit(tasks.split, SPACE, "a", parts, author=bob)
    assert board.states() == {"a": "open", "b": "open", "p": "ready", "q": "open"}
    assert board["p"].parent == "t1"
    for name in ("p", "q", "a", "b"):
        board.claim("carol", name)
        board.done("carol", name)
    assert set(board.states().values()) == {"done"}


@pytest.mark.promise("P40")
def test_files_of_a_claimed_task_keep_others_from_claiming_what_changes_them_too(board: Board) -> None:
    board.plan(
        TaskSpec(key="a", title="A", files=("src/**",)),
        TaskSpec(key="b", title="B", files=("src/x.py",)),
        TaskSpec(key="c", title="C", files=("docs/**",)),
    )
    board.claim("bob", "a")
    assert "bob holds with t1" in refused(lambda: board.claim("carol", "b")).text
    board.claim("carol", "c")
    board.plan(TaskSpec(key="d", title="D", files=("src/d.py",), for_="carol"))
    assert board.work_of("d") is None
    board.done("bob", "a")
    assert board.work_of("d") is not None
    assert board.claim("bob", "b").holder == "bob"


def test_a_call_that_is_made_again_plans_nothing_twice(board: Board) -> None:
    first = board.plan(*CHAIN, who="bob", key="k1")
    assert board.plan(*CHAIN, who="bob", key="k1") == first
    assert len(board.states()) == 2


def test_the_task_that_was_worked_on_is_where_another_was_found(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A"))
    board.claim("bob", "a")
    board.plan(TaskSpec(key="b", title="B", parent="a"), who="bob")
    assert (board["b"].found_in, board["b"].parent) == ("t1", "t1")
    assert board["b"].state == "ready", "a parent blocks nothing"


def test_a_person_who_ends_a_task_takes_back_the_work_that_nobody_has_begun(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A", for_="bob"))
    changed = board.workspace.commit(tasks.cancel_task, SPACE, "a")
    assert changed.withdrawn == board.work_of("a")
    board.plan(TaskSpec(key="b", title="B"))
    board.claim("bob", "b")
    assert board.workspace.commit(tasks.cancel_task, SPACE, "b").withdrawn is None
    assert refused(lambda: board.done("bob", "b")).text == "t2 is cancelled"


@pytest.mark.promise("P39")
def test_a_binding_assignment_gives_tasks_to_who_chose_them_first(board: Board) -> None:
    """In the commit that ends the vote; only what nobody is at can be voted on."""
    board.plan(TaskSpec(key="a", title="A"), TaskSpec(key="b", title="B", needs=("a",)))
    terms = msgspec.structs.replace(
        asked("assignment"), binding=True, options=(Option(id="a"), Option(id="t2")), id="who"
    )
    wrong = msgspec.structs.replace(terms, options=(Option(id="a"), Option(id="t9")), id="other")
    assert "an assignment of unclaimed tasks" in str(refused(lambda: board.workspace.create("alice", wrong)).hint)
    board.workspace.create("alice", terms)
    board.workspace.vote("bob", "who", "t2")
    board.workspace.vote("carol", "who", "a")
    assert board.whose("a") is None
    board.workspace.vote("alice", "who", "a")
    assert (board.whose("a"), board.whose("b")) == ("carol", "bob")
    assert board.said()[-2] == "system: [TASKS] given by the vote who: t1 to carol, t2 to bob"
    assert board.work_of("a") is not None
    assert refused(lambda: board.claim("alice", "a")).code == "forbidden"


def test_each_list_has_what_its_filters_ask_for_and_its_total_counts_all_of_it(board: Board) -> None:
    board.plan(*(TaskSpec(key=f"k{n}", title="t", for_="bob" if n == 3 else None) for n in range(8)))
    board.plan(TaskSpec(key="later", title="t", needs=("k7",)), TaskSpec(key="own", title="t", for_="alice"))
    board.plan(TaskSpec(key="lost", title="t"))
    for name in ("k0", "k1", "k3", "own"):
        board.workspace.commit(tasks.finish, SPACE, name)
    board.claim("bob", "k2")
    board.claim("alice", "k4")
    board.fail("alice", "k4")
    board.workspace.commit(tasks.cancel_task, SPACE, "lost")
    conn = board.workspace.conn
    everything = task_views.listed(conn, SPACE, RowPage()).tasks
    assert {one.state for one in everything} == {"open", "ready", "claimed", "done", "failed", "cancelled"}
    for state in (None, *TRANSITIONS):
        for who in (None, "alice", "bob", "carol"):
            wanted = [
                one.id for one in everything if state in (None, one.state) and who in (None, one.for_, one.holder)
            ]
            found = task_views.listed(conn, SPACE, RowPage(2), state=state, name=who)
            rest = RowPage(50, int(wanted[1][1:])) if len(wanted) > 2 else RowPage(50, 99)
            more = task_views.listed(conn, SPACE, rest, state=state, name=who)
            assert [one.id for one in (*found.tasks, *more.tasks)] == wanted, (state, who)
            assert found.total == more.total == len(wanted), (state, who)


def test_what_is_removed_leaves_no_word_of_its_tasks(board: Board) -> None:
    board.plan(TaskSpec(key="secretkey", title="secrettitle", text="secrettext", check="secretcheck"))
    board.workspace.commit(stop_workflow, SPACE, "stopped", 0)
    board.workspace.commit(clear, SPACE)
    assert task_views.listed(board.workspace.conn, SPACE, RowPage()).total == 0
    dump = "".join(str(row) for row in board.workspace.conn.execute("SELECT * FROM events"))
    assert "secret" not in dump + "".join(board.said())


def test_a_stopped_workflow_gives_nothing_out_and_needs_nobody(board: Board) -> None:
    board.plan(TaskSpec(key="a", title="A"), TaskSpec(key="b", title="B", for_="bob"))
    board.claim("carol", "a")
    board.workspace.commit(stop_workflow, SPACE, "stopped", 0)
    assert board.states() == {"a": "ready", "b": "ready"}
    assert board.needs() == {}
    assert refused(lambda: board.plan(*CHAIN)).code == "workflow_not_running"


@pytest.mark.promise("P39")
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_go_as_a_plain_scheduler_says(seed: int) -> None:
    """With failures, splits, crashes and kills; ``scripts/soak tasks`` tries 10,000."""
    trial(seed)
