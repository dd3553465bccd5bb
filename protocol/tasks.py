"""Tasks on the wire: what is planned, shown and listed of a workspace's graph of tasks.

One shape is a task in a workflow's file, in an agent's call and in a request (``TaskSpec``); one is what anybody is
shown of it (``TaskInfo``).
"""

from typing import Annotated, Final, Literal, get_args

import msgspec

from protocol.api.document import Ask, Body, Document, Page

TaskState = Literal["open", "ready", "claimed", "done", "failed", "cancelled"]
"""open: it waits for others. ready: it can be begun. claimed: somebody is at it. The rest is over."""
TASK_STATES: Final[tuple[TaskState, ...]] = get_args(TaskState)
OnFailure = Literal["hold", "skip", "cancel"]
"""What becomes of a task when one that it needs fails: it waits for a person; goes on without it; is cancelled too."""
ON_FAILURE: Final[tuple[OnFailure, ...]] = get_args(OnFailure)

TITLE_CHARACTERS: Final = 200
TEXT_CHARACTERS: Final = 16_000
CHECK_CHARACTERS: Final = 4000
RESULT_CHARACTERS: Final = 16_000
PLANNED_AT_ONCE: Final = 200
"""Tasks of one call."""
MOST_OPEN: Final = 10_000
"""Tasks of one workspace that are not over."""
NEEDS_LIMIT: Final = 64
FILES_LIMIT: Final = 32

Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS)]


class TaskSpec(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """One task as somebody plans it."""

    key: str | None = None
    """What it is called where it is planned: other tasks may need it by this name, and tools take it for its id."""
    title: str
    """What is to be done, in a line."""
    text: str = ""
    """All that one needs to do it."""
    for_: str | None = msgspec.field(default=None, name="for")
    """The agent that is to do it: it is given the task once that is ready. Without it, whoever claims it first."""
    needs: tuple[str, ...] = ()
    """What has to be done before: keys of the same list, or ids (``t3``) and keys of tasks that are there."""
    parent: str | None = None
    """The task that it is a part of, by key or id. It groups, and nothing waits for it."""
    files: tuple[str, ...] = ()
    """What it changes, as globs (``src/api/**``): nobody else may write there while it is claimed."""
    check: str | None = None
    """A command, run by ``/bin/sh`` where its agent works. Only if it ends with 0 the task is done. It needs trust."""
    on_failure: OnFailure | None = None
    """What becomes of this task when one that it needs fails, and of those that need it and do not say so themselves:
    ``hold`` unless given."""


class TaskInfo(TaskSpec, Body, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """All about one task: as it was planned, with ids in place of keys, and how it stands.

    Names are of members, or ``user``, or ``system`` for the workflow's file.
    """

    id: str
    space: str
    state: TaskState
    blocked_by: tuple[str, ...]
    """Those of ``needs`` that it still waits for."""
    blocks: tuple[str, ...]
    """Tasks that wait for it."""
    found_in: str | None
    """The task that was worked on when this one was planned."""
    creator: str
    created_at: str
    ready_at: str | None
    holder: str | None
    """Who has claimed it."""
    instruction: str | None
    """The work that it was given out as, or was claimed in, last."""
    claimed_at: str | None
    result: str
    reason: str
    """Why it failed, was cancelled, or is not done though its agent's work has ended."""
    ended_at: str | None
    ended_by: str | None


class TaskList(Page, frozen=True, kw_only=True):
    """``awk task list``. ``next`` goes into ``after``."""

    tasks: tuple[TaskInfo, ...]
    schema: str = "awk/task-list/1"


class TaskDocument(TaskInfo, frozen=True, kw_only=True, tag_field="schema", tag="awk/task/1"):
    """``awk task show``, and what ``done``, ``claim`` and ``fail`` answer: a TaskInfo as a document of its own."""


def document(task: TaskInfo) -> TaskDocument:
    """``task`` by itself."""
    return TaskDocument(**{name: getattr(task, name) for name in task.__struct_fields__})


class TasksPlanned(Document, frozen=True, kw_only=True):
    """The ids of what was planned: by key, and in the order of the list."""

    space: str
    ids: dict[str, str]
    tasks: tuple[str, ...]
    schema: str = "awk/task-plan/1"
