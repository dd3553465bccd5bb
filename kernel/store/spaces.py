"""Spaces that agents open below a run's: their rows, openers and state.

Their members are in the table of members, like the members of a run's own space.
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
    """Space below a run's: ``base`` is the run's space, ``opener`` the agent that opened it."""

    number: int
    space: SpaceId
    base: SpaceId
    name: str
    run: int
    opener: str
    opener_key: AgentKey
    instruction: int
    """Instruction in which it was opened."""
    opened_ms: int
    closed_ms: int | None


INSERT: Final = """
INSERT INTO subspaces (number, space, base, name, run, opener, opener_key, instruction, opened_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
NEXT: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'subspaces'), 0) + 1"


Opener = tuple[str, str, int]
"""Opener of a space, its key and instruction; 0: a rule opened it, and without a key the rule of a person or a file."""


def insert(tx: Transaction, base: str, name: str, run: int, by: Opener) -> SpaceId:
    """Store a new space below ``base`` and return its id."""
    number = int(tx.conn.execute(NEXT).get)
    space = subspace(base, name, number)
    tx.conn.execute(INSERT, (number, space, base, name, run, *by, tx.now_ms))
    return space


ADD_AGENT: Final = "INSERT INTO members (space, name, agent) SELECT :space, key, key FROM agents WHERE key = :name"
ADD_MEMBER: Final = """
INSERT INTO members (space, name, agent, backend, answer_ms, needs)
SELECT :space, name, agent, backend, answer_ms, needs FROM members WHERE space = :base AND name = :name
"""
REMOVE_MEMBER: Final = "DELETE FROM members WHERE space = :space AND name = :name"


def add_members(tx: Transaction, space: str, base: str, names: Iterable[str]) -> None:
    """Add members of ``base`` to ``space``, with the same settings; or agents to the space of a person."""
    add = ADD_AGENT if space == base else ADD_MEMBER
    tx.conn.executemany(add, [{"space": space, "base": base, "name": name} for name in names])


def remove_members(tx: Transaction, space: str, names: Iterable[str]) -> None:
    """Remove members from ``space``."""
    tx.conn.executemany(REMOVE_MEMBER, [{"space": space, "name": name} for name in names])


CLOSE: Final = "UPDATE subspaces SET closed_ms = ? WHERE number = ?"


def close(tx: Transaction, number: int) -> None:
    """Mark a space as closed."""
    tx.conn.execute(CLOSE, (tx.now_ms, number))


COLUMNS: Final = """
SELECT number, space, base, name, run, opener, opener_key, instruction, opened_ms, closed_ms FROM subspaces
"""


by_space = Sql(f"""
{COLUMNS} WHERE space = ?
""").row(Subspace)
"""Return the space below a run's, open or closed, or None."""


def is_open(conn: apsw.Connection, space: str) -> bool:
    """Return whether ``space``, which is below another, is open."""
    found = by_space(conn, space)
    return found is not None and found.closed_ms is None


# The spaces of people are runs without a file.
OWN: Final = """
SELECT 0 AS number, space, space AS base, name, id AS run, 'user' AS opener, '' AS opener_key, 0 AS instruction,
  started_ms AS opened_ms, ended_ms AS closed_ms FROM workflows WHERE file = ''
"""
own = Sql(f"{OWN} AND id = (SELECT max(id) FROM workflows WHERE space = ?)").row(Subspace)  # noqa: S608 - constants only
"""Return the space of a person, open or closed, or None; also None if a workflow has continued there."""


find_open = Sql(f"""
{COLUMNS} WHERE base = ? AND name = ? AND closed_ms IS NULL
""").row(Subspace)
"""Return the open space ``name`` below ``base``."""


open_below = Sql(f"""
{COLUMNS} WHERE base = ? AND closed_ms IS NULL ORDER BY number
""").rows(Subspace)
"""Return the open spaces below ``base``, the oldest first."""


# The spaces that the ended instruction opened, and the space that it belonged to.
affected_by = Sql(f"""
{COLUMNS} WHERE closed_ms IS NULL AND (instruction = :instruction OR space = :space) ORDER BY number
""").rows(Subspace)
"""Return the open spaces to check for remaining work when ``instruction`` in ``space`` ends."""


