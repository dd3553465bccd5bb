"""The personal context of each agent: memory, notes and todo list, read from its files and written to them.

The files are the truth: people edit them, git keeps them. What was read is kept as long as a file looks as it did, so
an edit by hand counts at the next look, and a look costs a stat of each file. A file that cannot be read is told with
its place, and the rest goes on. From reading to writing a folder is one writer's, of whatever process; each file is
whole or as it was.

An agent with a file has its context in the project; one without (made at run time, or inside a workflow) has it in the
kernel's state, in the same form, until it gets a file or ends.

Everything here blocks: call it in a thread.
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
    why_not,
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
"""Beside letters and digits, in names of folders in the state."""
T = TypeVar("T")


class ContextPlace(NamedTuple):
    """The folder of one agent's context. ``folder`` is as seen from ``root``, ``shown`` as people are told it."""

    agent: str
    root: str
    folder: str
    shown: str


class Personal(NamedTuple):
    """All that an agent keeps. ``notes``: the oldest first. ``skipped``: what cannot be read, each with its place."""

    memory: tuple[StoredEntry, ...] = ()
    notes: tuple[Note, ...] = ()
    todos: tuple[Item, ...] = ()
    skipped: tuple[str, ...] = ()


_agent: Final = msgspec.json.Decoder(AgentDefinition)


