"""Memory, notes and todo lists of agents, for the people who own the files; and purges by source.

Entries that are written here have a person as their author. The files are the only copy
(kernel.agents.personal_context).
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal

import msgspec
import trio

from kernel.agents.context_files import NotesPage
from kernel.agents.context_purge import all_of, holding, purge_copies, removal, trashed
from kernel.agents.personal_context import ContextPlace, Personal
from kernel.operations.context import MemoryAccess, ProjectFiles, StoreAccess, agent_key, context_of
from kernel.operations.operation import Actor, After, Limit, OfAgent, operation
from kernel.policy.provenance import ProvenanceMarks, chosen
from kernel.source.diagnostics import BadDefinition
from kernel.store.agents import set_agent_state
from kernel.store.database import saved_beside
from kernel.store.idempotency import BEGUN, find_response, record_response
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from kernel.store.transitions.purge import purge as purge_log
from protocol.agent_files import MemoryPurged, MemoryReport, NotesReport, TodoReport, memory_rows, note_rows, todo_rows
from protocol.agent_memory import (
    BY_HAND,
    CLASSES,
    TEXT_LIMIT,
    TODO_TEXT_LIMIT,
    VALUE_LIMIT,
    Entry,
    Tier,
    Visibility,
    matches,
    with_done,
    without,
)
from protocol.api.document import Ask
from protocol.errors import Refused
from protocol.memory_files import Memory, StoredEntry
from protocol.names import AgentKey, name_of, number_of


class MemoryReadRequest(OfAgent, frozen=True, kw_only=True):
    """Filter of an agent's memory entries."""

    key: Annotated[str, msgspec.Meta(description="Key of one entry.")] | None = None
    query: Annotated[str, msgspec.Meta(description="Words that an entry must contain.")] = ""
    limit: Limit = LONGEST
    after: After = None


class EntryRequest(OfAgent, frozen=True, kw_only=True):
    """Request that names an entry of an agent's memory."""

    path: str


class EntryWords(Ask, frozen=True, kw_only=True):
    """Memory entry to write. Omitted fields keep their values."""

    value: Annotated[
        str, msgspec.Meta(min_length=1, max_length=VALUE_LIMIT, description="Information to remember, in short.")
    ]
    tier: (
        Annotated[
            Tier,
            msgspec.Meta(
                description="core: in every prompt. working: in prompts with similar words. archive: in none."
            ),
        ]
        | None
    ) = None
    visibility: (
        Annotated[
            Visibility, msgspec.Meta(description="Colleagues get: private nothing, shareable excerpts, public all.")
        ]
        | None
    ) = None


class MemoryPut(EntryWords, frozen=True, kw_only=True):
    """Memory entry to write, by its key. Omitted fields keep their values."""

    name: str
    path: str


class PurgeRequest(OfAgent, frozen=True, kw_only=True):
    """``source``: the id of a message, or a trust class. All entries from this source are purged."""

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]


class NotePut(OfAgent, frozen=True, kw_only=True):
    """Note to store."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_LIMIT)]
    title: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class NoteRequest(OfAgent, frozen=True, kw_only=True):
    """Request that names a note of an agent."""

    file: str


class TodoText(Ask, frozen=True, kw_only=True):
    """Todo item to add."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=TODO_TEXT_LIMIT, description="Text of one line.")]


class TodoPut(TodoText, frozen=True, kw_only=True):
    """Todo item to add to an agent's list."""

    name: str


class TodoItemRequest(OfAgent, frozen=True, kw_only=True):
    """Request that names an item of the todo list."""

    n: str


class TodoState(TodoItemRequest, frozen=True, kw_only=True):
    """New state of an item of an agent's todo list."""

    done: Literal[True]


async def read_memory(asked: MemoryReadRequest, store: StoreAccess, files: ProjectFiles) -> MemoryReport:
    """List the entries of an agent's memory, core first: all entries, those with all words of a query, or one."""
    place = _place(asked, store, files)
    memory = await trio.to_thread.run_sync(files.contexts.memory, place)
    found = [one for one in memory.kept if asked.key in (None, one.entry.key) and matches(one.entry, asked.query)]
    if asked.key is not None and not found:
        raise _unknown(place, asked.key)
    first = 1 + next((n for n, one in enumerate(found) if one.entry.key == asked.after), -1)
    shown = found[first : first + asked.limit]
    more = first + len(shown) < len(found)
    return MemoryReport(
        agent=name_of(place.agent),
        entries=memory_rows(shown),
        skipped=files.contexts.unreadable_parts(place, memory),
        total=len(found),
        next=shown[-1].entry.key if more else None,
    )


