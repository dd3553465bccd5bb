"""The personal context of each agent: memory, notes and todo list, read from and written to its files.

The files are the source of truth: people edit them, git versions them. Contents are cached while the stat of a file is
unchanged, so a manual edit is seen by the next read, which costs one stat per file. Unreadable files are reported with
their paths, and the rest is used. A folder is locked from reading to writing, across processes; each file is replaced
atomically.

An agent with a file has its context in the project. An agent without one (created at run time, or inside a workflow)
has it in the kernel's state, in the same format, until it gets a file or ends.

All methods block: call them in a thread.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote

import msgspec

from kernel.agents.catalog import Catalog, context_dir
from kernel.agents.context_files import (
    ALL_NOTES,
    ContextFiles,
    NotesAsked,
    NotesPage,
    make_agent_folder,
    names_in,
    newest_notes,
    put_all,
    put_note,
    read_error,
)
from kernel.policy.provenance import ProvenanceMarks
from kernel.source.diagnostics import BadDefinition, fail
from kernel.source.safe_paths import NotSynced, locked, open_folder, put_here, read_here
from kernel.store.agents import AgentRecord
from osfiles.safe_open import closing_descriptor
from protocol.agent import AgentDefinition
from protocol.agent_layout import (
    MARK,
    MEMORY,
    NOTES,
    SOUL_FILE,
    TODO,
    TODO_FILE,
    agent_file,
    default_dir,
    dir_fault,
    marked_for,
)
from protocol.agent_memory import (
    SUFFIX,
    Entry,
    EntryRejected,
    Item,
    ItemNotFound,
    Note,
    NoteRejected,
    Source,
    SourceClass,
    TodoRejected,
    content,
    file_name,
    items_of,
    with_item,
    with_source,
)
from protocol.discovery import LOG
from protocol.errors import Refused
from protocol.memory_files import (
    Memory,
    MemoryFile,
    Skipped,
    StoredEntry,
    Unchangeable,
    together,
    with_entry,
    without_entries,
)

_SAFE: Final = "@:-_."
"""Characters besides letters and digits in folder names of the state."""
T = TypeVar("T")


class ContextPlace(NamedTuple):
    """The folder of one agent's context. ``folder`` is relative to ``root``; ``shown`` is its displayed path."""

    agent: str
    root: str
    folder: str
    shown: str


class Personal(NamedTuple):
    """The whole personal context. ``notes`` are oldest first; ``skipped`` are unreadable parts, each with its path."""

    memory: tuple[StoredEntry, ...] = ()
    notes: tuple[Note, ...] = ()
    todos: tuple[Item, ...] = ()
    skipped: tuple[str, ...] = ()


_agent: Final = msgspec.json.Decoder(AgentDefinition)


def _has_no_link(root: str, path: str) -> bool:
    """Return whether ``path`` below ``root`` has no links and no ``..``: a fast check that usually saves realpath."""
    steps = path.split("/")
    folders = ("/".join(steps[:count]) for count in range(1, len(steps) + 1))
    return not {"", os.curdir, os.pardir}.intersection(steps) and not any(
        os.path.islink(f"{root}/{folder}") for folder in folders
    )