class PersonalContexts:
    """Reads and writes the contexts of the agents of ``catalog``; of those without a file, below ``state``."""

    def __init__(self, catalog: Catalog, state: Path, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: seconds, of a clock that nobody sets."""
        self._catalog = catalog
        self._state = state
        self._files = ContextFiles(now)
        self._merged: dict[str, tuple[tuple[int, ...], dict[str, MemoryFile], Memory]] = {}

    def place(self, key: str, record: AgentRecord | None) -> ContextPlace:
        """The place of the context of agent ``key``; ``record`` is its row in the log. Does not block for long.

        Raises Refused (unknown_agent), BadDefinition where its file is wrong and never was right, or its context.dir.
        """
        if record is not None and record.origin != "file":
            return self.place_in_state(key)
        try:
            definition = self._catalog.agent(key).definition
        except BadDefinition:
            if record is None or record.definition is None:
                raise
            definition = _agent.decode(record.definition)
        root, said = os.path.realpath(self._catalog.root), context_dir(definition)
        real = os.path.relpath(os.path.realpath(os.path.join(root, said)), root)
        fault = "leads outside the project" if real.startswith(os.pardir) else dir_fault(real, key)
        if fault is not None:
            raise fail(self._catalog.file_of(key), f"{said[:200]!r} {fault}", where="context.dir")
        return ContextPlace(key, root, real, said)

    def place_in_state(self, key: str) -> ContextPlace:
        """The place of the context of an agent without a file."""
        return ContextPlace(key, str(self._state), quote(key, safe=_SAFE), f"the state of {key}")

    def read(self, place: ContextPlace, newest: int | None = None) -> Personal:
        """All of it, as the files have it now; of the notes the ``newest``, if so many are enough.

        Raises Refused where the context as a whole cannot be looked at.
        """
        memory, notes, todos = self.memory(place), self.notes(place, NotesAsked(newest)), self.todos(place)
        skipped = (*self.told(place, memory), *notes.skipped, *todos.skipped)
        return Personal(memory.kept, notes.notes, todos.todos, skipped)

    def told(self, place: ContextPlace, memory: Memory) -> tuple[str, ...]:
        """The parts of ``memory`` that could not be read, each with its file and line."""
        return tuple(one.shown(f"{place.shown}/{MEMORY}") for one in memory.skipped)

    def memory(self, place: ContextPlace) -> Memory:
        """The entries, core first."""
        return self._in(place, MEMORY, lambda folder: self._memory(place, folder)[0]) or Memory((), ())

    def change_memory(
        self, place: ContextPlace, decide: Callable[[Memory], Iterable[tuple[StoredEntry | None, Entry | None]]]
    ) -> tuple[StoredEntry, ...]:
        """Do what ``decide`` says of the entries there are now: each (None: a new one) and what is to be in its place.

        Returns those that were written. Raises Refused; of several changes the first may have been made then.
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
                    assert old is not None, "nothing is put in the place of nothing"
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
        """The notes that are ``asked`` for, all of them, the oldest first; files that are none are skipped."""

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
        """Write a note; its file is named by the time ``at`` (UTC) and its first words. Raises Refused.

        ``again``: the same may have been asked for before; if there is such a note of that time, that is it.
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
        """Remove a note. Raises Refused (not_found)."""
        missing = Refused("not_found", f"{place.agent} has no note {file[:200]!r}", "see which there are")
        if file not in {one.file for one in self.notes(place).notes}:
            raise missing
        with suppress(FileNotFoundError):
            self._changing(place, NOTES, lambda folder: os.unlink(file, dir_fd=folder))

    def todos(self, place: ContextPlace) -> Personal:
        """The items in the order of the file, and the lines that look like one and are none."""

        def look(folder: int) -> tuple[list[Item], list[str]]:
            try:
                return items_of(self._todo_text(place, folder))
            except OSError as error:
                return [], [why_not(error)]

        items, faults = self._in(place, TODO, look) or ([], [])
        return Personal(todos=tuple(items), skipped=tuple(f"{place.shown}/{TODO}/{TODO_FILE}: {one}" for one in faults))

    def change_todos(self, place: ContextPlace, change: Callable[[str], str]) -> Personal:
        """The list after ``change`` of its text. Raises Refused."""

        def write(folder: int) -> None:
            before = self._todo_text(place, folder)
            after = change(before)
            if after != before:
                put_here(folder, TODO_FILE, after)

        try:
            self._changing(place, TODO, write)
        except TodoRejected as error:
            raise Refused("not_found" if "no item" in str(error) else "bad_request", str(error)) from error
        return self.todos(place)

    def write_soul(self, place: ContextPlace, text: str, known: str) -> str | None:
        """Have ``text`` in the file of its soul, where that says ``known``, or nothing. Returns what else it says.

        Raises Refused.
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
        """Add an item; ``only_if`` there are as many of this text as that, for it may have been added before."""

        def add(before: str) -> str:
            count = sum(item.text == text for item in items_of(before)[0])
            return before if only_if is not None and count != only_if else with_item(before, text, trust)

        return self.change_todos(place, add)

    def move(self, source: ContextPlace, target: ContextPlace) -> None:
        """Give what an agent kept in the state to the agent with the file that it becomes; nothing there is replaced.

        Done once more after a crash it leaves the same. Raises Refused.
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
        """Remove what an agent without a file kept, that is gone. Raises nothing."""
        shutil.rmtree(self._state / quote(key, safe=_SAFE), ignore_errors=True)

    def blank_logs(self, traces: ProvenanceMarks) -> None:
        """Have nothing of ``traces`` in the kernel's own log files: each byte of it becomes a ``*``. Raises nothing."""
        for file in self._state.parent.glob(f"{LOG}*"):
            with suppress(OSError), open(file, "r+b", buffering=0) as log:
                for start, end in traces.find(log.read()):
                    os.pwrite(log.fileno(), b"*" * (end - start), start)
                os.fsync(log.fileno())

    def kept_for(self) -> tuple[str, ...]:
        """The keys of the agents whose contexts are in the state."""
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
                continue  # gone since it was listed
            except OSError as error:
                texts[file], files[file] = None, MemoryFile((), (Skipped(file, 0, why_not(error)),))
            else:
                texts[file], files[file] = seen.text, seen.entries
        at = f"{place.root}/{place.folder}"
        known = self._merged.get(at)
        if known is None or known[0] != tuple(map(id, files.values())):
            # The files are kept with what was made of them: an id is one of something that lives.
            known = self._merged[at] = tuple(map(id, files.values())), files, together(files)
        return known[2], texts

    def _todo_text(self, place: ContextPlace, folder: int) -> str:
        try:
            return self._files.read(f"{place.root}/{place.folder}/{TODO}", folder, TODO_FILE).text
        except FileNotFoundError:
            return ""

    def _in(self, place: ContextPlace, part: str, look: Callable[[int], T]) -> T | None:
        """``look`` at the folder ``part``; None where there is none. Raises Refused."""
        try:
            with closing_descriptor(open_folder(place.root, f"{place.folder}/{part}")) as folder:
                return look(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused("conflict", f"{place.shown}/{part} cannot be read: {error.strerror}") from error

    def _changing(self, place: ContextPlace, part: str, change: Callable[[int], T]) -> T:
        """``change`` what is in the folder ``part``, which is made if it is not there, with nobody else at it."""
        try:
            self._make_home(place)
            inside = f"{place.folder}/{part}"
            with closing_descriptor(open_folder(place.root, inside, make=True)) as folder, locked(folder):
                return change(folder)
        except NotSynced as error:
            text = f"{place.shown}/{part} was written, but perhaps not to the disk: {error.strerror}"
            raise Refused("storage_failed", text, "see to the disk, then look what is there") from error
        except OSError as error:
            text = f"{place.shown}/{part} cannot be written, and is as it was: {error.strerror or error}"
            raise Refused("storage_failed", text, "see to the disk or the folder, then ask again") from error

    def _make_home(self, place: ContextPlace) -> None:
        """The agent's own folder; one that we make is marked as such: only that goes when its agent is deleted (CF12).

        Raises OSError, Refused where it is another's.
        """
        if place.root == str(self._state):
            os.makedirs(os.path.join(place.root, place.folder), mode=0o700, exist_ok=True)
            return
        make_agent_folder(place.root, place.folder, place.agent)
        owner = place.agent
        if place.folder != default_dir(place.agent):
            with closing_descriptor(open_folder(place.root, place.folder)) as home, suppress(OSError):
                owner = marked_for(read_here(home, MARK)[0])
        if owner != place.agent and os.path.exists(os.path.join(place.root, agent_file(owner))):
            raise Refused("bad_definition", f"context.dir {place.shown!r} is {owner}'s", "give each its own")
