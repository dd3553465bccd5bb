"""Read the parts of an archive in batches, limited in rows and bytes.

There is one function per part; the table of parts (kernel.operations.archives) names the functions.
No snapshot stays open between two batches, so that a slow client blocks no checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

import apsw
import msgspec

from kernel.store import (
    agents,
    documents,
    entries,
    exchanges,
    instruction_views,
    resources,
    rows,
    task_views,
    voting,
    work_notes,
    workflows,
)
from kernel.store.messages import MESSAGES, SAID, message_of
from kernel.store.rows import RowPage
from kernel.store.workflows import WorkflowRecord
from protocol.archive import ArchivedEntry, ArchivedExchange, ArchivedStatus, ArchivedVersion
from protocol.names import instruction_id, number_of, split_space

T = TypeVar("T")
ROWS: Final = 200
CHARACTERS: Final = 1_000_000
"""Limit of text in one batch; the row that exceeds it is the last one."""
IDS: Final = 1000
TEXTS: Final = 64
"""Limit of versions of a document that are rebuilt together: each may have a quarter of a megabyte."""


class Scope(NamedTuple):
    """Contents of an archive: a run and its space, or (``run`` None) an agent's personal space.

    ``now_ms``: time of the archive. ``whole``: include data of the space that all its runs share.
    """

    space: str
    run: int | None
    now_ms: int
    whole: bool = True


class ArchiveBatch(NamedTuple):
    """Rows of a part. ``after``: position to pass for the next batch; None after the last one."""

    rows: tuple[msgspec.Struct, ...]
    after: tuple[int, int] | None


START: Final = (0, 0)
Read = Callable[[apsw.Connection, Scope, tuple[int, int]], ArchiveBatch]
"""Function that reads the rows of a part after a position: the number of a row, and of a row within it."""

# Two statements, one per index: for a run, and for messages outside of runs.
SAID_IN_RUN: Final = f"""
{MESSAGES} WHERE run = :run AND space = :space AND seq > :after AND {SAID} ORDER BY seq LIMIT :limit
"""
SAID_IN_SPACE: Final = f"{MESSAGES} WHERE space = :space AND seq > :after AND {SAID} ORDER BY seq LIMIT :limit"


def channel(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the messages of the channel, in order."""
    values = {"run": scope.run, "space": scope.space, "after": after[0], "limit": ROWS}
    found = conn.execute(SAID_IN_SPACE if scope.run is None else SAID_IN_RUN, values)
    said = tuple(_bounded(map(message_of, found), lambda message: len(message.text)))
    return ArchiveBatch(said, (said[-1].seq, 0) if said else None)


RESOURCES: Final = "SELECT number, id FROM resources WHERE space = ? AND number > ? ORDER BY number LIMIT ?"


