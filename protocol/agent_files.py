"""Results of the commands for agents' files with ``--json``, and of the routes with the same names."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from protocol.agent_memory import Entry, Item, Note, Source, SourceClass, Tier
from protocol.memory_files import StoredEntry


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """Top-level JSON document. Subclasses set ``schema``, declared here so that it is the first key."""

    schema: str


class MemoryRow(Entry, frozen=True, kw_only=True):
    """Memory entry. ``trust`` is the lowest class among its sources; ``file`` is a file name in ``memory/``."""

    trust: SourceClass  # pyright: ignore[reportIncompatibleMethodOverride]
    file: str


class MemoryReport(_Document, frozen=True, kw_only=True):
    """``agent memory``: a page of the ``total`` entries, and unreadable parts of files with the
    reason. Pass ``next`` as ``after``."""

    agent: str
    entries: tuple[MemoryRow, ...]
    skipped: tuple[str, ...] = ()
    total: int
    next: str | None = None
    schema: str = "awk/agent-memory/1"


def memory_rows(kept: Iterable[StoredEntry]) -> tuple[MemoryRow, ...]:
    """Return the rows of entries, in the same order."""
    return tuple(MemoryRow(**msgspec.structs.asdict(one.entry), trust=one.entry.trust, file=one.file) for one in kept)


class NoteRow(msgspec.Struct, frozen=True, kw_only=True):
    """Note in a list. ``n`` counts from the oldest; ``date`` is None if the file's name contains
    none. ``source`` is None if the file names none; ``trust`` is at most ``agent``."""

    n: int
    file: str
    date: str | None
    title: str
    text: str
    trust: SourceClass = "agent"
    source: Source | None = None


def note_rows(notes: Iterable[Note], first: int = 1) -> tuple[NoteRow, ...]:
    """Convert notes to rows, numbered from ``first``."""
    return tuple(
        NoteRow(n=n, trust=note.trust, **(note._asdict() | dict[str, Any](date=note.date or None)))
        for n, note in enumerate(notes, first)
    )


class NotesReport(_Document, frozen=True, kw_only=True):
    """``agent notes``: notes, and skipped files with the reason."""

    agent: str
    notes: tuple[NoteRow, ...]
    skipped: tuple[str, ...] = ()
    schema: str = "awk/agent-notes/1"


class TodoRow(msgspec.Struct, frozen=True, kw_only=True):
    """Item of a todo list. ``n`` is its position in the list."""

    n: int
    text: str
    done: bool


def todo_rows(items: Iterable[Item]) -> tuple[TodoRow, ...]:
    """Convert items to rows, numbered from 1."""
    return tuple(TodoRow(n=n, text=item.text, done=item.done) for n, item in enumerate(items, 1))


class TodoReport(_Document, frozen=True, kw_only=True):
    """``agent todo``: items, and malformed lines with the reason."""

    agent: str
    items: tuple[TodoRow, ...]
    skipped: tuple[str, ...] = ()
    schema: str = "awk/agent-todo/1"


class ContextCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of an agent's personal context. ``memory`` counts by tier."""

    dir: str
    memory: dict[Tier, int]
    notes: int
    todo: dict[Literal["open", "done"], int]


class AgentWritten(_Document, frozen=True, kw_only=True):
    """``agent create`` and ``agent edit``: the written file, and ``remarks`` for the user."""

    agent: str
    file: str
    changed: bool
    remarks: tuple[str, ...] = ()
    schema: str = "awk/agent-file/1"


class AgentDeleted(_Document, frozen=True, kw_only=True):
    """``agent delete``: the folder to which the files were moved, and the command that restores
    them. None: it had no file."""

    agent: str
    trash: str | None
    restore: str | None
    remarks: tuple[str, ...] = ()
    schema: str = "awk/agent-delete/1"


class MemoryPurged(_Document, frozen=True, kw_only=True):
    """``agent memory NAME purge``: number of deleted entries, notes and todos (including copies of
    an item in the memory of other agents), and of messages and instructions whose text was deleted.

    ``left``: content of people or other agents that was derived from the deleted items and may still repeat them."""

    agent: str
    source: str
    entries: int
    notes: int = 0
    todos: int = 0
    messages: int
    instructions: int
    left: tuple[str, ...] = ()
    schema: str = "awk/agent-memory-purge/1"
