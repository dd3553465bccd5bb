"""task list, show, add, done, cancel, graph: what is to be done in a workflow, and a person's say in it."""

import msgspec

from protocol.api.processes import Ps, PsTask
from protocol.tasks import TaskInfo, TaskList, TasksPlanned, document
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble, problem
from tests.interface.samples import AT, ps_row

HERE = "/spaces/review:main/tasks"


def task(id: str, **more: object) -> TaskInfo:
    made = TaskInfo(
        id=id, space="review:main", title=f"Do {id}", state="ready", blocked_by=(), blocks=(), found_in=None,
        creator="alice", created_at=AT, ready_at=AT, holder=None, instruction=None, claimed_at=None, result="",
        reason="", ended_at=None, ended_by=None, on_failure="hold",
    )  # fmt: skip
    return msgspec.structs.replace(made, **more)


DONE = task("t1", state="done", ended_at=AT, ended_by="bob", result="It works.\nReally.", blocks=("t2", "t3"))
CLAIMED = task("t2", state="claimed", needs=("t1",), holder="bob", claimed_at=AT, instruction="i7", blocks=("t4",))
WAITING = task("t3", state="open", needs=("t1", "t2"), blocked_by=("t2",), for_="carol")
ALONE = task("t4", key="docs", files=("docs/**",), check="make docs")


def test_tasks_are_listed_with_whose_they_are_and_what_they_wait_for(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"GET {HERE}"] = TaskList(tasks=(DONE, CLAIMED, WAITING, ALONE), total=4)
    assert cli("task", "list", "@review").out.splitlines() == [
        "ID  STATE    AGENT  WAITS FOR  TITLE",
        "t1  done     -      -          Do t1",
        "t2  claimed  bob    -          Do t2",
        "t3  open     carol  t2         Do t3",
        "t4  ready    -      -          Do t4",
    ]
    cli("task", "list", "@review", "--state", "open", "--for", "carol")
    assert {"state": "open", "for": "carol"}.items() <= kernel.of("GET", HERE)[-1].query.items()
    assert cli("task", "list", "@review", "--json").json()["schema"] == "awk/task-list/1"
    kernel.answers[f"GET {HERE}"] = TaskList(tasks=())
    assert cli("task", "list", "@review").out == "no tasks\n"


def test_the_graph_has_each_task_once_under_what_it_waits_for(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"GET {HERE}"] = TaskList(tasks=(DONE, CLAIMED, WAITING, ALONE), total=4)
    assert cli("task", "graph", "@review").out.splitlines() == [
        "t1 done Do t1",
        "  t2 claimed Do t2 (@bob)",
        "    t3 open Do t3 (@carol; waits for t2; also needs t1)",
        "t4 ready Do t4",
    ]


def test_one_is_shown_with_all_that_is_known_of_it(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"GET {HERE}/docs"] = document(ALONE)
    assert cli("task", "show", "@review", "docs").out.splitlines() == [
        "t4 (docs): Do t4",
        "state: ready",
        "files: docs/**",
        "check: make docs",
        "on failure: hold",
        f"planned by: alice, {AT}",
    ]
    kernel.answers[f"GET {HERE}/t1"] = document(DONE)
    assert cli("task", "show", "@review", "t1").out.endswith("\n\n  It works.\n  Really.\n")
    shown = cli("task", "show", "@review", "t1", "--json").json()
    assert (next(iter(shown)), shown["schema"], shown["state"]) == ("schema", "awk/task/1", "done")


def test_a_person_adds_a_task_and_ends_several(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"POST {HERE}"] = TasksPlanned(space="review:main", ids={"x": "t5"}, tasks=("t5",))
    ran = cli("task", "add", "@review", "Write it", "--key", "x", "--needs", "t1", "--needs", "docs", "--check", "make")
    assert ran.out == "t5: planned\n"
    assert kernel.of("POST", HERE)[-1].body == {
        "tasks": [{"title": "Write it", "key": "x", "needs": ["t1", "docs"], "check": "make"}]
    }
    kernel.answers[f"POST {HERE}/t1/done"] = document(DONE)
    kernel.answers[f"POST {HERE}/t2/done"] = problem(409, "conflict", "t2 is cancelled")
    ran = cli("task", "done", "@review", "t1", "t2", "--result", "by hand")
    assert (ran.out, "t2 is cancelled" in ran.err, ran.code != 0) == ("t1: done\n", True, True)
    assert kernel.of("POST", f"{HERE}/t1/done")[-1].body == {"result": "by hand"}
    for verb in ("claim", "fail"):
        kernel.answers[f"POST {HERE}/t2/{verb}"] = document(CLAIMED)
        assert cli("task", verb, "@review", "t2").out == "t2: claimed\n"
    assert cli("task", "fail", "@review", "t2", "--reason", "no key").code == 0
    assert kernel.of("POST", f"{HERE}/t2/fail")[-1].body == {"reason": "no key"}
    kernel.answers[f"POST {HERE}/t4/cancel"] = document(msgspec.structs.replace(ALONE, state="cancelled"))
    assert cli("task", "cancel", "@review", "t4", "--json").json()["schema"] == "awk/tasks/1"


def test_ps_says_who_is_at_what_and_what_waits_for_what(cli: Cli, kernel: KernelDouble) -> None:
    own = (
        PsTask(id="t3", title="x", state="claimed"),
        PsTask(id="t5", title="x", state="open", blocked_by=("t3", "t4")),
        PsTask(id="t6", title="x", state="ready"),
        PsTask(id="t7", title="x", state="ready"),
    )
    kernel.answers["GET /ps"] = Ps(agents=(ps_row(tasks=own), ps_row("bob")))
    assert cli("ps", "-o", "name,tasks").out.splitlines() == [
        "NAME               TASKS",
        "alice@review:main  t3 claimed, t5 after t3,t4, t6 ready, 1 more",
        "bob@review:main    -",
    ]
