"""The todo list of an agent in its file, changed line by line; what people wrote around the items stays."""

from collections.abc import Callable
from typing import NamedTuple

from interface.context.agent_dir import AgentDir, open_context, unwritable
from interface.failure import Failure
from protocol.agent_layout import TODO, TODO_FILE
from protocol.agent_memory import Item, TodoRejected, items_of


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