class PersonalContexts:
    """Reader and writer of agents' contexts; ``state`` has those of agents without a file."""

    def __init__(self, catalog: Catalog, state: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._catalog = catalog
        self._root = os.path.realpath(catalog.root)
        self._state = state
        self._files = ContextFiles(now)
        self._merged: dict[str, tuple[tuple[int, ...], dict[str, MemoryFile], Memory]] = {}

    def place(self, key: str, record: AgentRecord | None, known: AgentDefinition | None = None) -> ContextPlace:
        """Return the context location of agent ``key``; ``record`` is its stored row. Does not block for long.

        ``known`` is its definition, if it was just read.
        Raises Refused (unknown_agent), BadDefinition if its file was never valid, or its context.dir is invalid.
        """
        if record is not None and record.origin != "file":
            return self.place_in_state(key)
        try:
            definition = known or self._catalog.agent(key).definition
        except BadDefinition:
            if record is None or record.definition is None:
                raise
            definition = _agent.decode(record.definition)
        root, said = self._root, context_dir(definition)
        real = said if _has_no_link(root, said) else os.path.relpath(os.path.realpath(os.path.join(root, said)), root)
        fault = "leads outside the project" if real.startswith(os.pardir) else dir_fault(real, key)
        if fault is not None:
            raise fail(self._catalog.file_of(key), f"{said[:200]!r} {fault}", where="context.dir")
        return ContextPlace(key, root, real, said)

    def place_in_state(self, key: str) -> ContextPlace:
        """Return the context location of an agent without a file."""
        return ContextPlace(key, str(self._state), quote(key, safe=_SAFE), f"the state of {key}")

    def read(self, place: ContextPlace, newest: int | None = None) -> Personal:
        """Return the whole context from its files; of the notes, only the ``newest`` if given.

        Raises Refused if the context as a whole cannot be read.
        """
        memory, notes, todos = self.memory(place), self.notes(place, NotesAsked(newest)), self.todos(place)
        skipped = (*self.unreadable_parts(place, memory), *notes.skipped, *todos.skipped)
        return Personal(memory.kept, notes.notes, todos.todos, skipped)

    def unreadable_parts(self, place: ContextPlace, memory: Memory) -> tuple[str, ...]:
        """Return the parts of ``memory`` that could not be read, each with its file and line."""
        return tuple(one.shown(f"{place.shown}/{MEMORY}") for one in memory.skipped)

    def memory(self, place: ContextPlace) -> Memory:
        """Return the memory entries, core first."""
        return self._in(place, MEMORY, lambda folder: self._memory(place, folder)[0]) or Memory((), ())

    def change_memory(
        self, place: ContextPlace, decide: Callable[[Memory], Iterable[tuple[StoredEntry | None, Entry | None]]]
    ) -> tuple[StoredEntry, ...]:
        """Apply pairs from ``decide``: the old entry (None to add) and the new (None to delete).

        Returns the written entries. Raises Refused; then some of several changes may have been made.
        """

        def change(folder: int) -> tuple[StoredEntry, ...]:
            memory, texts = self._memory(place, folder)
            stored: list[StoredEntry] = []
            changes: dict[str, str] = {}
            gone: list[StoredEntry] = []
            for old, new in decide(memory):
                if new is not None:
                    one, more = with_entry({**texts, **changes}, old, new, memory.behind(new.key))
                    stored.append(one)
                    changes |= more
                else:
                    assert old is not None, "a change needs an old or a new entry"
                    gone.append(old)
            changes |= without_entries({**texts, **changes}, gone)
            put_all(folder, changes, f"{place.shown}/{MEMORY}")
            return tuple(stored)

        try:
            return self._changing(place, MEMORY, change)
        except EntryRejected as error:
            raise Refused("bad_request", str(error)) from error
        except Unchangeable as error:
            raise Refused("conflict", f"{place.shown}/{MEMORY}/{error}", "change it in an editor") from error

    def notes(self, place: ContextPlace, asked: NotesAsked = ALL_NOTES) -> NotesPage:
        """Return the requested notes, oldest first, all by default; files that are no notes are skipped."""

        def look(folder: int) -> NotesPage:
            path = f"{place.root}/{place.folder}/{NOTES}"
            return newest_notes(
                folder, f"{place.shown}/{NOTES}", lambda file: self._files.read(path, folder, file).text, asked
            )

        return self._in(place, NOTES, look) or NotesPage()

    def add_note(
        self,
        place: ContextPlace,
        text: str,
        title: str | None,
        at: float,
        *,
        again: bool = False,
        source: Source | None = None,
    ) -> Note:
        """Write a note; its file name consists of the time ``at`` (UTC) and its first words. Raises Refused.

        ``again``: the call may be a retry; if the same note of that time exists, it is returned.
        """
        try:
            body = content(text, title)
        except NoteRejected as error:
            raise Refused("bad_request", str(error)) from error
        name = file_name(time.strftime("%Y-%m-%d-%H%M%S", time.gmtime(at)), body)
        return self._put_note(place, name, with_source(body, source), again=again)

    def _put_note(self, place: ContextPlace, name: str, body: str, *, again: bool) -> Note:
        put = partial(put_note, shown=f"{place.shown}/{NOTES}", name=name, body=body, again=again)
        return self._changing(place, NOTES, put)

    def remove_note(self, place: ContextPlace, file: str) -> None:
        """Delete a note. Raises Refused (not_found)."""
        missing = Refused("not_found", f"note {file[:200]!r} of agent {place.agent} not found", "list the notes")
        if file not in {one.file for one in self.notes(place).notes}:
            raise missing
        with suppress(FileNotFoundError):
            self._changing(place, NOTES, lambda folder: os.unlink(file, dir_fd=folder))

    def todos(self, place: ContextPlace) -> Personal:
        """Return ``todos`` in the file's order; ``skipped`` are invalid lines similar to todos."""

        def look(folder: int) -> tuple[list[Item], list[str]]:
            try:
                return items_of(self._todo_text(place, folder))
            except OSError as error:
                return [], [read_error(error)]

        items, faults = self._in(place, TODO, look) or ([], [])
        return Personal(todos=tuple(items), skipped=tuple(f"{place.shown}/{TODO}/{TODO_FILE}: {one}" for one in faults))

    def change_todos(self, place: ContextPlace, change: Callable[[str], str]) -> Personal:
        """Apply ``change`` to the text of the list and return the new list. Raises Refused."""

        def write(folder: int) -> None:
            before = self._todo_text(place, folder)
            after = change(before)
            if after != before:
                put_here(folder, TODO_FILE, after)

        try:
            self._changing(place, TODO, write)
        except TodoRejected as error:
            raise Refused("not_found" if isinstance(error, ItemNotFound) else "bad_request", str(error)) from error
        return self.todos(place)

    def write_soul(self, place: ContextPlace, text: str, known: str) -> str | None:
        """Write ``text`` to the soul file, unless the file has other content than ``known``.

        Returns None, or the other content, which remains unchanged. Raises Refused.
        """

        def write(folder: int) -> str | None:
            with suppress(FileNotFoundError):
                found = read_here(folder, SOUL_FILE)[0]
                if found.strip() and found not in (known, text):
                    return found
            put_here(folder, SOUL_FILE, text)
            return None

        return self._changing(place, "", write)

    def add_todo(
        self, place: ContextPlace, text: str, only_if: int | None = None, trust: SourceClass = "agent"
    ) -> Personal:
        """Add a todo item. Raises Refused.

        ``only_if``, for retries: add the item only if the list has that many items with this text.
        """

        def add(before: str) -> str:
            count = sum(item.text == text for item in items_of(before)[0])
            return before if only_if is not None and count != only_if else with_item(before, text, trust)

        return self.change_todos(place, add)

    def move(self, source: ContextPlace, target: ContextPlace) -> None:
        """Move the context of an agent that got a file from the kernel's state to the project.

        Existing items of ``target`` are kept. Repeatable after a crash. Raises Refused.
        """
        kept = self.read(source)
        there = {one.entry.key for one in self.memory(target).kept}
        moved = [(None, one.entry) for one in kept.memory if one.entry.key not in there]
        if moved:
            self.change_memory(target, lambda _: moved)
        for one in kept.notes:
            self._put_note(target, one.file, with_source(one.text, one.source), again=True)
        listed = {item.text for item in self.todos(target).todos}
        lines = [item.line for item in kept.todos if item.text not in listed]
        if lines:
            self.change_todos(target, lambda text: "\n".join([*text.splitlines(), *lines, ""]))
        self.forget(source.agent)

    def forget(self, key: str) -> None:
        """Delete the context of a removed agent without a file. Raises nothing."""
        shutil.rmtree(self._state / quote(key, safe=_SAFE), ignore_errors=True)

    def blank_logs(self, traces: ProvenanceMarks) -> None:
        """Overwrite ``traces`` in the kernel's own log files with ``*``. Raises nothing."""
        for file in self._state.parent.glob(f"{LOG}*"):
            with suppress(OSError), open(file, "r+b", buffering=0) as log:
                for start, end in traces.find(log.read()):
                    os.pwrite(log.fileno(), b"*" * (end - start), start)
                os.fsync(log.fileno())

    def kept_for(self) -> tuple[str, ...]:
        """Return the keys of the agents whose contexts are in the state."""
        try:
            return tuple(sorted(unquote(name) for name in os.listdir(self._state)))
        except FileNotFoundError:
            return ()

    def _memory(self, place: ContextPlace, folder: int) -> tuple[Memory, dict[str, str | None]]:
        texts: dict[str, str | None] = {}
        files: dict[str, MemoryFile] = {}
        for file in names_in(folder, SUFFIX):
            try:
                seen = self._files.read(f"{place.root}/{place.folder}/{MEMORY}", folder, file, entries=True)
            except FileNotFoundError:
                continue  # deleted since the listing
            except OSError as error:
                texts[file], files[file] = None, MemoryFile((), (Skipped(file, 0, read_error(error)),))
            else:
                texts[file], files[file] = seen.text, seen.entries
        at = f"{place.root}/{place.folder}"
        known = self._merged.get(at)
        if known is None or known[0] != tuple(map(id, files.values())):
            # Keep the files with the result: their ids are unique only while they live.
            known = self._merged[at] = tuple(map(id, files.values())), files, together(files)
        return known[2], texts

    def _todo_text(self, place: ContextPlace, folder: int) -> str:
        try:
            return self._files.read(f"{place.root}/{place.folder}/{TODO}", folder, TODO_FILE).text
        except FileNotFoundError:
            return ""

    def _in(self, place: ContextPlace, part: str, look: Callable[[int], T]) -> T | None:
        try:
            with closing_descriptor(open_folder(place.root, f"{place.folder}/{part}")) as folder:
                return look(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused("conflict", f"{place.shown}/{part} cannot be read: {error.strerror}") from error

    def _changing(self, place: ContextPlace, part: str, change: Callable[[int], T]) -> T:
        try:
            self._make_home(place)
            inside = f"{place.folder}/{part}"
            with closing_descriptor(open_folder(place.root, inside, make=True)) as folder, locked(folder):
                return change(folder)
        except NotSynced as error:
            text = f"{place.shown}/{part} was written, but may not be on disk yet: {error.strerror}"
            raise Refused("storage_failed", text, "check the disk and the content of the files") from error
        except OSError as error:
            text = f"{place.shown}/{part} cannot be written and is unchanged: {error.strerror or error}"
            raise Refused("storage_failed", text, "check the disk and the folder, then retry") from error

    def _make_home(self, place: ContextPlace) -> None:
        if place.root == str(self._state):
            os.makedirs(os.path.join(place.root, place.folder), mode=0o700, exist_ok=True)
            return
        make_agent_folder(place.root, place.folder, place.agent)
        owner = place.agent
        if place.folder != default_dir(place.agent):
            with closing_descriptor(open_folder(place.root, place.folder)) as home, suppress(OSError):
                owner = marked_for(read_here(home, MARK)[0])
        if owner != place.agent and os.path.exists(os.path.join(place.root, agent_file(owner))):
            raise Refused(
                "bad_definition",
                f"context.dir {place.shown!r} belongs to agent {owner}",
                "give each agent its own folder",
            )
