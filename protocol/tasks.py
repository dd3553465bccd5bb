"""Tasks in requests and answers.

``TaskSpec`` is a task in a workflow file, in an agent's call and in a request. ``TaskInfo`` is a task in an answer.
"""

from typing import Annotated, Final, Literal, get_args

import msgspec

from protocol.api.document import Ask, Body, Document, Page

TaskState = Literal["open", "ready", "claimed", "done", "failed", "cancelled"]
"""open: waits for its dependencies. ready: can be claimed. claimed: in progress. The other states are final."""
TASK_STATES: Final[tuple[TaskState, ...]] = get_args(TaskState)
OnFailure = Literal["hold", "skip", "cancel"]
"""Effect of a failed dependency: the task waits for a person (hold), continues without the dependency (skip), or is
cancelled too."""

TITLE_CHARACTERS: Final = 200
TEXT_CHARACTERS: Final = 16_000
CHECK_CHARACTERS: Final = 4000
RESULT_CHARACTERS: Final = 16_000
PLANNED_AT_ONCE: Final = 200
"""Maximum number of tasks of one call."""
MOST_OPEN: Final = 10_000
"""Maximum number of unfinished tasks of one workspace."""
NEEDS_LIMIT: Final = 64
FILES_LIMIT: Final = 32

Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS)]


class TaskSpec(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Task as its author plans it."""

    key: str | None = None
    """Name in the list where the task is planned. Other tasks may depend on it by this name, and tools accept it as
    id."""
    title: str
    """Goal of the task in one line."""
    text: str = ""
    """Information that the assignee needs."""
    for_: str | None = msgspec.field(default=None, name="for")
    """Agent that is assigned the task when it is ready. Unset: the first agent that claims it."""
    needs: tuple[str, ...] = ()
    """Dependencies: keys of the same list, or ids (``t3``) and keys of existing tasks."""
    parent: str | None = None
    """Parent task by key or id. It groups tasks and is no dependency."""
    files: tuple[str, ...] = ()
    """Globs of the files that the task changes (``src/api/**``). No other agent can write there while the task is
    claimed."""
    check: str | None = None
    """Command for ``/bin/sh`` where the agent works. The task is done only if the command exits with 0. It needs
    trust."""
    on_failure: OnFailure | None = None
    """Effect of a failed dependency on this task, and on dependents that set no value. Default: ``hold``."""


class TaskInfo(TaskSpec, Body, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """Task with its state. Keys are replaced by ids. Names are of members, ``user``, or
    ``system`` for the workflow file."""

    id: str
    space: str
    state: TaskState
    blocked_by: tuple[str, ...]
    """Dependencies that are not yet done."""
    blocks: tuple[str, ...]
    """Dependents."""
    found_in: str | None
    """Task that was in progress when this task was planned."""
    creator: str
    created_at: str
    ready_at: str | None
    holder: str | None
    """Member who claimed the task."""
    instruction: str | None
    """Last instruction that was created for the task, or in which an agent claimed the task."""
    claimed_at: str | None
    result: str
    reason: str
    """Reason of a failure or a cancellation, or why the task is not done although its agent's work has ended."""
    ended_at: str | None
    ended_by: str | None


class TaskList(Page, frozen=True, kw_only=True):
    """``awk task list``. Pass ``next`` as ``after``."""

    tasks: tuple[TaskInfo, ...]
    schema: str = "awk/task-list/1"


class TaskDocument(TaskInfo, frozen=True, kw_only=True, tag_field="schema", tag="awk/task/1"):
    """``awk task show``, and the answer of ``done``, ``claim`` and ``fail``: a TaskInfo with the ``schema`` tag."""


def document(task: TaskInfo) -> TaskDocument:
    """Return ``task`` with the ``schema`` tag of a top-level JSON document."""
    return TaskDocument(**{name: getattr(task, name) for name in task.__struct_fields__})


class TasksPlanned(Document, frozen=True, kw_only=True):
    """Ids of the planned tasks: by task key, and in the order in which the tasks were listed."""

    space: str
    ids: dict[str, str]
    tasks: tuple[str, ...]
    schema: str = "awk/task-plan/1"
