"""Routes of what agents keep: memory, notes and todo list, for the people who own the files; and its purge.

What is written here is a person's word. The files are the truth (kernel.agents.personal_context).
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import trio

from kernel.agents.context_notes import NotesPage
from kernel.agents.context_purge import all_of, holding, purge_copies, removal, trashed
from kernel.agents.personal_context import ContextPlace, Personal
from kernel.api.http.route import Request
from kernel.operations.context import MemoryAccess, ProjectFiles, StoreAccess
from kernel.operations.places import agent_key
from kernel.policy.provenance import Traces, chosen
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents
from kernel.store.agents import set_agent_state
from kernel.store.database import saved_beside
from kernel.store.idempotency import BEGUN, find_response, record_response
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from kernel.store.transitions.purge import purge as purge_log
from protocol.agent_files import (
    MemoryPurged,
    MemoryPut,
    MemoryReport,
    NotePut,
    NotesReport,
    PurgeRequest,
    TodoPut,
    TodoReport,
    TodoState,
    memory_rows,
    note_rows,
    todo_rows,
)
from protocol.agent_memory import BY_HAND, CLASSES, Entry, matches, with_done, without
from protocol.errors import Refused
from protocol.memory_files import Memory, StoredEntry
from protocol.names import AgentKey, name_of, number_of


def _place(call: Request[Any], store: StoreAccess, files: ProjectFiles) -> ContextPlace:
    key = agent_key(store, call.args["name"])
    return files.contexts.place(key, store.reader.now(agents.row, key))


async def read_memory(call: Request[None], store: StoreAccess, files: ProjectFiles) -> MemoryReport:
    """GET /agents/:name/memory?query=&key=&after=: all entries, core first; those with all words, or the one."""
    place = _place(call, store, files)
    memory = await trio.to_thread.run_sync(files.contexts.memory, place)
    key, query = call.query.get("key"), call.query.get("query", "")
    found = [one for one in memory.kept if key in (None, one.entry.key) and matches(one.entry, query)]
    if key is not None and not found:
        raise _unknown(place, key)
    after, limit = call.query.get("after"), call.number("limit", LONGEST)
    first = 1 + next((n for n, one in enumerate(found) if one.entry.key == after), -1)
    shown = found[first : first + limit]
    more = first + len(shown) < len(found)
    return MemoryReport(
        agent=name_of(place.agent),
        entries=memory_rows(shown),
        skipped=files.contexts.told(place, memory),
        total=len(found),
        next=shown[-1].entry.key if more else None,
    )


async def write_memory(call: Request[MemoryPut], store: StoreAccess, files: ProjectFiles) -> MemoryReport:
    """PUT /agents/:name/memory/*path: a person's word; what is left out stays. Done again it changes nothing."""
    place, key, asked = _place(call, store, files), call.args["path"], call.body

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


async def forget_memory(call: Request[None], store: StoreAccess, files: ProjectFiles) -> MemoryReport:
    """DELETE /agents/:name/memory/*path: in every file that has it."""
    place, key = _place(call, store, files), call.args["path"]
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


async def purge(
    call: Request[PurgeRequest], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess
) -> MemoryPurged:
    """POST /agents/:name/memory/purge {source}: remove entries of a source, and all that was derived from them.

    The log first: until the files are without them the agent is given no work, and who dies between asks again.
    """
    what = call.body.source
    if what not in CLASSES and number_of(what, "m") is None:
        raise Refused(
            "bad_request", f"{what!r} is no source", f"name a message (m12), or a class: {', '.join(CLASSES)}"
        )
    place = _place(call, store, files)
    key = AgentKey(place.agent)
    known = await trio.to_thread.run_sync(files.contexts.memory, place)
    meant = [one for one in all_of(known) if chosen(what, one.source)]
    traces = await trio.to_thread.run_sync(Traces, [(one.key, one.value) for one in meant])
    wiped = await store.writer.commit(purge_log, key, traces)
    try:
        places = _places(store, files) if meant else ()
        copies = await trio.to_thread.run_sync(purge_copies, files.contexts, places, traces, meant)
        if any(copies):  # somebody may have had them before its eyes since
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
            left += tuple(f"the copy of the database {path}" for path in await store.reader.read(saved_beside))
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


def _places(store: StoreAccess, files: ProjectFiles) -> list[ContextPlace]:
    """The places of what all agents keep; an agent whose definition never was right keeps nothing yet."""
    found: list[ContextPlace] = []
    for key in sorted({*files.catalog.names(), *files.contexts.kept_for()}):
        with suppress(Refused, BadDefinition):
            found.append(files.contexts.place(key, store.reader.now(agents.row, key)))
    return found


async def read_notes(call: Request[None], store: StoreAccess, files: ProjectFiles) -> NotesReport:
    """GET /agents/:name/notes: the oldest first."""
    place = _place(call, store, files)
    return _notes(place, await trio.to_thread.run_sync(files.contexts.notes, place))


async def write_note(call: Request[NotePut], store: StoreAccess, files: ProjectFiles) -> NotesReport:
    """POST /agents/:name/notes: keep one; the answer has only that."""
    place, asked = _place(call, store, files), call.body
    begun = await _begin(call, store, 0)
    note = await trio.to_thread.run_sync(
        partial(files.contexts.add_note, place, asked.text, asked.title, begun.at_ms / 1000, again=begun.again)
    )
    notes = await trio.to_thread.run_sync(files.contexts.notes, place)
    report = _notes(place, notes)
    return msgspec.structs.replace(report, notes=tuple(one for one in report.notes if one.file == note.file))


async def forget_note(call: Request[None], store: StoreAccess, files: ProjectFiles) -> NotesReport:
    """DELETE /agents/:name/notes/:file: delete a note."""
    place = _place(call, store, files)
    await trio.to_thread.run_sync(files.contexts.remove_note, place, call.args["file"])
    return _notes(place, await trio.to_thread.run_sync(files.contexts.notes, place))


async def read_todo(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """GET /agents/:name/todo: in the order of the file."""
    place = _place(call, store, files)
    return _todo(place, await trio.to_thread.run_sync(files.contexts.todos, place))


async def write_todo(call: Request[TodoPut], store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """POST /agents/:name/todo: add an item."""
    place, text = _place(call, store, files), " ".join(call.body.text.split())
    listed = (await trio.to_thread.run_sync(files.contexts.todos, place)).todos
    begun = await _begin(call, store, sum(one.text == text for one in listed))
    only_if = begun.before if begun.again else None
    return _todo(place, await trio.to_thread.run_sync(files.contexts.add_todo, place, text, only_if))


async def finish_todo(call: Request[TodoState], store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """PUT /agents/:name/todo/:n {done: true}: tick it off."""
    place, number = _place(call, store, files), _item(call)
    done = await trio.to_thread.run_sync(files.contexts.change_todos, place, partial(with_done, number=number))
    return _todo(place, done)


async def forget_todo(call: Request[None], store: StoreAccess, files: ProjectFiles) -> TodoReport:
    """DELETE /agents/:name/todo/:n: delete an item."""
    place, number = _place(call, store, files), _item(call)
    left = await trio.to_thread.run_sync(files.contexts.change_todos, place, partial(without, number=number))
    return _todo(place, left)


class _Begun(msgspec.Struct, frozen=True):
    """A write as it was begun: when, and how many of the same there were."""

    at_ms: int
    before: int
    again: bool = False


async def _begin(call: Request[Any], store: StoreAccess, before: int) -> _Begun:
    """Begin a write, once for each Idempotency-Key: what was begun before may have been done."""
    key = call.request_key

    def begin(tx: Transaction) -> _Begun:
        found = None if key is None else find_response(tx.conn, key, tx.now_ms)
        if found is not None:
            return msgspec.structs.replace(msgspec.json.decode(found.response, type=_Begun), again=True)
        begun = _Begun(tx.now_ms, before)
        if key is not None:
            record_response(tx, key, msgspec.json.encode(begun), BEGUN)
        return begun

    return await store.writer.commit(begin)


def _item(call: Request[Any]) -> int:
    text = call.args["n"]
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise Refused("not_found", f"there is no item {text[:40]!r}", "items are numbered from 1")
    return int(text)


def _report(place: ContextPlace, stored: Iterable[StoredEntry]) -> MemoryReport:
    rows = memory_rows(stored)
    return MemoryReport(agent=name_of(place.agent), entries=rows, total=len(rows))


def _notes(place: ContextPlace, found: NotesPage) -> NotesReport:
    return NotesReport(agent=name_of(place.agent), notes=note_rows(found.notes), skipped=found.skipped)


def _todo(place: ContextPlace, found: Personal) -> TodoReport:
    return TodoReport(agent=name_of(place.agent), items=todo_rows(found.todos), skipped=found.skipped)


def _unknown(place: ContextPlace, key: str) -> Refused:
    hint = f"see what there is: awk agent memory {name_of(place.agent)}"
    return Refused("not_found", f"{name_of(place.agent)} knows nothing of {key[:200]!r}", hint)
