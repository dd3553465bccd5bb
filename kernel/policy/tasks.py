"""Tasks: state machine as a table, dependencies, cycles, and file claims. Pure.

A task is ``open`` until all its dependencies are done. Then it is ``ready``, and goes to its assignee or to the first
agent that claims the task. Only the holder, or a person at any time, ends the task. A dependent of a failed or
cancelled task waits for a person, continues without it, or is cancelled too (``on_failure``).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from protocol.errors import bad_request
from protocol.tasks import (
    CHECK_CHARACTERS,
    FILES_LIMIT,
    NEEDS_LIMIT,
    PLANNED_AT_ONCE,
    TEXT_CHARACTERS,
    TITLE_CHARACTERS,
    OnFailure,
    TaskSpec,
    TaskState,
)

TaskStep = Literal["free", "claim", "release", "split", "finish", "fail", "cancel"]
"""free: all dependencies are done. release: its holder has ended. split: it waits for its subtasks."""

_OVER: Mapping[TaskStep, TaskState] = {}
_ENDS: Final[Mapping[TaskStep, TaskState]] = {
    "split": "open",
    "finish": "done",
    "fail": "failed",
    "cancel": "cancelled",
}
TRANSITIONS: Final[Mapping[TaskState, Mapping[TaskStep, TaskState]]] = {
    "open": {"free": "ready", **_ENDS},
    "ready": {"claim": "claimed", **_ENDS},
    "claimed": {"release": "ready", **_ENDS},
    "failed": {"finish": "done", "cancel": "cancelled"},  # a person's decision
    "done": _OVER,
    "cancelled": _OVER,
}
LOST: Final[frozenset[TaskState]] = frozenset({"failed", "cancelled"})
"""States that a dependent can no longer rely on."""
OVER: Final[frozenset[TaskState]] = frozenset({"done", "failed", "cancelled"})

GIVEN_OUT: Final = 2
"""Times that a task is offered to its assignee before a person is needed."""
UNCLAIMED_MS: Final = 60_000
"""Time after which an unclaimed ready task needs a person, unless a running agent may still claim it."""


class Needed(msgspec.Struct, frozen=True):
    """Dependency of a task."""

    id: str
    state: TaskState
    on_failure: OnFailure | None = None


def fate(own: OnFailure | None, lost: OnFailure | None) -> OnFailure:
    """Return the effect of a failed or cancelled dependency: ``own`` of the task, else ``lost``."""
    return own or lost or "hold"


def waits_for(own: OnFailure | None, needs: Iterable[Needed]) -> tuple[str, ...]:
    """Return the ids of unfinished dependencies, and of failed ones that the task does not skip."""
    return tuple(
        one.id
        for one in needs
        if one.state != "done" and not (one.state in LOST and fate(own, one.on_failure) == "skip")
    )


def held_by(own: OnFailure | None, needs: Iterable[Needed]) -> tuple[str, ...]:
    """Return the ids of failed or cancelled dependencies that hold the task for a person."""
    return tuple(one.id for one in needs if one.state in LOST and fate(own, one.on_failure) == "hold")


def next_step(own: OnFailure | None, needs: Sequence[Needed]) -> Literal["free", "cancel"] | None:
    """Return the automatic next step of an open task, given its dependencies; None: it waits."""
    if any(one.state in LOST and fate(own, one.on_failure) == "cancel" for one in needs):
        return "cancel"
    return None if waits_for(own, needs) else "free"


def find_cycle(needs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return a dependency cycle, from one task back to itself; () if there is none."""
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        on_path: set[str] = set()
        # Depth-first search with an explicit stack, because chains can be long. None: leave the last task of the path.
        stack: list[str | None] = [start]
        while stack:
            task = stack.pop()
            if task is None:
                done.add(path[-1])
                on_path.discard(path.pop())
            elif task in on_path:
                return (*path[path.index(task) :], task)
            elif task not in done:
                path.append(task)
                on_path.add(task)
                stack += [None, *needs.get(task, ())]
    return ()


_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_ID: Final = re.compile(r"t[0-9]+", re.ASCII)
_IN_NO_GLOB: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_GLOB_CHARACTERS: Final = 300


def check_plan(tasks: Sequence[TaskSpec], members: Sequence[str]) -> None:
    """Raise Refused (bad_request) if ``tasks`` are not valid tasks of ``members``."""
    if not 1 <= len(tasks) <= PLANNED_AT_ONCE:
        text = f"plan has {len(tasks)} tasks: 1 to {PLANNED_AT_ONCE} are allowed"
        raise bad_request(text, "split the plan into several calls")
    keys = [one.key for one in tasks if one.key is not None]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise bad_request(f"key {twice[:64]!r} used by two tasks", "use a unique key for each task")
    for one in tasks:
        _check_task(one, members)


