"""Tasks: their state machine as a table, what makes one ready, held or cancelled, cycles, and whose files are whose.

Pure. A task waits (``open``) until all that it needs is done. Then it is ``ready``, and goes to the agent that it is
for, or to whoever claims it first. Only its holder ends it; a person may at any time. What needs a task that failed or
was cancelled waits for a person, goes on without it, or is cancelled too (``on_failure``).
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
"""free: nothing that it needs is missing. release: its holder is gone. split: it waits for its parts."""

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
    "failed": {"finish": "done", "cancel": "cancelled"},  # as a person decides
    "done": _OVER,
    "cancelled": _OVER,
}
LOST: Final[frozenset[TaskState]] = frozenset({"failed", "cancelled"})
"""What needs one of these cannot count on it any more."""
OVER: Final[frozenset[TaskState]] = frozenset({"done", "failed", "cancelled"})

GIVEN_OUT: Final = 2
"""So often a task is given to the agent that it is for, before a person is asked."""
UNCLAIMED_MS: Final = 60_000
"""A ready task that nobody claims for so long needs a person, where nobody is at work who may still claim it."""


class Needed(msgspec.Struct, frozen=True):
    """One that a task needs."""

    id: str
    state: TaskState
    on_failure: OnFailure | None = None


def fate(own: OnFailure | None, lost: OnFailure | None) -> OnFailure:
    """The fate of a task that says ``own`` when one that it needs, which says ``lost``, is lost."""
    return own or lost or "hold"


def waits_for(own: OnFailure | None, needs: Iterable[Needed]) -> tuple[str, ...]:
    """The ids of those of ``needs`` that a task still waits for, the ones it waits for in vain among them."""
    return tuple(
        one.id
        for one in needs
        if one.state != "done" and not (one.state in LOST and fate(own, one.on_failure) == "skip")
    )


def held_by(own: OnFailure | None, needs: Iterable[Needed]) -> tuple[str, ...]:
    """The ids of those of ``needs`` for which it waits in vain, until a person decides."""
    return tuple(one.id for one in needs if one.state in LOST and fate(own, one.on_failure) == "hold")


def next_step(own: OnFailure | None, needs: Sequence[Needed]) -> Literal["free", "cancel"] | None:
    """The step that an open task takes by itself, as what it needs stands; None: it waits."""
    if any(one.state in LOST and fate(own, one.on_failure) == "cancel" for one in needs):
        return "cancel"
    return None if waits_for(own, needs) else "free"


def find_cycle(needs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """A circle of tasks that wait for each other, from one of them back to itself; () where there is none."""
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        on_path: set[str] = set()
        # Depth first, by a stack of our own: a chain may be as long as the plan. None: leave the last of the path.
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
    """Raise Refused (bad_request) where these cannot be tasks of ``members``, whatever else there is."""
    if not 1 <= len(tasks) <= PLANNED_AT_ONCE:
        text = f"{len(tasks)} tasks: a plan has from 1 to {PLANNED_AT_ONCE}"
        raise bad_request(text, "plan the rest with another call")
    keys = [one.key for one in tasks if one.key is not None]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise bad_request(f"two tasks have the key {twice[:64]!r}", "give each its own")
    for one in tasks:
        _check_task(one, members)


def _check_task(one: TaskSpec, members: Sequence[str]) -> None:
    name = repr((one.key or one.title)[:64])
    wrong_glob = next((glob for glob in one.files if glob_fault(glob)), None)
    if one.key is not None and (not _KEY.fullmatch(one.key) or _ID.fullmatch(one.key)):
        raise bad_request(
            f"{name} is no key: letters, digits, '_', '-' and '.', a letter first, and not like the id t3"
        )
    if not one.title.strip() or len(one.title) > TITLE_CHARACTERS:
        raise bad_request(f"{name}: a title has from 1 to {TITLE_CHARACTERS} characters", "say the rest in text")
    if len(one.text) > TEXT_CHARACTERS or len(one.check or "") > CHECK_CHARACTERS:
        text = f"{name}: a text can have {TEXT_CHARACTERS} characters, a check {CHECK_CHARACTERS}"
        raise bad_request(text, "put the rest into a file and name that")
    if len(one.needs) > NEEDS_LIMIT or len(one.files) > FILES_LIMIT:
        raise bad_request(
            f"{name}: it can need {NEEDS_LIMIT} others, and change {FILES_LIMIT} globs", "group them by a task"
        )
    if one.check is not None and (not one.check.strip() or "\0" in one.check):
        raise bad_request(f"{name}: the check is no command", "leave it out")
    if one.for_ is not None and one.for_ not in members:
        raise bad_request(f"{name} is for {one.for_[:60]!r}, who is no member", f"the members are {', '.join(members)}")
    if wrong_glob is not None:
        raise bad_request(f"{name}: files: {wrong_glob[:60]!r} {glob_fault(wrong_glob)}", "such as src/api/**")


def glob_fault(glob: str) -> str | None:
    """Return why ``glob`` names no files of a working directory; None where it does."""
    if not glob.strip() or len(glob) > _GLOB_CHARACTERS or _IN_NO_GLOB.search(glob):
        return "is no glob"
    parts = _parts(glob)
    if glob.startswith(("/", "~")) or ".." in parts or not parts:
        return "does not stay in the working directory"
    return None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


@lru_cache(maxsize=4096)
def _glob_parts(glob: str) -> tuple[str, ...]:
    parts = _parts(glob)
    is_folder = glob.endswith("/") or (bool(parts) and not set(parts[-1]) & set("*?."))
    return (*parts, "**") if is_folder else parts


def covers(globs: Iterable[str], path: str) -> bool:
    """Return whether ``path`` is one of those that ``globs`` stand for."""
    parts = _parts(path.translate(_LITERAL))
    return any(_same_names(_glob_parts(glob), parts) for glob in globs)


_LITERAL: Final = {ord("*"): "\0", ord("?"): "\0"}
"""In a path these are letters like any other, and only a wildcard stands for them."""


def overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether there can be a path that both stand for."""
    other_parts = [_glob_parts(glob) for glob in others]
    return any(_same_names(_glob_parts(glob), parts) for glob in some for parts in other_parts)


def _same_names(some: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two lists of names, in which ``**`` stands for any number of them, can be the same path."""
    return _can_be_same(some, others, "**", _same_name)


@lru_cache(maxsize=4096)
def _same_name(some: str, other: str) -> bool:
    return _can_be_same(some, other, "*", lambda one, another: "?" in (one, another) or one == another)


def _can_be_same(some: Sequence[str], others: Sequence[str], many: str, alike: Callable[[str, str], bool]) -> bool:
    """Return whether two patterns, in which ``many`` stands for any number of items, can be the same.

    Item by item of ``some``, all places of ``others`` that one can be at with it: agents write both, so the time is
    bounded by the product of their lengths, and nothing recurses.
    """
    places = {0}
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
    """Files that a task holds while ``holder`` is at it."""

    id: str
    holder: str
    files: tuple[str, ...]


def claim_on(claims: Iterable[FileClaim], path: str, writer: str) -> FileClaim | None:
    """The claim that keeps ``writer`` from changing ``path``; None where nobody else holds it."""
    return next((one for one in claims if one.holder != writer and covers(one.files, path)), None)


def claims_against(claims: Iterable[FileClaim], files: Sequence[str], who: str) -> FileClaim | None:
    """The claim of another that ``files`` of a task would get in the way of, were it claimed by ``who``."""
    return next((one for one in claims if one.holder != who and overlap(one.files, files)), None) if files else None
