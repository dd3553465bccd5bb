"""Grants: rows of agents' additional scopes, with their givers and uses."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from kernel.policy.grants import Book, ScopeGrant, authority, stands, uses_left
from kernel.store import rows
from kernel.store.attempts import Identity, scopes_in
from kernel.store.rows import RowPage
from kernel.store.spaces import is_open
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.agent import Scope
from protocol.api.approvals import GrantInfo, GrantList, GrantRow, GrantState
from protocol.names import AgentKey, approval_id, is_below, number_of, place_of

LETTER: Final = "w"
LIMIT: Final = 1000
"""Limit of valid grants in one space, after which no more can be given."""


def grant_id(number: int) -> str:
    """Return the id of a grant, such as ``w3``."""
    return f"{LETTER}{number}"


# Unrevoked grants of an agent, and all grants that they derive from.
BOOK: Final = """
WITH RECURSIVE line (id) AS (
  SELECT g.id FROM grants AS g INDEXED BY grants_standing
  WHERE g.agent = :agent AND g.space = :space AND g.run IS :run AND g.revoked_ms IS NULL AND g.scope IS NOT NULL
  UNION
  SELECT CASE above.n WHEN 0 THEN g.parent ELSE g.warrant END
  FROM line CROSS JOIN grants AS g ON g.id = line.id CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1) AS above
)
SELECT g.id AS number, g.agent, g.scope, g.parent, g.warrant, g.until_ms, g.uses, g.used,
  g.revoked_ms IS NOT NULL AS revoked
FROM line CROSS JOIN grants AS g ON g.id = line.id WHERE g.scope IS NOT NULL
"""


def book(conn: apsw.Connection, agent: AgentKey, space: str, run: int | None) -> Book:
    """Return an agent's grants in a run, by number, and all grants that these derive from."""
    found = conn.execute(BOOK, {"agent": agent, "space": space, "run": run})
    return {one.number: one for one in rows.each(found, BOOK, ScopeGrant, revoked=bool)}


ATTEMPT: Final = """
SELECT a.scopes, i.run FROM instructions AS i CROSS JOIN attempts AS a ON a.instruction = i.id AND a.epoch = ?
WHERE i.id = ?
"""


class AttemptScopes(NamedTuple):
    """Scopes of an attempt according to its agent's file, and the attempt's run."""

    scopes: frozenset[Scope]
    run: int | None


def standing(conn: apsw.Connection, number: int, epoch: int) -> AttemptScopes:
    """Return the file's scopes and the run of an attempt, which must be live."""
    found = rows.one(conn.execute(ATTEMPT, (epoch, number)), ATTEMPT, AttemptScopes, scopes=scopes_in)
    assert found is not None, "an attempt that holds an instruction has a row"
    return found


def given_to(conn: apsw.Connection, identity: Identity, now_ms: int) -> tuple[frozenset[Scope], frozenset[Scope]]:
    """Return the scopes that an attempt has by grants now, and the scopes of used-up grants."""
    found = standing(conn, number_of(identity.instruction, "i") or 0, identity.epoch)
    known = book(conn, identity.agent, identity.space, found.run)
    usable: set[Scope] = set()
    spent: set[Scope] = set()
    for one in known.values():
        may = None if one.scope is None else authority(known, identity.agent, one.scope, now_ms)
        if one.scope is not None and may is not None:
            (spent if may.spent else usable).add(one.scope)
    return frozenset(usable), frozenset(spent)


COUNT_USE: Final = "UPDATE grants SET used = used + 1 WHERE id = ?"


def count_use(tx: Transaction, line: Collection[int]) -> None:
    """Count one use of each grant in ``line``: a grant and the grants that it derives from."""
    tx.conn.executemany(COUNT_USE, [(number,) for number in line])


class GrantRecord(ScopeGrant, frozen=True, kw_only=True):
    """Row of a grant."""

    space: str
    run: int | None
    name: str
    """Name of the receiver in the space."""
    giver: str
    giver_key: AgentKey | None
    approval: int | None = None
    given_ms: int = 0
    revoked_ms: int | None = None
    revoked_by: str | None = None


INSERT: Final = """
INSERT INTO grants (space, run, agent, name, scope, approval, giver, giver_key, parent, warrant, until_ms, uses, used,
  given_ms)
VALUES (:space, :run, :agent, :name, :scope, :approval, :giver, :giver_key, :parent, :warrant, :until_ms, :uses, :used,
  :now)
RETURNING id
"""


