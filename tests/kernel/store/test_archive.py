"""What an archive is read by: whatever the rows, each is there once, in order, and no answer is long."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.store import archive
from kernel.store.archive import CHARACTERS, ROWS, START, ArchiveBatch, Read, Scope
from kernel.store.database import MEMORY
from protocol.archive import ArchivedEntry, ArchivedVersion
from protocol.ipc import Entry
from protocol.message import Message
from tests.kernel.store.migrated import open_migrated

pytestmark = pytest.mark.promise("P43")

SAID = """
INSERT INTO messages (seq, kind, space, sender, addressed, text, hops, run, at_ms)
VALUES (?, ?, ?, 'alice', '', ?, 0, ?, 0)
"""
WORK = """
INSERT INTO instructions (id, agent, name, space, run, lane, state, message, hops, enqueued_ms, ended_ms)
VALUES (?, 'alice', 'alice', ?, ?, 1, ?, 1, 0, 0, ?)
"""
DONE = "INSERT INTO entries (instruction, k, epoch, kind, body, at_ms) VALUES (?, ?, 1, ?, ?, 0)"
BALLOT = """
INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, binding, creator, hops,
  created_ms, expires_ms, state)
VALUES ('review:main#1', ?, ?, 'decision', 't', '', x'5b5d', 'plurality', 1, 0, 'alice', 0, 0, 1000, 'cancelled')
"""
RUNS = """
INSERT INTO workflows (id, space, name, tag, mode, file, definition, params, vouched, state, started_ms, hops_limit,
  instructions_limit)
VALUES (1, 'review:main#1', 'review', 'main', 'start', 'review.yaml', x'7b7d', x'7b7d', x'7b7d', 'running', 0, 9, 9)
"""
DOCUMENT = "INSERT INTO documents (id, space, file, version, content, deleted) VALUES (?, 'review:main#1', ?, ?, ?, ?)"
VERSION = """
INSERT INTO document_versions (document, version, action, message, author, at_ms, reason, added, removed, undo)
VALUES (?, ?, ?, 1, 'alice', 0, '', 0, 0, x'5b5d')
"""
TASK = """
INSERT INTO tasks (space, n, title, text, files, vouched, confined, state, creator, hops, created_ms)
VALUES ('review:main#1', ?, 't', ?, x'5b5d', 0, 0, 'ready', 'alice', 0, 0)
"""
RUN = Scope("review:main#1", 1, 0)
PERSONAL = Scope("dm:alice", None, 0)


def everything(conn: Any, read: Read, scope: Scope) -> list[msgspec.Struct]:
    """All rows of a part, and each answer within its bounds."""
    rows: list[msgspec.Struct] = []
    after: tuple[int, int] | None = START
    while after is not None:
        batch: ArchiveBatch = read(conn, scope, after)
        sizes = [len(msgspec.json.encode(row)) for row in batch.rows]
        assert len(sizes) <= 2 * ROWS
        assert sum(sizes[:-1]) < 2 * CHARACTERS
        assert batch.after != after
        rows += batch.rows
        after = batch.after
    return rows


LONG = st.sampled_from([0, 1, 300, CHARACTERS // 3, CHARACTERS])


@settings(
    max_examples=settings.get_profile("untimed").max_examples // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2, None]), st.booleans(), LONG), max_size=30),
    st.integers(0, 3 * ROWS),
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from([0, ROWS, 2 * ROWS + 1])), max_size=5),
)
def test_each_row_is_read_once_and_in_order(
    spoken: list[tuple[int | None, bool, int]], more: int, work: list[tuple[bool, int, int]]
) -> None:
    database = open_migrated(MEMORY)
    conn = database.writer()
    said: list[tuple[Any, ...]] = []
    for seq, (run, fact, size) in enumerate([*spoken, *[(1, False, 1)] * more], 1):
        space = "dm:alice" if run is None else "review:main#1"
        said.append((seq, "done" if fact else "said", space, "x" * size, run))
    conn.executemany(SAID, said)
    for number, (personal, few, many) in enumerate(work, 1):
        space, run, ended = ("dm:alice", None, None if few % 2 else 1) if personal else ("review:main#1", 1, 1)
        conn.execute(WORK, (number, space, run, "queued" if ended is None else "done", ended))
        steps = (Entry(k=k, kind="reply", text="x" * 50) for k in range(few + many))
        bodies = [(number, one.k, one.kind, msgspec.json.encode(one)) for one in steps]
        conn.executemany(DONE, bodies)
    for number in range(more // 2):
        conn.execute(BALLOT, (1 + number % 2, f"p{number}"))
    for scope in (RUN, PERSONAL):
        messages = everything(conn, archive.channel, scope)
        wanted = [row[0] for row in said if row[4] == scope.run and row[1] == "said"]
        assert [one.seq for one in messages if isinstance(one, Message)] == wanted
        own = [number for number, row in enumerate(work, 1) if row[0] == (scope.run is None)]
        assert [one.id for one in everything(conn, archive.instructions, scope)] == [f"i{n}" for n in own]  # type: ignore[attr-defined]
        entries = everything(conn, archive.transcript, scope)
        assert [(one.instruction, one.entry.n) for one in entries if isinstance(one, ArchivedEntry)] == [
            (f"i{number}", k + 1) for number in own for k in range(work[number - 1][1] + work[number - 1][2])
        ]
    votes = everything(conn, archive.votes, RUN)
    assert [one.id for one in votes] == [f"p{number}" for number in range(0, more // 2, 2)]  # type: ignore[attr-defined]
    assert everything(conn, archive.votes, PERSONAL) == []
    database.close()


@settings(max_examples=settings.get_profile("untimed").max_examples // 5, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 3, ROWS, 2 * ROWS + 1]), LONG, st.booleans()), max_size=5),
    st.lists(LONG, max_size=2 * ROWS),
)
def test_each_version_and_each_task_is_read_once(sheets: list[tuple[int, int, bool]], texts: list[int]) -> None:
    database = open_migrated(MEMORY)
    conn = database.writer()
    conn.execute(RUNS)
    for number, (count, size, deleted) in enumerate(sheets, 1):
        conn.execute(DOCUMENT, (number, f"{number}.md", count, "" if deleted else "x" * size, deleted))
        conn.executemany(
            VERSION, [(number, one, "delete" if deleted and one == count else "write") for one in range(1, count + 1)]
        )
    conn.executemany(TASK, [(number, "x" * min(size, 16_000)) for number, size in enumerate(texts, 1)])
    found = [one for one in everything(conn, archive.versions, RUN) if isinstance(one, ArchivedVersion)]
    assert [(one.file, one.version, None if one.content is None else len(one.content)) for one in found] == [
        (f"{number}.md", version, (None if version == count else 0) if deleted else size)
        for number, (count, size, deleted) in enumerate(sheets, 1)
        for version in range(1, count + 1)
    ]
    tasks = everything(conn, archive.planned, RUN)
    assert [one.id for one in tasks] == [f"t{number}" for number in range(1, len(texts) + 1)]  # type: ignore[attr-defined]
    part_of_it = RUN._replace(whole=False)
    for read in (archive.versions, archive.suggested, archive.planned, archive.kept_texts, archive.statuses):
        assert everything(conn, read, part_of_it) == []
    database.close()
