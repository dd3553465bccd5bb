"""Purge of items from agents' context files, including copies in other agents' files.

Agents copy text: an item may also be a note, a todo, or a memory entry of a colleague who asked for it, and get into
prompts from there. Therefore entries written by agents, notes and todos that contain a part of it are deleted too.
Entries that a person wrote by hand remain, and their files are reported.

All functions block.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kernel.agents.context_files import names_in
from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.policy.provenance import ProvenanceMarks
from kernel.source.safe_paths import open_folder, read_here
from osfiles.safe_open import closing_descriptor
from protocol.agent_layout import AGENTS, MEMORY, NOTES, SOUL_FILE, TODO, TODO_FILE, TRASH
from protocol.agent_memory import BY_HAND, NOTES_SUFFIX, SUFFIX, Entry, items_of
from protocol.errors import Refused
from protocol.memory_files import Memory, StoredEntry


class Copies(NamedTuple):
    """Numbers of deleted copies of purged items, and the agents whose memory entries were deleted."""

    entries: int = 0
    notes: int = 0
    todos: int = 0
    agents: tuple[str, ...] = ()


def purge_copies(
    contexts: PersonalContexts, places: Iterable[ContextPlace], traces: ProvenanceMarks, meant: Collection[Entry]
) -> Copies:
    """Delete copies of purged items at ``places``, but not the purged entries (``meant``).

    ``traces`` detects copies. Files that cannot be changed are skipped. Raises Refused if a context cannot be read.
    """

    def without_them(todo: str) -> str:
        return "\n".join(
            line for line in todo.split("\n") if not any(_held(one.text, traces) for one in items_of(line)[0])
        )

    entries = notes = todos = 0
    agents: list[str] = []
    for place in places:
        written = (one for one in all_of(contexts.memory(place)) if one.source != BY_HAND)
        copied = [one for one in written if _held(f"{one.key}\n{one.value}", traces) and one not in meant]
        with suppress(Refused):
            if copied:
                contexts.change_memory(place, removal(copied))
                entries += len(copied)
                agents.append(place.agent)
        for note in contexts.notes(place).notes:
            with suppress(Refused):
                if _held(note.text, traces):
                    contexts.remove_note(place, note.file)
                    notes += 1
        listed = sum(_held(item.text, traces) for item in contexts.todos(place).todos)
        with suppress(Refused):
            if listed:
                contexts.change_todos(place, without_them)
                todos += listed
    return Copies(entries, notes, todos, tuple(agents))


def all_of(memory: Memory) -> Iterator[Entry]:
    """Return all entries, including entries that another entry with the same key shadows."""
    return (one.entry for one in (*memory.kept, *memory.shadowed))


def removal(gone: Collection[Entry]) -> Callable[[Memory], list[tuple[StoredEntry | None, Entry | None]]]:
    """Return a change for ``change_memory`` that deletes the entries ``gone`` if unchanged."""
    return lambda now: [(one, None) for one in (*now.kept, *now.shadowed) if one.entry in gone]


def holding(places: Iterable[ContextPlace], traces: ProvenanceMarks) -> Iterator[str]:
    """Yield the displayed paths of files at ``places`` that still contain ``traces``."""
    for place in places:
        for part, suffix in ((MEMORY, SUFFIX), (NOTES, NOTES_SUFFIX), (TODO, TODO_FILE), ("", SOUL_FILE)):
            try:
                folder = open_folder(place.root, f"{place.folder}/{part}")
            except OSError:
                continue  # the folder does not exist or is never read
            try:
                for name in names_in(folder, suffix):
                    with suppress(OSError):
                        if _held(read_here(folder, name)[0], traces):
                            yield "/".join(filter(None, (place.shown, part, name)))
            finally:
                os.close(folder)


def trashed(root: str, traces: ProvenanceMarks) -> Iterator[str]:
    """Yield files of deleted agents that contain ``traces``: restoring them would bring the items back."""
    for folder, _, names in os.walk(os.path.join(root, AGENTS, TRASH)):
        for name in sorted(names):
            with (
                suppress(OSError),
                closing_descriptor(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor,
            ):
                if _held(read_here(descriptor, name)[0], traces):
                    yield os.path.relpath(os.path.join(folder, name), root)


def _held(text: str, traces: ProvenanceMarks) -> bool:
    # Only long parts count: a short part does not identify a copy, even next to its key.
    return bool(traces.find(text.encode("utf-8", "surrogatepass")))
