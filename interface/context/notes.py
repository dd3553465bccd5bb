"""The notes of an agent, one Markdown file each, and its todo list, one file that is changed line by line.

A note is written whole or not at all; what people wrote around the items of the list stays.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from interface.context.agent_dir import AgentDir, open_context, unwritable
from interface.context.safe_dir import Unusable
from interface.failure import Failure
from protocol.agent_layout import NOTES, TODO, TODO_FILE
from protocol.agent_memory import (
    NOTES_SUFFIX,
    Item,
    Note,
    NoteRejected,
    TodoRejected,
    content,
    file_name,
    items_of,
    note,
    order,
)

_TRIES: Final = 100


class Notes(NamedTuple):
    """All notes, the oldest first, and the files that were skipped, with the reason (fault SF17)."""

    notes: tuple[Note, ...]
    skipped: tuple[str, ...]


def read_notes(place: AgentDir) -> Notes:
    """The notes of the agent. Raises Failure (bad_definition)."""
    try:
        with open_context(place) as context, context.folder(NOTES) as folder:
            notes: list[Note] = []
            skipped: list[str] = []
            for file in sorted(folder.names(NOTES_SUFFIX), key=order):
                try:
                    notes.append(note(file, folder.read(file)))
                except Unusable as error:
                    skipped.append(str(error))
                except NoteRejected as error:
                    skipped.append(f"{folder.shown}/{file} {error}")
            return Notes(tuple(notes), tuple(skipped))
    except FileNotFoundError:
        return Notes((), ())
    except OSError as error:
        raise Failure("failed", str(error)) from error


def add_note(place: AgentDir, text: str, wall_seconds: float) -> Note:
    """Write a note; its file is named by the time (UTC) and its first words. Raises Failure."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S", time.gmtime(wall_seconds))
    try:
        body = content(text)
        with open_context(place, make=True) as context, context.folder(NOTES, make=True) as folder, folder.locked():
            name = file_name(stamp, body)
            stem = name.removesuffix(NOTES_SUFFIX)
            for number in range(1, _TRIES):
                free = name if number == 1 else f"{stem}-{number}{NOTES_SUFFIX}"
                with suppress(FileExistsError):
                    folder.write(free, body, new=True)
                    return note(free, body)
            raise Unusable(f"{folder.shown}/{name}", f"and {_TRIES} more are there already")
    except NoteRejected as error:
        raise Failure("usage", str(error)) from error
    except OSError as error:
        raise unwritable(place, error) from error


class Todos(NamedTuple):
    """The items in the order of the file, and the lines that look like one and are none (fault SF17)."""

    items: tuple[Item, ...]
    skipped: tuple[str, ...]


def read_todos(place: AgentDir) -> Todos:
    """The todo list of the agent. Raises Failure (bad_definition)."""
    try:
        with open_context(place) as context, context.folder(TODO) as folder:
            return _todos(folder.read(TODO_FILE), folder.shown)
    except FileNotFoundError:
        return Todos((), ())
    except OSError as error:
        raise Failure("failed", str(error)) from error


def change_todos(place: AgentDir, change: Callable[[str], str]) -> Todos:
    """The list after ``change`` of its text. Raises Failure."""
    try:
        with open_context(place, make=True) as context, context.folder(TODO, make=True) as folder, folder.locked():
            try:
                before = folder.read(TODO_FILE)
            except FileNotFoundError:
                before = ""
            after = change(before)
            folder.write(TODO_FILE, after)
            return _todos(after, folder.shown)
    except TodoRejected as error:
        code = "not_found" if "no item" in str(error) else "usage"
        raise Failure(code, str(error)) from error
    except OSError as error:
        raise unwritable(place, error) from error


def _todos(text: str, shown: str) -> Todos:
    items, torn = items_of(text)
    return Todos(tuple(items), tuple(f"{shown}/{TODO_FILE} {line}" for line in torn))