async def write_memory(asked: MemoryPut, store: StoreAccess, files: ProjectFiles) -> MemoryReport:
    """Write a memory entry on behalf of a person. Omitted fields keep their values, and a repeat changes nothing."""
    place, key = _place(asked, store, files), asked.path

    def decide(memory: Memory) -> list[tuple[StoredEntry | None, Entry | None]]:
        old = memory.find(key)
        was = Entry(key, asked.value) if old is None else old.entry
        new = msgspec.structs.replace(
            was,
            value=asked.value,
            tier=asked.tier or was.tier,
            visibility=asked.visibility or was.visibility,
            source=BY_HAND,
            at=None,
        )
        return [(old, new)]

    stored = await trio.to_thread.run_sync(files.contexts.change_memory, place, decide)
    return _report(place, stored)


async def forget_memory(asked: EntryRequest, store: StoreAccess, files: ProjectFiles) -> MemoryReport:
    """Delete a memory entry from all files."""
    place, key = _place(asked, store, files), asked.path
    gone: list[StoredEntry] = []

    def decide(memory: Memory) -> list[tuple[StoredEntry | None, Entry | None]]:
        found = memory.find(key)
        gone.extend([] if found is None else [found])
        return [] if found is None else [(found, None)]

    removed = -1
    while removed < len(gone):
        removed = len(gone)
        await trio.to_thread.run_sync(files.contexts.change_memory, place, decide)
    if not gone:
        raise _unknown(place, key)
    return _report(place, ())


