"""Answers of the commands on agents' files with ``--json``, and of the routes of the same names."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from protocol.agent_memory import (
    Entry,
    Item,
    Note,
    Source,
    SourceClass,
    Tier,
)
from protocol.memory_files import StoredEntry


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    pass


class _Document(_Body, frozen=True, kw_only=True):
    """An answer of its own. Every subclass fixes its schema, which is declared here so that it comes first."""

    schema: str


class MemoryRow(Entry, frozen=True, kw_only=True):
    """Memory entry. ``trust`` is the lowest class among its sources; ``file`` is in the folder ``memory/``."""

    trust: SourceClass  # pyright: ignore[reportIncompatibleMethodOverride]
    file: str


class MemoryReport(_Document, frozen=True, kw_only=True):
    """``agent memory``: entries, of ``total``, and what was skipped with the reason. ``next`` goes into ``after``."""

    agent: str
    entries: tuple[MemoryRow, ...]
    skipped: tuple[str, ...] = ()
    total: int
    next: str | None = None
    schema: str = "awk/agent-memory/1"


def memory_rows(kept: Iterable[StoredEntry]) -> tuple[MemoryRow, ...]:
    """Entries as they are told."""
    return tuple(MemoryRow(**msgspec.structs.asdict(one.entry), trust=one.entry.trust, file=one.file) for one in kept)


class NoteRow(_Body, frozen=True, kw_only=True):
    """One note. ``n`` counts from the oldest; ``date`` is None where the file's name says none.

    ``source`` is None where its file says none; ``trust`` is an agent's at most.
    """

    n: int
    file: str
    date: str | None
    title: str
    text: str
    trust: SourceClass = "agent"
    source: Source | None = None


def note_rows(notes: Iterable[Note], first: int = 1) -> tuple[NoteRow, ...]:
    """Notes as they are told, numbered from ``first``."""
    return tuple(
        NoteRow(
            n=n,
            file=note.file,
            date=note.date or None,
            title=note.title,
            text=note.text,
            trust=note.trust,
            source=note.source,
        )
        for n, note in enumerate(notes, first)
    )


class NotesReport(_Document, frozen=True, kw_only=True):
    """``agent notes``: notes, and what was skipped with the reason."""

    agent: str
    notes: tuple[NoteRow, ...]
    skipped: tuple[str, ...] = ()
    schema: str = "awk/agent-notes/1"


class TodoRow(_Body, frozen=True, kw_only=True):
    """One item. ``n`` is its place in the list."""

    n: int
    text: str
    done: bool


def todo_rows(items: Iterable[Item]) -> tuple[TodoRow, ...]:
    """Items as they are told, numbered."""
    return tuple(TodoRow(n=n, text=item.text, done=item.done) for n, item in enumerate(items, 1))


class TodoReport(_Document, frozen=True, kw_only=True):
    """``agent todo``: items, and what was skipped with the reason."""

    agent: str
    items: tuple[TodoRow, ...]
    skipped: tuple[str, ...] = ()
    schema: str = "awk/agent-todo/1"


class ContextCounts(_Body, frozen=True, kw_only=True):
    """Counts of an agent's personal context. ``memory`` counts by tier."""

    dir: str
    memory: dict[Tier, int]
    notes: int
    todo: dict[Literal["open", "done"], int]


class AgentWritten(_Document, frozen=True, kw_only=True):
    """``agent create`` and ``agent edit``: the file. ``remarks`` say what people should know, in words."""

    agent: str
    file: str
    changed: bool
    remarks: tuple[str, ...] = ()
    schema: str = "awk/agent-file/1"


class AgentDeleted(_Document, frozen=True, kw_only=True):
    """``agent delete``: where it is now, and the command that brings it back; None for an agent without a file."""

    agent: str
    trash: str | None
    restore: str | None
    remarks: tuple[str, ...] = ()
    schema: str = "awk/agent-delete/1"


class MemoryPurged(_Document, frozen=True, kw_only=True):
    """``agent memory NAME purge``: how many entries, notes and todos went, those of other agents that repeat an item
    among them, and how many messages and instructions lost their words.

    ``left``: what people made of them, and others on purpose, which holds them still.
    """

    agent: str
    source: str
    entries: int
    notes: int = 0
    todos: int = 0
    messages: int
    instructions: int
    left: tuple[str, ...] = ()
    schema: str = "awk/agent-memory-purge/1"
