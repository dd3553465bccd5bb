"""Spaces that agents open below that of a run: which there are, who opened them, and whether they are open.

Who is in one stands in the table of members, as of a run's own space.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

import apsw
import msgspec

from kernel.store import rows
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.api.workflows import SpaceDocument, SpaceList, SpaceRow
from protocol.names import DEFAULT_TAG, AgentKey, SpaceId, instruction_id, place_of, run_id, split_below, subspace


class Subspace(msgspec.Struct, frozen=True):
    """One space below that of a run."""

    number: int
    space: SpaceId
    base: SpaceId
    name: str
    run: int
    opener: str
    opener_key: AgentKey
    instruction: int
    """The work that it was opened in."""
    opened_ms: int
    closed_ms: int | None


INSERT: Final = """
INSERT INTO subspaces (number, space, base, name, run, opener, opener_key, instruction, opened_ms)
VALUES (:number, :space, :base, :name, :run, :opener, :opener_key, :instruction, :now)
"""
NEXT: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'subspaces'), 0) + 1"


def insert(tx: Transaction, base: str, name: str, run: int, opener: str, key: AgentKey, instruction: int) -> SpaceId:
    """Write the row of a space that is opened now. Returns the space."""
    number = int(tx.conn.execute(NEXT).get)
    space = subspace(base, name, number)
    values = {
        "number": number,
        "space": space,
        "base": base,
        "name": name,
        "run": run,
        "opener": opener,
        "opener_key": key,
        "instruction": instruction,
        "now": tx.now_ms,
    }
    tx.conn.execute(INSERT, values)
    return space


ADD_MEMBER: Final = """
INSERT INTO members (space, name, agent, backend, answer_ms, needs)
SELECT :space, name, agent, backend, answer_ms, needs FROM members WHERE space = :base AND name = :name
"""
REMOVE_MEMBER: Final = "DELETE FROM members WHERE space = :space AND name = :name"


def add_members(tx: Transaction, space: str, base: str, names: Iterable[str]) -> None:
    """Let these members of ``base`` into ``space``, as what they are there."""
    tx.conn.executemany(ADD_MEMBER, [{"space": space, "base": base, "name": name} for name in names])


def remove_members(tx: Transaction, space: str, names: Iterable[str]) -> None:
    """Have these be in ``space`` no more."""
    tx.conn.executemany(REMOVE_MEMBER, [{"space": space, "name": name} for name in names])


CLOSE: Final = "UPDATE subspaces SET closed_ms = ? WHERE number = ?"


def close(tx: Transaction, number: int) -> None:
    """Have nobody speak there any more."""
    tx.conn.execute(CLOSE, (tx.now_ms, number))


COLUMNS: Final = """
SELECT number, space, base, name, run, opener, opener_key, instruction, opened_ms, closed_ms FROM subspaces
"""


by_space = Sql(f"""
{COLUMNS} WHERE space = ?
""").row(Subspace)
"""The space itself, open or not."""


def is_open(conn: apsw.Connection, space: str) -> bool:
    """Return whether somebody may still speak in ``space``, which is below another."""
    found = by_space(conn, space)
    return found is not None and found.closed_ms is None


find_open = Sql(f"""
{COLUMNS} WHERE base = ? AND name = ? AND closed_ms IS NULL
""").row(Subspace)
"""The space called ``name`` that is open below ``base``."""


open_below = Sql(f"""
{COLUMNS} WHERE base = ? AND closed_ms IS NULL ORDER BY number
""").rows(Subspace)
"""Those that are open below ``base``, the oldest first."""


# Only where the work that ended opened some, or was done in one.
AFFECTED: Final = f"""
{COLUMNS} WHERE closed_ms IS NULL AND (instruction = :instruction OR space = :space) ORDER BY number
"""


def affected_by(conn: apsw.Connection, instruction: int, space: str) -> list[Subspace]:
    """The open spaces that the end of ``instruction``, which was done in ``space``, may close."""
    return rows.all_(conn.execute(AFFECTED, {"instruction": instruction, "space": space}), AFFECTED, Subspace)


AT_WORK: Final = "SELECT 1 FROM instructions WHERE id = ? AND ended_ms IS NULL"


def opener_at_work(conn: apsw.Connection, row: Subspace) -> bool:
    """Return whether the work that it was opened in has not ended."""
    return conn.execute(AT_WORK, (row.instruction,)).fetchone() is not None


work_open = Sql("""
SELECT 1 FROM instructions WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') LIMIT 1
""").exists()
"""Return whether something is still to be done in ``space``."""


opened_in = Sql("SELECT count(*) FROM subspaces WHERE base = ? AND run = ?").scalar(int)
"""Return how many were opened in ``run``."""


SPACES_BELOW: Final = "SELECT space FROM subspaces WHERE base = ? ORDER BY number"


def with_those_below(conn: apsw.Connection, spaces: Iterable[str]) -> tuple[SpaceId, ...]:
    """``spaces``, and all that were ever opened below each of them."""
    found: dict[SpaceId, None] = {}
    for base in spaces:
        found[SpaceId(base)] = None
        for (space,) in cast("list[tuple[str]]", conn.execute(SPACES_BELOW, (base,)).fetchall()):
            found[SpaceId(space)] = None
    return tuple(found)


# By the place, which is what people know: of all runs with that name and tag, the newest first.
NAMED: Final = """
SELECT number, space, base, name, run, opener, opener_key, instruction, opened_ms, closed_ms FROM subspaces
WHERE name = :name AND (:run IS NULL OR run = :run)
  AND run IN (SELECT w.id FROM workflows AS w WHERE w.name = :workflow AND w.tag = :tag)