opener_at_work = Sql("SELECT 1 FROM instructions WHERE id = ? AND ended_ms IS NULL").exists()
"""Return whether the instruction that opened the space is unfinished."""


work_open = Sql("""
SELECT 1 FROM instructions WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') LIMIT 1
""").exists()
"""Return whether ``space`` has unfinished work."""


opened_in = Sql("SELECT count(*) FROM subspaces WHERE base = ? AND run = ?").scalar(int)
"""Return the number of spaces that were opened in ``run``."""


SPACES_BELOW: Final = "SELECT space FROM subspaces WHERE base = ? ORDER BY number"


def with_those_below(conn: apsw.Connection, spaces: Iterable[str]) -> tuple[SpaceId, ...]:
    """Return ``spaces``, each followed by all spaces that were ever opened below it."""
    found: dict[SpaceId, None] = {}
    for base in spaces:
        found[SpaceId(base)] = None
        for (space,) in cast("list[tuple[str]]", conn.execute(SPACES_BELOW, (base,)).fetchall()):
            found[SpaceId(space)] = None
    return tuple(found)


# By the public name: of all runs with that name and tag, the newest first.
NAMED: Final = f"""
{COLUMNS} WHERE name = :name AND (:run IS NULL OR run = :run)
  AND run IN (SELECT w.id FROM workflows AS w WHERE w.name = :workflow AND w.tag = :tag)
ORDER BY number DESC
"""  # noqa: S608 - constants only


def named(conn: apsw.Connection, place: str, run: int | None = None) -> tuple[Subspace, ...]:
    """Return the spaces with the public name ``place`` of ``run`` (None: all), newest first."""
    base, name = split_below(place)
    workflow, _, tag = base.partition(":")
    values = {"name": name, "workflow": workflow, "tag": tag or DEFAULT_TAG, "run": run}
    return tuple(rows.all_(conn.execute(NAMED, values), NAMED, Subspace))


members = Sql("SELECT name FROM members WHERE space = ? ORDER BY name").column(str)
"""Return the names of the members of ``space``, or of the last members of a closed one."""


is_in = Sql("SELECT 1 FROM members WHERE space = ? AND agent = ?").exists()
"""Return whether ``agent`` (a key) is a member of ``space``."""


LAST_WORDS: Final = """
SELECT sender, text FROM messages WHERE space = ? AND kind IN ('said', 'reply') AND cleared = 0
ORDER BY seq DESC LIMIT 1
"""


def last_words(conn: apsw.Connection, space: str) -> tuple[str, str] | None:
    """Return the sender and text of the last message in ``space``, or None."""
    return cast("tuple[str, str] | None", conn.execute(LAST_WORDS, (space,)).fetchone())


IN_RUNS: Final = f"""
{COLUMNS} WHERE CASE WHEN :run IS NULL
  THEN run IN (SELECT w.id FROM workflows AS w WHERE w.state = 'running') ELSE run = :run END
UNION ALL {OWN} AND CASE WHEN :run IS NULL THEN state = 'running' ELSE id = :run END ORDER BY number, run
"""  # noqa: S608 - constants only


def listed(conn: apsw.Connection, run: int | None) -> SpaceList:
    """Return the spaces below ``run``'s, or below those of all active runs, in order of opening."""
    found = rows.all_(conn.execute(IN_RUNS, {"run": run}), IN_RUNS, Subspace)
    return SpaceList(spaces=tuple(SpaceRow(**_shown(conn, row)) for row in found), total=len(found))


def document(conn: apsw.Connection, space: str) -> SpaceDocument:
    """Return the public view of the space ``space``, which must exist."""
    row = by_space(conn, space) or own(conn, space)
    assert row is not None, space
    return SpaceDocument(**_shown(conn, row))


def _shown(conn: apsw.Connection, row: Subspace) -> dict[str, Any]:
    return {
        "name": row.name,
        "space": place_of(row.space),
        "run": run_id(row.run),
        "opener": row.opener,
        "instruction": instruction_id(row.instruction) if row.instruction else "",
        "state": "open" if row.closed_ms is None else "closed",
        "members": members(conn, row.space),
        "opened_at": rfc3339(row.opened_ms),
        "closed_at": optional_rfc3339(row.closed_ms),
    }