def insert(tx: Transaction, row: GrantRecord) -> int:
    """Store a grant and return its number."""
    return int(tx.conn.execute(INSERT, {**msgspec.structs.asdict(row), "now": tx.now_ms}).get)


STANDING: Final = "SELECT count(*) FROM grants WHERE space = ? AND revoked_ms IS NULL AND scope IS NOT NULL"


def is_full(conn: apsw.Connection, space: str) -> bool:
    """Return whether ``space`` has the maximum number of grants."""
    return int(conn.execute(STANDING, (space,)).get) >= LIMIT


REVOKE: Final = "UPDATE grants SET revoked_ms = ?, revoked_by = ? WHERE id = ? AND revoked_ms IS NULL"


def revoke(tx: Transaction, number: int, by: str) -> None:
    """Revoke a grant, which also invalidates derived grants."""
    tx.conn.execute(REVOKE, (tx.now_ms, by, number))


ONE: Final = """
SELECT id AS number, space, run, agent, name, scope, approval, giver, giver_key, parent, warrant, until_ms, uses, used,
  given_ms, revoked_ms, revoked_by, revoked_ms IS NOT NULL AS revoked
FROM grants WHERE id = ?
"""


def find(conn: apsw.Connection, grant: str) -> GrantRecord | None:
    """Return the grant with the id ``grant``, or None."""
    return rows.one(conn.execute(ONE, (number_of(grant, LETTER),)), ONE, GrantRecord, revoked=bool)


LISTED: Final = """
SELECT id AS number, space, run, agent, name, scope, approval, giver, giver_key, parent, warrant, until_ms, uses, used,
  given_ms, revoked_ms, revoked_by, revoked_ms IS NOT NULL AS revoked
FROM grants WHERE (:space IS NULL OR space = :space) AND id > :after ORDER BY id LIMIT :limit
"""
COUNT: Final = "SELECT count(*) FROM grants WHERE :space IS NULL OR space = :space"


def listed(conn: apsw.Connection, page: RowPage, space: str | None, now_ms: int) -> GrantList:
    """Return a page of the grants in ``space`` (None: anywhere), in order. Call in a thread."""
    values = {"space": space, "after": page.after or 0, "limit": page.limit + 1}
    found = rows.all_(conn.execute(LISTED, values), LISTED, GrantRecord, revoked=bool)
    shown, following = page.cut(found, lambda row: grant_id(row.number))
    total = int(conn.execute(COUNT, {"space": space}).get)
    return GrantList(grants=tuple(GrantRow(**_shown(conn, row, now_ms)) for row in shown), total=total, next=following)


def info(conn: apsw.Connection, grant: str, now_ms: int) -> GrantInfo | None:
    """Return the public view of the grant with the id ``grant``, or None."""
    row = find(conn, grant)
    return None if row is None else GrantInfo(**_shown(conn, row, now_ms))


def _shown(conn: apsw.Connection, row: GrantRecord, now_ms: int) -> dict[str, Any]:
    return {
        "id": grant_id(row.number),
        "scope": row.scope,
        "request": None if row.approval is None else approval_id(row.approval),
        "to": row.name,
        "space": place_of(row.space),
        "by": row.giver,
        "state": _state(conn, row, now_ms),
        "uses": row.uses,
        "used": row.used,
        "until": optional_rfc3339(row.until_ms),
        "given_at": rfc3339(row.given_ms),
        "parent": None if row.parent is None else grant_id(row.parent),
        "warrant": None if row.warrant is None else grant_id(row.warrant),
        "revoked_at": optional_rfc3339(row.revoked_ms),
        "revoked_by": row.revoked_by,
    }


RUNNING: Final = "SELECT 1 FROM workflows WHERE id = ? AND state = 'running'"


def _state(conn: apsw.Connection, row: GrantRecord, now_ms: int) -> GrantState:
    if row.revoked_ms is not None:
        return "revoked"
    if row.scope is None:
        return "used"
    if row.until_ms is not None and row.until_ms <= now_ms:
        return "expired"
    known = book(conn, row.agent, row.space, row.run)
    ended = row.run is not None and conn.execute(RUNNING, (row.run,)).fetchone() is None
    if not stands(known, row.number, now_ms) or ended or (is_below(row.space) and not is_open(conn, row.space)):
        return "void"
    return "used" if uses_left(known, row.number) == 0 else "in force"
