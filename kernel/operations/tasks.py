"""Tasks of a space: plan, list, claim, end and split, for people and agents.

A check that an agent plans is a command that the kernel runs. Only an agent that may run commands without approval can
plan one. It runs with the restrictions of that agent and of the agent whose work it checks.
"""

from typing import Annotated

import apsw
import msgspec

from kernel.agents.providers import MOCK
from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess, own_definition
from kernel.operations.operation import Actor, CommandFront, ForwardInSpace, InSpace, ToolFront, operation, page_of
from kernel.policy.tasks import covers
from kernel.store import approvals, instructions, task_views, tasks, work_notes
from kernel.store.transaction import Transaction
from kernel.store.transitions import tasks as transitions
from kernel.store.transitions.close import close_cancelled
from kernel.store.transitions.tasks import TaskChanged
from protocol.api.instructions import Handover
from protocol.errors import Refused
from protocol.names import place_of
from protocol.tasks import (
    PLANNED_AT_ONCE,
    RESULT_CHARACTERS,
    TaskDocument,
    TaskInfo,
    TaskList,
    TaskSpec,
    TasksPlanned,
    TaskState,
    document,
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Id of the task (t3), or its key.")]
Specs = Annotated[
    tuple[TaskSpec, ...],
    msgspec.Meta(
        min_length=1,
        max_length=PLANNED_AT_ONCE,
        description="key: a name to refer to the task; needs: dependencies, as keys or ids; for: the member who is "
        "assigned the task when it is ready, by default the first who claims it; parent: the task of which it is a "
        "part; files: globs that no other member changes while the task is claimed; check: a command that has to exit "
        "with 0 before the task is done; on_failure: effect of a failed dependency (hold: wait for a person, skip: "
        "start without it, cancel: cancel the task).",
    ),
]
Words = Annotated[str, msgspec.Meta(max_length=RESULT_CHARACTERS, description="Text, visible to all members.")]


class TaskPlanRequest(InSpace, frozen=True, kw_only=True):
    """Tasks to plan."""

    tasks: Specs


class TasksRequest(ForwardInSpace, frozen=True, kw_only=True):
    """Filter of tasks."""

    state: Annotated[TaskState, msgspec.Meta(description="State of the tasks.")] | None = None
    for_: (
        Annotated[str, msgspec.Meta(max_length=64, description="Only tasks assigned to this member, or claimed by it.")]
        | None
    ) = msgspec.field(default=None, name="for")
    path: (
        Annotated[str, msgspec.Meta(max_length=4096, description="Only claimed tasks whose files include this path.")]
        | None
    ) = None


class TaskRequest(InSpace, frozen=True, kw_only=True):
    """Request that names a task."""

    task: Name = msgspec.field(name="id")


class TaskDoneRequest(TaskRequest, frozen=True, kw_only=True):
    """Result of a task."""

    result: Words = ""


class TaskEndRequest(TaskRequest, frozen=True, kw_only=True):
    """Reason for the end of a task."""

    reason: Words = ""


class TaskSplitRequest(TaskRequest, frozen=True, kw_only=True):
    """Parts of a task."""

    tasks: Specs


class TaskPlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of the planned tasks: by key, and in the order of the request."""

    ids: dict[str, str]
    tasks: tuple[str, ...]
    message_id: str
    note: str


class TaskListResult(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a workspace, in the order of their ids."""

    space: str
    tasks: tuple[TaskInfo, ...]
    total: int
    next: str | None


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """Task after the change. ``output`` is the end of a failed check's output.

    ``handover`` contains notes of earlier assignees.
    """

    task: TaskInfo
    message_id: str
    note: str
    output: str = ""
    handover: Handover | None = None


async def plan(
    asked: TaskPlanRequest, actor: Actor, store: StoreAccess, files: ProjectFiles
) -> TasksPlanned | TaskPlanResult:
    """Plan tasks with dependencies. A task with the field for is assigned to that member as soon as its
    dependencies are done; the others can be claimed. Returns the ids of the tasks."""
    confined = _confined(actor, asked.tasks, store, files)

    def change(tx: Transaction) -> TasksPlanned | TaskPlanResult:
        planned = transitions.plan(tx, asked.space, asked.tasks, author=actor.author, confined=confined)
        if actor.identity is not None:
            return _planned(planned)
        return TasksPlanned(space=place_of(asked.space), ids=planned.ids, tasks=planned.tasks)

    return await store.writer.commit(change)


def list_tasks(conn: apsw.Connection, asked: TasksRequest, actor: Actor) -> TaskList | TaskListResult:
    """List the tasks of your team with state, assignee and dependencies. Use it to find a task to claim."""
    if asked.path is None:
        found = task_views.listed(conn, asked.space, page_of(asked, "t"), state=asked.state, name=asked.for_)
    else:
        held = [one.id for one in tasks.claims(conn, asked.space) if covers(one.files, asked.path)]
        shown = tuple(task_views.info(row) for name in held if (row := tasks.find(conn, asked.space, name)) is not None)
        found = TaskList(tasks=shown, total=len(shown))
    if actor.identity is None:
        return found
    return TaskListResult(space=place_of(asked.space), tasks=found.tasks, total=found.total, next=found.next)


def show_task(conn: apsw.Connection, asked: TaskRequest) -> TaskDocument:
    """Return one task, by its id or its key."""
    found = tasks.find(conn, asked.space, asked.task)
    if found is None:
        text = f"{place_of(asked.space)} has no task {asked.task[:40]!r}"
        raise Refused("not_found", text, "list the tasks with `awk task list`")
    return document(task_views.info(found))


def claim(tx: Transaction, asked: TaskRequest, actor: Actor) -> TaskDocument | TaskResult:
    """Claim a ready task, so that no other member works on it. Finish it with team_task_done or team_task_fail. Fails
    if the task is not ready or is claimed."""
    changed = transitions.claim(tx, asked.space, asked.task, author=actor.author)
    checks = f"; {changed.task.check!r} has to exit with 0 before the task is done" if changed.task.check else ""
    left = work_notes.left_with(tx.conn, asked.space, changed.task.id)
    return _changed(tx, actor, changed, f"you hold it until team_task_done or team_task_fail{checks}", left)


async def finish(
    asked: TaskDoneRequest, actor: Actor, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> TaskDocument | TaskResult:
    """Mark a task that you hold as done, with its result. If the task has a check, the check runs first and must pass;
    otherwise you still hold the task, and receive the output of the check.

    A person may end any task in this way, without a check.
    """
    identity = actor.identity
    row = None if identity is None else store.reader.now(tasks.find, asked.space, asked.task)
    if (
        identity is not None
        and row is not None
        and row.command is not None
        and transitions.is_holder(row, identity.name, actor.author)
    ):
        definition = own_definition(actor.agent, store, files)
        with processes.attempts.hold(identity.instruction):
            outcome = await files.worktrees.checks.check(
                identity,
                row.command,
                definition.limits,
                task=row.id,
                confined=row.confined or definition.sandbox != "off",
            )
        if outcome.why is not None:
            note = f"it is not done: {outcome.why}. You still hold the task: fix it, and call team_task_done again"
            return TaskResult(task=task_views.info(row), message_id="", note=note, output=outcome.output)

    def change(tx: Transaction) -> TaskDocument | TaskResult:
        changed = transitions.finish(tx, asked.space, asked.task, asked.result, author=actor.author)
        return _changed(tx, actor, changed, "it is done")

    return await store.writer.commit(change)


def fail(tx: Transaction, asked: TaskEndRequest, actor: Actor) -> TaskDocument | TaskResult:
    """Mark a task that you hold as failed, with the reason. Its dependents wait for a person unless they specify
    otherwise."""
    changed = transitions.fail(tx, asked.space, asked.task, asked.reason, author=actor.author)
    note = "the task has failed; its dependents wait for a person, unless on_failure specifies otherwise"
    return _changed(tx, actor, changed, note)


def cancel(tx: Transaction, asked: TaskEndRequest, actor: Actor) -> TaskDocument:
    """Cancel an unfinished task."""
    changed = transitions.cancel_task(tx, asked.space, asked.task, asked.reason)
    _withdraw(tx, changed)
    return document(changed.task)


async def split(asked: TaskSplitRequest, actor: Actor, store: StoreAccess, files: ProjectFiles) -> TaskPlanResult:
    """Split a task that you hold into parts that any member can claim. The task is ready again when the parts are done.
    Returns the ids of the parts."""
    confined, author = _confined(actor, asked.tasks, store, files), actor.author
    return _planned(
        await store.writer.commit(
            transitions.split, asked.space, asked.task, asked.tasks, author=author, confined=confined
        )
    )


def _planned(planned: transitions.Planned) -> TaskPlanResult:
    given = len(planned.instruction_ids)
    note = "tasks with for are assigned as soon as they are ready; the others can be claimed"
    return TaskPlanResult(
        ids=planned.ids,
        tasks=planned.tasks,
        message_id=planned.message_id,
        note=f"{given} assigned now; {note}" if given else note,
    )


def _changed(
    tx: Transaction, actor: Actor, changed: TaskChanged, note: str, left: Handover | None = None
) -> TaskDocument | TaskResult:
    if actor.identity is not None:
        return TaskResult(task=changed.task, message_id=changed.message_id, note=note, handover=left)
    _withdraw(tx, changed)
    return document(changed.task)


def _withdraw(tx: Transaction, changed: TaskChanged) -> None:
    work = None if changed.withdrawn is None else instructions.find(tx.conn, changed.withdrawn)
    if work is not None and work.state in ("queued", "yielded", "waiting"):
        close_cancelled(tx, work.number, work.epoch)


def _confined(actor: Actor, specs: tuple[TaskSpec, ...], store: StoreAccess, files: ProjectFiles) -> bool:
    """Return whether the checks in ``specs`` come from a sandboxed agent. Raises Refused (forbidden) if the agent's
    commands need approval."""
    if actor.identity is None or not _has_check(specs):
        return False
    definition = own_definition(actor.agent, store, files)
    policy = store.reader.now(approvals.of_run, actor.identity.instruction) or definition.approval
    runs_commands = definition.backend != "sdk" or "bash" in definition.tools
    # A mock script is the user's text, and its commands need no approval.
    is_script = MOCK in (definition.backend, definition.first_model.partition("/")[0])
    if not is_script and not (policy == "auto" and runs_commands):
        text = "a check is a command, and your commands need approval"
        hint = "describe in text how to verify the task; the user can add a check: awk task add --check"
        raise Refused("forbidden", text, hint)
    return definition.sandbox != "off"


def _has_check(specs: tuple[TaskSpec, ...]) -> bool:
    return any(one.check is not None for one in specs)


TASKS = "/spaces/<space>/tasks"
_IDS = "TASK... task ids (t3) or keys"
_ENDED = "ended_lines"
_CLAIM = CommandFront("task claim", "Claim tasks for yourself, so that no agent works on them", _ENDED, {"id": _IDS})
_DONE = CommandFront(
    "task done",
    "Mark tasks as done, so that their dependents can start",
    _ENDED,
    {"id": _IDS, "result": "TEXT result, visible to the members"},
)
_FAIL = CommandFront(
    "task fail", "Mark tasks as failed", _ENDED, {"id": _IDS, "reason": "TEXT reason, visible to the members"}
)
_CANCEL = CommandFront(
    "task cancel", "Cancel unfinished tasks", _ENDED, {"id": _IDS, "reason": "TEXT reason, visible to the members"}
)
OPERATIONS = (
    operation(
        plan,
        f"POST {TASKS}",
        status=201,
        trusts=lambda asked: _has_check(asked.tasks),
        team=ToolFront("team_task_plan", idempotent=False),
    ),
    operation(list_tasks, f"GET {TASKS}", team=ToolFront("team_task_list", limits=(50, 500))),
    operation(show_task, f"GET {TASKS}/<id>"),
    operation(claim, f"POST {TASKS}/<id>/claim", team=ToolFront("team_task_claim"), cli=_CLAIM),
    operation(finish, f"POST {TASKS}/<id>/done", team=ToolFront("team_task_done", waits=True), cli=_DONE),
    operation(fail, f"POST {TASKS}/<id>/fail", team=ToolFront("team_task_fail", needs=("reason",)), cli=_FAIL),
    operation(cancel, f"POST {TASKS}/<id>/cancel", cli=_CANCEL),
    operation(split, changes=True, team=ToolFront("team_task_split", idempotent=False)),
)
