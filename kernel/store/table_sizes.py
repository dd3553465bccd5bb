"""The room that tables take, by groups that mean something to people, and that runs take of it. Reads all of it."""

from types import MappingProxyType
from typing import Final, NamedTuple, cast

import apsw

from kernel.store.snapshot import SnapshotRefused, open_beside
from protocol.names import run_id

GROUPS: Final = MappingProxyType(
    {
        "messages": ("messages", "deliveries"),
        "what agents did": ("entries", "effects", "blobs", "attempts", "instructions", "handovers"),
        "events": ("events",),
        "documents": (
            "documents", "document_versions", "document_suggestions", "document_owners", "document_mirrors",
        ),
        "runs, tasks and votes": ("workflows", "tasks", "task_needs", "ballots", "votes", "electors", "landings"),
        "approvals and audit": ("approvals", "approval_rules", "audit", "grants", "feedback"),
    }
)  # fmt: skip
"""Long texts, frozen prompts and resources are blobs."""
OTHER: Final = "other tables"
FREE: Final = "free pages"


class RunSize(NamedTuple):
    """What was said and done in one run, in bytes, and its working trees."""

    id: str
    run: str
    state: str
    bytes: int
    trees: tuple[str, ...]


class Sizes(NamedTuple):
    """The bytes of each group, and the runs that take most of them; how many runs there are."""

    groups: dict[str, int]
    runs: tuple[RunSize, ...]
    run_count: int


TABLES: Final = """
SELECT coalesce(s.tbl_name, ''), sum(d.pgsize) FROM dbstat AS d LEFT JOIN sqlite_schema AS s ON s.name = d.name
WHERE d.aggregate = TRUE GROUP BY 1
"""
FREE_AND_WHOLE: Final = """
SELECT freelist_count * page_size, page_count * page_size
FROM pragma_freelist_count, pragma_page_count, pragma_page_size
"""


def free_and_whole(conn: apsw.Connection) -> tuple[int, int]:
    """The bytes of free pages, and those of all pages."""
    [(free, whole)] = cast("list[tuple[int, int]]", conn.execute(FREE_AND_WHOLE).fetchall())
    return free, whole


FREE_BYTES: Final = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
RUNS: Final = """
SELECT w.id, w.name, w.tag, w.state,
  (SELECT coalesce(sum(length(CAST(m.text AS BLOB))), 0) FROM messages AS m WHERE m.run = w.id)
  + (SELECT coalesce(sum(length(e.body) + coalesce(length(b.body), 0)), 0)
     FROM instructions AS i CROSS JOIN entries AS e ON e.instruction = i.id LEFT JOIN blobs AS b ON b.hash = e.blob
     WHERE i.run = w.id) AS bytes
FROM workflows AS w ORDER BY bytes DESC, w.id LIMIT ?
"""
COUNT: Final = "SELECT count(*) FROM workflows"
TREES: Final = "SELECT path FROM worktrees WHERE run = ? AND state IN ('made', 'removing', 'kept') ORDER BY path"


def sizes_of(path: str, runs: int) -> Sizes:
    """Measure the database at ``path``, which a kernel may be writing; of ``runs`` at most. Raises SnapshotRefused."""
    try:
        connection = open_beside(path)
        try:
            connection.execute("BEGIN")
            group_of = {table: group for group, tables in GROUPS.items() for table in tables}
            groups = dict.fromkeys((*GROUPS, OTHER), 0)
            for table, size in cast("list[tuple[str, int]]", connection.execute(TABLES).fetchall()):
                groups[group_of.get(table, OTHER)] += size
            groups[FREE] = int(connection.execute(FREE_BYTES).get or 0)
            rows = cast("list[tuple[int, str, str, str, int]]", connection.execute(RUNS, (runs,)).fetchall())
            found = [
                RunSize(
                    run_id(number), f"{name}:{tag}", state, size,
                    tuple(str(tree) for (tree,) in connection.execute(TREES, (number,)).fetchall()),
                )
                for number, name, tag, state, size in rows
            ]  # fmt: skip
            return Sizes(groups, tuple(found), int(connection.execute(COUNT).get or 0))
        finally:
            connection.close()
    except apsw.Error as error:
        raise SnapshotRefused(f"{path} cannot be measured: {error}") from error
