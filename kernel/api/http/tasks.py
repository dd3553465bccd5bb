"""Tasks of a space: planned, listed, and ended by people."""

from collections.abc import Callable
from functools import partial
from typing import cast

from kernel.api.context import ProjectFiles, StoreAccess
from kernel.api.http.route import Request, page_of
from kernel.api.http.spaces import known_space
from kernel.store import instructions, task_views, tasks
from kernel.store.transaction import Transaction
from kernel.store.transitions import task_plans
from kernel.store.transitions import tasks as transitions
from kernel.store.transitions.close import close_cancelled
from kernel.store.transitions.tasks import Changed
from protocol.errors import Refused
from protocol.names import place_of
from protocol.tasks import (
    TaskDocument,
    TaskDoneRequest,
    TaskEndRequest,
    TaskList,
    TaskPlanRequest,
    TasksPlanned,
    TaskState,
    document,
)


async def list_tasks(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TaskList:
    """GET /spaces/:space/tasks?state=&for=&limit=&after=: in the order of their ids; for a member, or claimed by it."""
    space = known_space(store, files, call.args["space"])
    page = page_of(call, "after", "t")
    return await store.reader.read(
        task_views.listed,
        space,
        page,
        state=cast("TaskState | None", call.query.get("state")),
        name=call.query.get("for"),
    )


async def show_task(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TaskDocument:
    """GET /spaces/:space/tasks/:id: return one task, by its id or its key."""
    space, name = known_space(store, files, call.args["space"]), call.args["id"]
    found = await store.reader.read(tasks.find, space, name)
    if found is None:
        raise Refused("not_found", f"{place_of(space)} has no task {name[:40]!r}", "awk task list shows them")
    return document(task_views.info(found))


async def plan_tasks(call: Request[TaskPlanRequest], store: StoreAccess, files: ProjectFiles) -> TasksPlanned:
    """POST /spaces/:space/tasks: all of them, or none."""
    space, specs = known_space(store, files, call.args["space"]), call.body.tasks

    def change(tx: Transaction) -> TasksPlanned:
        planned = task_plans.plan(tx, space, specs)
        return TasksPlanned(space=place_of(space), ids=planned.ids, tasks=planned.tasks)

    return await store.writer.commit(change)


async def claim_task(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TaskDocument:
    """POST /spaces/:space/tasks/:id/claim, as the user: no agent does it then."""
    return await _change_task(store, files, call, transitions.claim)


async def finish_task(call: Request[TaskDoneRequest], store: StoreAccess, files: ProjectFiles) -> TaskDocument:
    """POST /spaces/:space/tasks/:id/done: complete a task, whoever has claimed it. No check is run."""
    return await _change_task(store, files, call, partial(transitions.finish, result=call.body.result))


async def fail_task(call: Request[TaskEndRequest], store: StoreAccess, files: ProjectFiles) -> TaskDocument:
    """POST /spaces/:space/tasks/:id/fail: mark a task as failed, whoever has claimed it."""
    return await _change_task(store, files, call, partial(transitions.fail, reason=call.body.reason))


async def cancel_task(call: Request[TaskEndRequest], store: StoreAccess, files: ProjectFiles) -> TaskDocument:
    """POST /spaces/:space/tasks/:id/cancel: cancel a task."""
    return await _change_task(store, files, call, partial(transitions.cancel_task, reason=call.body.reason))


async def _change_task(
    store: StoreAccess,
    files: ProjectFiles,
    call: Request[None] | Request[TaskDoneRequest] | Request[TaskEndRequest],
    step: Callable[[Transaction, str, str], Changed],
) -> TaskDocument:
    """Make ``step`` as the user; the work that the task was given out as, if that waits for its turn, is taken back."""
    space, name = known_space(store, files, call.args["space"]), call.args["id"]

    def change(tx: Transaction) -> TaskDocument:
        changed = step(tx, space, name)
        work = None if changed.withdrawn is None else instructions.find(tx.conn, changed.withdrawn)
        if work is not None and work.state in ("queued", "yielded", "waiting"):
            close_cancelled(tx, work.number, work.epoch)
        return document(changed.task)

    return await store.writer.commit(change)