async def purge(asked: PurgeRequest, store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> MemoryPurged:
    """Delete all entries of a source, and the entries derived from them."""
    what = asked.source
    if what not in CLASSES and number_of(what, "m") is None:
        hint = f"name a message (m12), or a class: {', '.join(CLASSES)}"
        raise Refused("bad_request", f"{what!r} is not a source", hint)
    place = _place(asked, store, files)
    key = AgentKey(place.agent)
    known = await trio.to_thread.run_sync(files.contexts.memory, place)
    meant = [one for one in all_of(known) if chosen(what, one.source)]
    traces = await trio.to_thread.run_sync(ProvenanceMarks, [(one.key, one.value) for one in meant])
    # The log first: the agent receives no work until its files are purged, even after a crash.
    wiped = await store.writer.commit(purge_log, key, traces)
    try:
        places: list[ContextPlace] = []
        for one in sorted({*files.catalog.names(), *files.contexts.kept_for()}) if meant else ():
            with suppress(Refused, BadDefinition):  # An agent without a valid definition has no memory.
                places.append(context_of(store, files, AgentKey(one)))
        copies = await trio.to_thread.run_sync(purge_copies, files.contexts, places, traces, meant)
        if any(copies):  # Agents may have received copies meanwhile.
            again = await store.writer.commit(purge_log, key, traces)
            wiped = again._replace(
                messages=(*wiped.messages, *again.messages),
                instructions=tuple(dict.fromkeys((*wiped.instructions, *again.instructions))),
                homes=(*wiped.homes, *again.homes),
                paused=wiped.paused,
            )
        if meant:
            await trio.to_thread.run_sync(files.contexts.change_memory, place, removal(meant))
        await trio.to_thread.run_sync(files.contexts.blank_logs, traces)
        for copy in memory.derived:
            await copy.purge(None, messages=wiped.messages, instructions=wiped.instructions)
            for owner in dict.fromkeys((key, *copies.agents)):
                await copy.purge(owner, kept=True)
        if meant:
            await store.homes.forget(key, None)
        for agent, space in wiped.homes:
            await store.homes.forget(agent, space)
        await store.mirror.redo()
        left = wiped.left
        if meant:
            root = str(files.catalog.root)
            left += await trio.to_thread.run_sync(lambda: (*holding(places, traces), *trashed(root, traces)))
            left += tuple(f"copy of the database {path}" for path in await store.reader.read(saved_beside))
    finally:
        if wiped.paused:
            with trio.CancelScope(shield=True):
                await store.writer.commit(set_agent_state, key, "active")
    return MemoryPurged(
        agent=name_of(key),
        source=what,
        entries=len(meant) + copies.entries,
        notes=copies.notes,
        todos=copies.todos,
        messages=len(wiped.messages),
        instructions=len(wiped.instructions),
        left=left,
    )


async def read_notes(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> NotesReport:
    """List the notes of an agent, the oldest first."""
    place = _place(asked, store, files)
    return _notes(place, await trio.to_thread.run_sync(files.contexts.notes, place))


async def write_note(asked: NotePut, actor: Actor, store: StoreAccess, files: ProjectFiles) -> NotesReport:
    """Write a note. The answer contains only this note."""
    place = _place(asked, store, files)
    begun = await _begin(actor, store, 0)
    note = await trio.to_thread.run_sync(
        partial(files.contexts.add_note, place, asked.text, asked.title, begun.at_ms / 1000, again=begun.again)
    )
    notes = await trio.to_thread.run_sync(files.contexts.notes, place)
    report = _notes(place, notes)
    return msgspec.structs.replace(report, notes=tuple(one for one in report.notes if one.file == note.file))


async def forget_note(asked: NoteRequest, store: StoreAccess, files: ProjectFiles) -> NotesReport:
    """Delete a note."""
    place = _place(asked, store, files)
    await trio.to_thread.run_sync(files.contexts.remove_note, place, asked.file)
    return _notes(place, await trio.to_thread.run_sync(files.contexts.notes, place))


async def read_todo(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """List the todo items of an agent, in the order of its file."""
    place = _place(asked, store, files)
    return _todo(place, await trio.to_thread.run_sync(files.contexts.todos, place))


async def write_todo(asked: TodoPut, actor: Actor, store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """Add a todo item."""
    place, text = _place(asked, store, files), " ".join(asked.text.split())
    listed = (await trio.to_thread.run_sync(files.contexts.todos, place)).todos
    begun = await _begin(actor, store, sum(one.text == text for one in listed))
    only_if = begun.before if begun.again else None
    return _todo(place, await trio.to_thread.run_sync(files.contexts.add_todo, place, text, only_if))


async def finish_todo(asked: TodoState, store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """Mark a todo item as done."""
    place, number = _place(asked, store, files), _item(asked)
    done = await trio.to_thread.run_sync(files.contexts.change_todos, place, partial(with_done, number=number))
    return _todo(place, done)


async def forget_todo(asked: TodoItemRequest, store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """Delete a todo item."""
    place, number = _place(asked, store, files), _item(asked)
    left = await trio.to_thread.run_sync(files.contexts.change_todos, place, partial(without, number=number))
    return _todo(place, left)


class _Begun(msgspec.Struct, frozen=True):
    """Start of a write: time, and number of equal entries before it. ``again``: a repeat."""

    at_ms: int
    before: int
    again: bool = False


async def _begin(actor: Actor, store: StoreAccess, before: int) -> _Begun:
    """Record the start of a write, or return the recorded start of a repeated request. After a
    crash, ``before`` shows whether the earlier write is complete."""
    key = actor.request_key

    def begin(tx: Transaction) -> _Begun:
        found = None if key is None else find_response(tx.conn, key, tx.now_ms)
        if found is not None:
            return msgspec.structs.replace(msgspec.json.decode(found.response, type=_Begun), again=True)
        begun = _Begun(tx.now_ms, before)
        if key is not None:
            record_response(tx, key, msgspec.json.encode(begun), BEGUN)
        return begun

    return await store.writer.commit(begin)


def _place(asked: OfAgent | MemoryPut | TodoPut, store: StoreAccess, files: ProjectFiles) -> ContextPlace:
    return context_of(store, files, agent_key(store, asked.name))


def _item(asked: TodoItemRequest) -> int:
    text = asked.n
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise Refused("not_found", f"todo item {text[:40]!r} not found", "items are numbered from 1")
    return int(text)


def _report(place: ContextPlace, stored: Iterable[StoredEntry]) -> MemoryReport:
    rows = memory_rows(stored)
    return MemoryReport(agent=name_of(place.agent), entries=rows, total=len(rows))


def _notes(place: ContextPlace, found: NotesPage) -> NotesReport:
    return NotesReport(agent=name_of(place.agent), notes=note_rows(found.notes), skipped=found.skipped)


def _todo(place: ContextPlace, found: Personal) -> TodoReport:
    return TodoReport(agent=name_of(place.agent), items=todo_rows(found.todos), skipped=found.skipped)


def _unknown(place: ContextPlace, key: str) -> Refused:
    hint = f"list the entries with `awk agent memory {name_of(place.agent)}`"
    return Refused("not_found", f"{name_of(place.agent)} has no memory entry {key[:200]!r}", hint)


MEMORY, NOTES, TODO = "/agents/<name>/memory", "/agents/<name>/notes", "/agents/<name>/todo"
OPERATIONS = (
    operation(read_memory, f"GET {MEMORY}", people_only=True),
    operation(write_memory, f"PUT {MEMORY}/<path:path>", scope="approve"),
    operation(forget_memory, f"DELETE {MEMORY}/<path:path>", scope="admin"),
    operation(purge, f"POST {MEMORY}/purge", scope="admin"),
    operation(read_notes, f"GET {NOTES}", people_only=True),
    operation(write_note, f"POST {NOTES}"),
    operation(forget_note, f"DELETE {NOTES}/<file>", scope="admin"),
    operation(read_todo, f"GET {TODO}", people_only=True),
    operation(write_todo, f"POST {TODO}"),
    operation(finish_todo, f"PUT {TODO}/<n>"),
    operation(forget_todo, f"DELETE {TODO}/<n>"),
)