def kept_texts(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the resources with their texts."""
    ids = conn.execute(RESOURCES, (scope.space, after[0], ROWS)).fetchall() if scope.whole else []
    texts = ((int(str(number)), resources.read(conn, str(name), scope.space, 0, None)) for number, name in ids)
    shown = tuple(_bounded(texts, lambda one: 0 if one[1] is None else one[1].characters))
    return ArchiveBatch(tuple(text for _, text in shown if text is not None), (shown[-1][0], 0) if shown else None)


def versions(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return all versions of documents. A position is a document's row number and a version."""
    if scope.run is None or not scope.whole:
        return ArchiveBatch((), None)
    shown = tuple(_bounded(_versions(conn, scope.space, after), lambda one: len(one[1].content or "")))
    return ArchiveBatch(tuple(row for _, row in shown), shown[-1][0] if shown else None)


DOCUMENTS: Final = "SELECT id, file FROM documents WHERE space = ? AND id >= ? ORDER BY id"
VERSIONS: Final = """
SELECT :file AS file, version, action, author, instruction, run, at_ms AS at, reason, added, removed,
  message AS message_id
FROM document_versions WHERE document = :document AND version > :after ORDER BY version LIMIT :limit
"""


def _versions(
    conn: apsw.Connection, space: str, after: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], ArchivedVersion]]:
    for number, file in conn.execute(DOCUMENTS, (space, after[0])).fetchall():
        document = documents.find(conn, space, str(file))
        assert document is not None, "it is of this list"
        behind = after[1] if number == after[0] else 0
        here = documents.settings(conn, space)
        # As many versions as fit into a batch if they are as long as the newest.
        limit = max(1, min(TEXTS, CHARACTERS // max(1, len(document.content))))
        while behind < document.version:
            values = {"document": document.id, "file": document.file, "after": behind, "limit": limit}
            found = rows.all_(conn.execute(VERSIONS, values), VERSIONS, ArchivedVersion, **documents.MADE)
            if not found:
                break
            texts = documents.texts_of(conn, document, found[0].version, found[-1].version)
            for row in found:
                newest = row.version == document.version and not document.deleted
                owner, entry = (here.owner(row.file), row.file == here.entry) if newest else (None, False)
                content = None if row.action == "delete" else texts[row.version]
                told = {"content": content, "owner": owner, "entry": entry, "newest": newest}
                yield (document.id, row.version), msgspec.structs.replace(row, **told)
            behind = found[-1].version


SUGGESTED: Final = """
SELECT number FROM decisions WHERE kind = 'document' AND owner = ? AND number > ? ORDER BY number LIMIT ?
"""


def suggested(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the suggestions for documents, with their decisions."""
    if scope.run is None or not scope.whole:
        return ArchiveBatch((), None)
    ids = [int(str(number)) for (number,) in conn.execute(SUGGESTED, (scope.space, after[0], ROWS))]
    infos = (documents.suggestion_info(conn, scope.space, f"s{number}") for number in ids)
    shown = tuple(_bounded(infos, lambda one: len(one.content) + len(one.diff)))
    return ArchiveBatch(shown, (ids[len(shown) - 1], 0) if shown else None)


def planned(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the tasks by number."""
    if scope.run is None or not scope.whole:
        return ArchiveBatch((), None)
    found = task_views.listed(conn, scope.space, RowPage(ROWS, after[0])).tasks
    shown = tuple(_bounded(found, lambda one: len(one.text) + len(one.result) + len(one.reason)))
    return ArchiveBatch(shown, (number_of(shown[-1].id, "t") or 0, 0) if shown else None)


def statuses(conn: apsw.Connection, scope: Scope, _after: tuple[int, int]) -> ArchiveBatch:
    """Return the statuses of agents, in one batch."""
    key = split_space(scope.space)[1]
    there = ((key, key),) if scope.run is None else tuple((m.key, m.name) for m in agents.members(conn, scope.space))
    said = ((name, work_notes.status(conn, key, scope.space)) for key, name in there if scope.whole)
    shown = (ArchivedStatus(agent=name, **msgspec.structs.asdict(one)) for name, one in said if one is not None)
    return ArchiveBatch(tuple(shown), None)


def votes(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the proposals, each with all its votes."""
    if scope.run is None:
        return ArchiveBatch((), None)
    found = voting.of_run_there(conn, scope.space, RowPage(ROWS, after[0]), scope.run)
    return ArchiveBatch(found.proposals, None if found.next is None else (number_of(found.next, "p") or 0, 0))


def instructions(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the instructions with their results."""
    ids = _ids(conn, scope, after[0])
    infos = (instruction_views.info(conn, instruction_id(number), scope.now_ms) for number in ids)
    kept = (one for one in infos if one is not None)
    shown = tuple(_bounded(kept, lambda one: len(one.text) + sum(len(a.stderr_tail or "") for a in one.attempts)))
    last = number_of(shown[-1].id, "i") if shown else None
    return ArchiveBatch(shown, None if last is None else (last, 0))


def transcript(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the steps of instructions without secrets. A position: instruction, entry number."""
    done: list[ArchivedEntry] = []
    size, entry = 0, after[1]
    ids = (*([after[0]] if entry else []), *_ids(conn, scope, after[0]))
    for number in ids:
        found = entries.transcript(conn, instruction_id(number), entry, ROWS)
        entry = 0
        if found is None:
            continue
        done += (ArchivedEntry(instruction=found.id, agent=found.agent, entry=one) for one in found.entries)
        size += sum(len(one.output or "") + len(one.text or "") for one in found.entries)
        if found.next is not None:
            return ArchiveBatch(tuple(done), (number, int(found.next)))
        if len(done) >= ROWS or size >= CHARACTERS:
            return ArchiveBatch(tuple(done), (number, 0))
    return ArchiveBatch(tuple(done), (ids[-1], 0) if len(ids) >= IDS else None)


def wire(conn: apsw.Connection, scope: Scope, after: tuple[int, int]) -> ArchiveBatch:
    """Return the recorded exchanges of instructions. A position: instruction, exchange number."""
    ids = (*([after[0]] if after[1] else []), *_ids(conn, scope, after[0]))
    for number in ids:
        found = exchanges.report(conn, instruction_id(number), after[1] if number == after[0] else 0, ROWS)
        rows = tuple(ArchivedExchange(instruction=found.id, exchange=one) for one in found.exchanges)
        if rows:
            return ArchiveBatch(rows, (number, 0 if found.next is None else int(found.next)))
    return ArchiveBatch((), (ids[-1], 0) if len(ids) >= IDS else None)


RUNS_AT: Final = "SELECT id FROM workflows WHERE name = ? AND tag = ? AND id > ? ORDER BY id LIMIT 1"


def next_run(conn: apsw.Connection, place: str, after: int) -> WorkflowRecord | None:
    """Return the first run of the workflow ``place`` with a number above ``after``, or None."""
    number = conn.execute(RUNS_AT, (*split_space(place), after)).get
    return None if number is None else workflows.by_id(conn, number)


IDS_OF_RUN: Final = """
SELECT id FROM instructions WHERE run = :run AND space = :space AND id > :after ORDER BY id LIMIT :limit
"""
IDS_OF_AGENT: Final = """
SELECT id FROM instructions WHERE agent = :agent AND space = :space AND ended_ms IS NOT NULL AND id > :after
UNION SELECT id FROM instructions
WHERE space = :space AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') AND id > :after
ORDER BY id LIMIT :limit
"""


def _ids(conn: apsw.Connection, scope: Scope, after: int) -> tuple[int, ...]:
    agent = split_space(scope.space)[1]
    values = {"run": scope.run, "space": scope.space, "agent": agent, "after": after, "limit": IDS}
    return tuple(number for (number,) in conn.execute(IDS_OF_AGENT if scope.run is None else IDS_OF_RUN, values))


def _bounded(rows: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    total = 0
    for count, row in enumerate(rows, 1):
        yield row
        total += size(row)
        if total >= CHARACTERS or count >= ROWS:
            return
