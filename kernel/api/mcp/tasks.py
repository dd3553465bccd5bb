"""Tools for tasks in a workspace: plan them, see them, claim one, say that it is done or cannot be, split it.

A check that an agent plans is a command that the kernel runs: it is taken from an agent that may run commands without
anybody being asked, and run as that agent is confined, and as the one whose work it checks.
"""

from typing import Annotated

import msgspec

from kernel.agents.providers import MOCK
from kernel.api.context import ProcessControl, ProjectFiles, StoreAccess
from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.policy.tasks import covers
from kernel.source.diagnostics import BadDefinition
from kernel.store import approvals, task_views, tasks, work_notes
from kernel.store.rows import Page
from kernel.store.transitions import task_plans
from kernel.store.transitions import tasks as transitions
from kernel.workflows.instruction_prompt import definition_for
from protocol.agent import AgentDefinition
from protocol.api.instructions import Handover
from protocol.errors import Refused
from protocol.names import number_of, place_of
from protocol.tasks import PLANNED_AT_ONCE, RESULT_CHARACTERS, TaskInfo, TaskSpec, TaskState

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="The id of the task (t3), or its key.")]
Specs = Annotated[
    tuple[TaskSpec, ...],
    msgspec.Meta(
        min_length=1,
        max_length=PLANNED_AT_ONCE,
        description="key: a name to refer to it by; needs: keys or ids of what has to be done before; for: the member "
        "who is given it once it is ready, without it whoever claims it; parent: what it is a part of; files: globs "
        "that nobody else changes while it is claimed; check: a command that has to end with 0 before it is done; "
        "on_failure: what becomes of it when one that it needs fails (hold, skip, cancel).",
    ),
]
Words = Annotated[str, msgspec.Meta(max_length=RESULT_CHARACTERS, description="Everybody reads it.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]


class TaskPlanArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_task_plan."""

    tasks: Specs


class TaskListArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_task_list."""

    state: TaskState | None = None
    for_: (
        Annotated[
            str, msgspec.Meta(max_length=64, description="Only those that are for this member, or claimed by it.")
        ]
        | None
    ) = msgspec.field(default=None, name="for")
    path: (
        Annotated[
            str, msgspec.Meta(max_length=4096, description="Only those that hold this file now: who may write it.")
        ]
        | None
    ) = None
    after: Annotated[str, msgspec.Meta(max_length=32, description="next of the page before.")] | None = None
    limit: Limit = 50


class TaskClaimArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_task_claim."""

    task: Name


class TaskDoneArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_task_done."""

    task: Name
    result: Words = ""


class TaskFailArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_task_fail."""

    task: Name
    reason: Annotated[Words, msgspec.Meta(min_length=1)]


class TaskSplitArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_task_split."""

    task: Name
    tasks: Specs


class TaskPlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """The planned tasks: ids by key, and in the order of the list."""

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
    """The task as it is now. ``output`` is the end of what its check printed, where that failed.

    ``handover`` was left by others who were at it before.
    """

    task: TaskInfo
    message_id: str
    note: str
    output: str = ""
    handover: Handover | None = None


async def team_task_plan(
    caller: Caller, asked: TaskPlanArguments, store: StoreAccess, files: ProjectFiles
) -> TaskPlanResult:
    """Plan tasks, all of them or none. A repeated call of the same key adds nothing."""
    planned = await store.writer.commit(
        task_plans.plan,
        caller.identity.space,
        asked.tasks,
        author=caller.author,
        call_key=caller.call_key,
        confined=_confined(caller, asked.tasks, store, files),
    )
    return _planned(planned)


async def team_task_list(caller: Caller, asked: TaskListArguments, store: StoreAccess) -> TaskListResult:
    """A page of tasks; with a path those that hold it."""
    space = caller.identity.space
    after = None if asked.after is None else number_of(asked.after, "t")
    if asked.path is not None:
        held = [one.id for one in store.reader.now(tasks.claims, space) if covers(one.files, asked.path)]
        found = tuple(
            task_views.info(row) for name in held if (row := store.reader.now(tasks.find, space, name)) is not None
        )
        return TaskListResult(space=place_of(space), tasks=found, total=len(found), next=None)
    page = Page(asked.limit, after)
    listed = await store.reader.read(task_views.listed, space, page, state=asked.state, name=asked.for_)
    return TaskListResult(space=place_of(space), tasks=listed.tasks, total=listed.total, next=listed.next)


async def team_task_claim(caller: Caller, asked: TaskClaimArguments, store: StoreAccess) -> TaskResult:
    """Claim a task for the calling attempt."""
    space = caller.identity.space
    changed = await store.writer.commit(transitions.claim, space, asked.task, author=caller.author)
    checks = f"; {changed.task.check!r} has to end with 0 then" if changed.task.check else ""
    result = _result(changed, f"you hold it until you say team_task_done or team_task_fail{checks}")
    left = store.reader.now(work_notes.left_with, space, changed.task.id)
    return msgspec.structs.replace(result, handover=left)


async def team_task_done(
    caller: Caller, asked: TaskDoneArguments, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> TaskResult:
    """End a task of the caller as done, once its check has passed; a failed check leaves it claimed."""
    identity, space = caller.identity, caller.identity.space
    row = store.reader.now(tasks.find, space, asked.task)
    if row is not None and row.command is not None and transitions.is_holder(row, identity.name, caller.author):
        definition = _definition(caller, store, files)
        with processes.attempts.hold(identity.instruction):
            outcome = await files.worktrees.checks.check(
                identity,
                row.command,
                definition.limits,
                task=row.id,
                confined=row.confined or definition.sandbox != "off",
            )
        if outcome.why is not None:
            note = f"it is not done: {outcome.why}. You still hold it: mend it, and say done again"
            return TaskResult(task=task_views.info(row), message_id="", note=note, output=outcome.output)
    changed = await store.writer.commit(
        transitions.finish, space, asked.task, asked.result, author=caller.author, call_key=caller.call_key
    )
    return _result(changed, "it is done")


async def team_task_fail(caller: Caller, asked: TaskFailArguments, store: StoreAccess) -> TaskResult:
    """End a task of the caller as failed."""
    changed = await store.writer.commit(
        transitions.fail,
        caller.identity.space,
        asked.task,
        asked.reason,
        author=caller.author,
        call_key=caller.call_key,
    )
    return _result(changed, "it has failed; what needs it waits for a person, unless its on_failure says otherwise")


async def team_task_split(
    caller: Caller, asked: TaskSplitArguments, store: StoreAccess, files: ProjectFiles
) -> TaskPlanResult:
    """Make parts of a task, which is ready again once they are done."""
    planned = await store.writer.commit(
        task_plans.split,
        caller.identity.space,
        asked.task,
        asked.tasks,
        author=caller.author,
        call_key=caller.call_key,
        confined=_confined(caller, asked.tasks, store, files),
    )
    return _planned(planned)


def _planned(planned: task_plans.Planned) -> TaskPlanResult:
    given = len(planned.instruction_ids)
    note = "what is for somebody is given to them once it is ready; the rest goes to whoever claims it"
    return TaskPlanResult(
        ids=planned.ids,
        tasks=planned.tasks,
        message_id=planned.message_id,
        note=f"{given} given out now; {note}" if given else note,
    )


def _result(changed: transitions.Changed, note: str) -> TaskResult:
    return TaskResult(task=changed.task, message_id=changed.message_id, note=note)


def _definition(caller: Caller, store: StoreAccess, files: ProjectFiles) -> AgentDefinition:
    identity = caller.identity
    try:
        return definition_for(identity.agent, identity.space, files.catalog, store.reader)
    except (Refused, BadDefinition):  # its file is gone: an agent like any other
        return AgentDefinition(name=identity.name)


def _confined(caller: Caller, specs: tuple[TaskSpec, ...], store: StoreAccess, files: ProjectFiles) -> bool:
    """Return whether the checks in ``specs`` are those of a confined agent. Raises Refused (forbidden) where somebody
    would have to be asked before the caller runs a command."""
    if not any(one.check is not None for one in specs):
        return False
    definition = _definition(caller, store, files)
    policy = store.reader.now(approvals.of_run, caller.identity.instruction) or definition.approval
    runs_commands = definition.backend != "sdk" or "bash" in definition.tools
    # A script is the user's own words, and nobody is asked about its commands either.
    is_script = MOCK in (definition.backend, definition.model.partition("/")[0])
    if not is_script and not (policy == "auto" and runs_commands):
        text = "a check is a command, and you may run none without somebody being asked"
        hint = "say in text how to see that it is done; the user can give a check: awk task add --check"
        raise Refused("forbidden", text, hint)
    return definition.sandbox != "off"