def _check_task(one: TaskSpec, members: Sequence[str]) -> None:
    name = repr((one.key or one.title)[:64])
    wrong_glob = next((glob for glob in one.files if glob_fault(glob)), None)
    if one.key is not None and (not _KEY.fullmatch(one.key) or _ID.fullmatch(one.key)):
        raise bad_request(
            f"key {name} invalid: use letters, digits, '_', '-' and '.', starting with a letter, but no id like t3"
        )
    if not one.title.strip() or len(one.title) > TITLE_CHARACTERS:
        raise bad_request(f"task {name}: title must have 1 to {TITLE_CHARACTERS} characters", "put the rest into text")
    if len(one.text) > TEXT_CHARACTERS or len(one.check or "") > CHECK_CHARACTERS:
        text = f"task {name} too long: text is limited to {TEXT_CHARACTERS} characters, check to {CHECK_CHARACTERS}"
        raise bad_request(text, "put the rest into a file and name the file")
    if len(one.needs) > NEEDS_LIMIT or len(one.files) > FILES_LIMIT:
        raise bad_request(
            f"task {name}: at most {NEEDS_LIMIT} needs and {FILES_LIMIT} files are allowed",
            "group them in another task",
        )
    if one.check is not None and (not one.check.strip() or "\0" in one.check):
        raise bad_request(f"task {name}: check is not a command", "omit check")
    if one.for_ is not None and one.for_ not in members:
        raise bad_request(f"task {name}: member {one.for_[:60]!r} not found", f"members: {', '.join(members)}")
    if wrong_glob is not None:
        raise bad_request(
            f"task {name}: files: {wrong_glob[:60]!r} {glob_fault(wrong_glob)}", "use a glob like src/api/**"
        )


def glob_fault(glob: str) -> str | None:
    """Return why ``glob`` is not valid for files of a working directory; None if it is valid."""
    if not glob.strip() or len(glob) > _GLOB_CHARACTERS or _IN_NO_GLOB.search(glob):
        return "is not a glob"
    parts = _parts(glob)
    if glob.startswith(("/", "~")) or ".." in parts or not parts:
        return "leaves the working directory"
    return None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


@lru_cache(maxsize=4096)
def _glob_parts(glob: str) -> tuple[str, ...]:
    parts = _parts(glob)
    is_folder = glob.endswith("/") or (bool(parts) and not set(parts[-1]) & set("*?."))
    return (*parts, "**") if is_folder else parts


def covers(globs: Iterable[str], path: str) -> bool:
    """Return whether ``path`` matches one of ``globs``."""
    parts = _parts(path.translate(_LITERAL))
    return any(_same_names(_glob_parts(glob), parts) for glob in globs)


_LITERAL: Final = {ord("*"): "\0", ord("?"): "\0"}
"""Wildcard characters in a path are literal; only a wildcard matches them."""


def overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether some path matches a glob of ``some`` and also a glob of ``others``."""
    other_parts = [_glob_parts(glob) for glob in others]
    return any(_same_names(_glob_parts(glob), parts) for glob in some for parts in other_parts)


def _same_names(some: Sequence[str], others: Sequence[str]) -> bool:
    return _can_be_same(some, others, "**", _same_name)


@lru_cache(maxsize=4096)
def _same_name(some: str, other: str) -> bool:
    return _can_be_same(some, other, "*", lambda one, another: "?" in (one, another) or one == another)


def _can_be_same(some: Sequence[str], others: Sequence[str], many: str, alike: Callable[[str, str], bool]) -> bool:
    """Return whether two patterns, with ``many`` for any items, can match the same sequence.

    The time is limited to the product of their lengths, because agents write both patterns.
    """
    places = {0}  # all reachable positions in ``others`` after the items of ``some`` so far
    for item in (*some, None):
        following: set[int] = set()
        for place in range(len(others) + 1):
            if place not in places:
                continue
            other = others[place] if place < len(others) else None
            if item == many:
                following.add(place)
            if other is not None and many in (item, other):
                places.add(place + 1)
            if item is not None and other == many:
                following.add(place)
            elif item is not None and other is not None and item != many and alike(item, other):
                following.add(place + 1)
        if item is None:
            break
        places = following
    return len(others) in places


class FileClaim(msgspec.Struct, frozen=True):
    """Files that a task reserves while ``holder`` works on it."""

    id: str
    holder: str
    files: tuple[str, ...]


def claim_on(claims: Iterable[FileClaim], path: str, writer: str) -> FileClaim | None:
    """Return the claim of another agent that reserves ``path``; None: ``writer`` may change it."""
    return next((one for one in claims if one.holder != writer and covers(one.files, path)), None)


def claims_against(claims: Iterable[FileClaim], files: Sequence[str], who: str) -> FileClaim | None:
    """Return the claim of another agent that overlaps with the ``files`` of a task that ``who`` would claim."""
    return next((one for one in claims if one.holder != who and overlap(one.files, files)), None) if files else None