ORDER BY number DESC
"""


def named(conn: apsw.Connection, place: str, run: int | None = None) -> tuple[Subspace, ...]:
    """The spaces that people call ``place`` (``review:main~design``), of ``run`` or of all; the newest first."""
    base, name = split_below(place)
    workflow, _, tag = base.partition(":")
    values = {"name": name, "workflow": workflow, "tag": tag or DEFAULT_TAG, "run": run}
    return tuple(rows.all_(conn.execute(NAMED, values), NAMED, Subspace))


members = Sql("SELECT name FROM members WHERE space = ? ORDER BY name").column(str)
"""Return who is in ``space``, or was when it was closed, by name."""


is_in = Sql("SELECT 1 FROM members WHERE space = ? AND agent = ?").exists()
"""Return whether ``agent`` (its key) is in ``space``."""


LAST_WORDS: Final = """
SELECT sender, text FROM messages WHERE space = ? AND kind IN ('said', 'reply') AND cleared = 0
ORDER BY seq DESC LIMIT 1
"""


def last_words(conn: apsw.Connection, space: str) -> tuple[str, str] | None:
    """The last words said in ``space``, and their sender."""
    return cast("tuple[str, str] | None", conn.execute(LAST_WORDS, (space,)).fetchone())


IN_RUNS: Final = """
SELECT number, space, base, name, run, opener, opener_key, instruction, opened_ms, closed_ms FROM subspaces
WHERE CASE WHEN :run IS NULL
  THEN run IN (SELECT w.id FROM workflows AS w WHERE w.state = 'running') ELSE run = :run END ORDER BY number
"""


def listed(conn: apsw.Connection, run: int | None) -> SpaceList:
    """Those of ``run``, or of all runs that are going on, in the order in which they were opened."""
    found = rows.all_(conn.execute(IN_RUNS, {"run": run}), IN_RUNS, Subspace)
    return SpaceList(spaces=tuple(SpaceRow(**_shown(conn, row)) for row in found), total=len(found))


def document(conn: apsw.Connection, space: str) -> SpaceDocument:
    """``space``, which there is, as people see it."""
    row = by_space(conn, space)
    assert row is not None, space
    return SpaceDocument(**_shown(conn, row))


def _shown(conn: apsw.Connection, row: Subspace) -> dict[str, Any]:
    return {
        "name": row.name,
        "space": place_of(row.space),
        "run": run_id(row.run),
        "opener": row.opener,
        "instruction": instruction_id(row.instruction),
        "state": "open" if row.closed_ms is None else "closed",
        "members": members(conn, row.space),
        "opened_at": rfc3339(row.opened_ms),
        "closed_at": optional_rfc3339(row.closed_ms),
    }
