"""Delete the contents of spaces: texts, journals, prompts and effects, at a person's request.

Some data remains: of messages kind and number, of instructions status and cost, and events without
texts. A clear reads the whole log, so that its duration grows with the log.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, cast

import apsw

from kernel.policy.guard import NAME as GUARD
from kernel.store.agents import remove_agent
from kernel.store.holdings import HOLDINGS, OF_AGENT
from kernel.store.mirrors import mark_redo
from kernel.store.spaces import with_those_below
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import close_cancelled
from kernel.store.transitions.voting import cancel_open, expire_proposals
from protocol.api.agents import Cleared
from protocol.errors import Refused
from protocol.names import AgentKey, is_below, personal_space, place_of

# Work in the spaces, and work of their guard, whose prompts contain messages of the spaces.
WORK: Final = """
INSERT INTO work (value) SELECT i.id FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared)
UNION SELECT j.instruction FROM guard_jobs AS j WHERE j.space IN (SELECT value FROM cleared)
UNION SELECT j.instruction FROM guard_jobs AS j, json_each(CAST(j.evidence AS TEXT), '$[0]') AS e
CROSS JOIN instructions AS i ON i.id = CAST(substr(e.key, 2) AS INTEGER)
WHERE j.call GLOB 'observe/*' AND i.space IN (SELECT value FROM cleared)
"""
# Referenced blobs, collected before the references are deleted: journals, prompts, inputs of approvals, long texts and
# shared parts of prompts.
REFERRED: Final = """
SELECT e.blob FROM entries AS e WHERE e.instruction IN (SELECT value FROM work) AND e.blob IS NOT NULL
UNION SELECT i.prefix FROM instructions AS i WHERE i.id IN (SELECT value FROM work) AND i.prefix IS NOT NULL
UNION SELECT p.blob FROM approvals AS p WHERE p.space IN (SELECT value FROM cleared) AND p.blob IS NOT NULL
UNION SELECT r.blob FROM resources AS r WHERE r.space IN (SELECT value FROM cleared)
UNION SELECT b.part FROM instructions AS i CROSS JOIN blobs AS b ON b.hash = i.prefix
WHERE i.id IN (SELECT value FROM work) AND b.part IS NOT NULL
"""
ASKED_OPEN: Final = """
SELECT i.id, i.epoch FROM guard_jobs AS j CROSS JOIN instructions AS i ON i.id = j.instruction
WHERE j.instruction IN (SELECT value FROM work) AND i.ended_ms IS NULL
"""
ASKED_WORDS: Final = """
UPDATE messages SET text = '', cleared = 1
WHERE space = ? AND cleared = 0 AND text <> '' AND (cause IN (SELECT value FROM work)
  OR seq IN (SELECT i.message FROM instructions AS i WHERE i.id IN (SELECT value FROM work)))
"""
EVENTS: Final = """
UPDATE events SET data = CAST(json_replace(CAST(data AS TEXT), '$.text', '', '$.stderr', NULL, '$.why', '',
  '$.hint', '', iif(type LIKE 'proposal.%', '$.id', '$.text'), '', '$.winner', NULL) AS BLOB)
WHERE (space IN (SELECT value FROM cleared) OR instruction IN (SELECT value FROM work)) AND data IS NOT NULL
"""

# Recorded answers must remain for repeated requests. Of answers about documents in these spaces,
# only the structure remains.
ERASE_ANSWERS: Final = """
UPDATE idempotency SET response = CAST(json_replace(CAST(response AS TEXT), '$.text', '', '$.steps', json('[]'),
  '$.input', NULL, '$.reason', '', '$.decision_reason', '', '$.title', '', '$.description', '',
  '$.options', json('[]'), '$.votes', json('[]'), '$.counts', json('{}'), '$.tied', json('[]'), '$.winner', NULL,
  '$.assigned', json('{}'), '$.key', NULL, '$.check', NULL, '$.files', json('[]'), '$.result', '', '$.ids', json('{}'),
  CASE json_extract(CAST(response AS TEXT), '$.schema') WHEN 'awk/proposal/1' THEN '$.id' ELSE '$.text' END, '')
  AS BLOB)
WHERE json_valid(CAST(response AS TEXT)) AND json_extract(CAST(response AS TEXT), '$.space') IN (
  SELECT CASE instr(value, '#') WHEN 0 THEN value ELSE substr(value, 1, instr(value, '#') - 1) END FROM cleared)
"""

# A guard's suggestions for souls quote the work of other spaces; versions keep the text that applies.
SUGGESTED: Final = """kind = 'soul' AND EXISTS (SELECT 1 FROM json_each(detail, '$.messages') AS e
  CROSS JOIN messages AS m ON m.seq = CAST(substr(e.value, 2) AS INTEGER) WHERE m.space IN (SELECT value FROM cleared))
"""
ERASE_SUGGESTED: Final = """
UPDATE soul_versions SET reason = '' WHERE proposal IN (SELECT number FROM decisions WHERE {SUGGESTED});
DELETE FROM decisions WHERE {SUGGESTED}
""".replace("{SUGGESTED}", SUGGESTED)

ERASE_BLOBS: Final = """
DELETE FROM blobs WHERE hash IN (SELECT value FROM wiped)
  -- blobs that other spaces refer to remain
  AND hash NOT IN (SELECT e.blob FROM entries AS e WHERE e.blob IS NOT NULL)
  AND hash NOT IN (SELECT i.prefix FROM instructions AS i WHERE i.prefix IS NOT NULL)
  AND hash NOT IN (SELECT p.blob FROM approvals AS p WHERE p.blob IS NOT NULL)
  AND hash NOT IN (SELECT r.blob FROM resources AS r)
  AND hash NOT IN (SELECT b.part FROM blobs AS b WHERE b.part IS NOT NULL)
"""

MAKE_LISTS: Final = """
CREATE TEMP TABLE IF NOT EXISTS wiped (value BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS cleared (value TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TEMP TABLE IF NOT EXISTS work (value INTEGER PRIMARY KEY) WITHOUT ROWID;
"""
ADD_TO_LIST: Final = "INSERT INTO wiped (value) VALUES (?)"
ADD_SPACE: Final = "INSERT OR IGNORE INTO cleared (value) VALUES (?)"
EMPTY_LISTS: Final = "DELETE FROM wiped; DELETE FROM cleared; DELETE FROM work"
WORKED: Final = "SELECT count(*) FROM instructions WHERE space IN (SELECT value FROM cleared)"
INLINE: Final = """
DELETE FROM agents WHERE origin = 'inline' AND home_space IN (SELECT value FROM cleared) RETURNING key
"""
SPENT: Final = "DELETE FROM spending WHERE agent = ?"


class Erased(NamedTuple):
    """Number of messages and number of instructions whose texts were deleted."""

    messages: int
    instructions: int


@contextmanager
def _listed(conn: apsw.Connection, spaces: Iterable[str]) -> Generator[None]:
    conn.execute(MAKE_LISTS).fetchall()
    conn.executemany(ADD_SPACE, [(space,) for space in with_those_below(conn, spaces)])
    conn.execute(WORK)
    yield
    conn.execute(EMPTY_LISTS).fetchall()


def erase(tx: Transaction, spaces: Sequence[str]) -> Erased:
    """Delete the texts of ``spaces`` and of the spaces below. The caller calls ``tx.forget``."""
    conn = tx.conn
    with _listed(conn, spaces):
        for number, epoch in cast("list[tuple[int, int]]", conn.execute(ASKED_OPEN).fetchall()):
            close_cancelled(tx, number, epoch)
        referred = conn.execute(REFERRED).fetchall()
        home = personal_space(GUARD)
        conn.execute(ASKED_WORDS, (home,))
        if asked := conn.changes():
            mark_redo(tx, home)
            tx.emit("space.cleared", space=home, data={"messages": asked, "instructions": 0})
        instructions, messages = int(conn.execute(WORKED).get), 0
        conn.execute(ERASE_SUGGESTED).fetchall()
        for one in HOLDINGS:
            if one.clear:
                conn.execute(one.clearing())
                messages += conn.changes() if one.table == "messages" else 0
        conn.execute(EVENTS)
        conn.execute(ERASE_ANSWERS)
        conn.executemany(ADD_TO_LIST, referred)
        # Twice: deleting prompts first removes the last references to their parts.
        conn.execute(ERASE_BLOBS)
        conn.execute(ERASE_BLOBS)
    for space in spaces:
        tx.conn.forget(space)
    return Erased(messages, instructions)


def end(tx: Transaction, space: str) -> int:
    """Delete what ends with a space's last run, or with its agent. Return the number of rows."""
    conn = tx.conn
    before = conn.total_changes()
    with _listed(conn, [space]):
        for (key,) in conn.execute(INLINE).fetchall():
            for statement in (*OF_AGENT, SPENT):
                conn.execute(statement, (key,))
        for one in HOLDINGS:
            if one.ends:
                conn.execute(one.deleting(one.in_spaces()))
    return conn.total_changes() - before


OPEN: Final = """
SELECT count(*) FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
"""


def clear(tx: Transaction, space: str, *more: str) -> Cleared:
    """Delete the contents of ``space``, of ``more`` with its public name, and of the spaces below
    them; cancel their proposals. Raises Refused (conflict) while work in them has not ended.
    """
    spaces = with_those_below(tx.conn, (space, *more))
    expire_proposals(tx)  # this may create work
    count = sum(int(tx.conn.execute(OPEN, (one,)).get) for one in spaces)
    if count:
        raise Refused(
            "conflict",
            f"{count} instructions in {place_of(space)} have not ended",
            "wait for their end, or cancel them: awk cancel ID",
        )
    for one in spaces:
        cancel_open(tx, one, "the messages of the space are deleted")
    erased = erase(tx, spaces)
    tx.forget()
    for one in spaces:
        mark_redo(tx, one)
    data = {"messages": erased.messages, "instructions": erased.instructions}
    for one in spaces:
        if one == space or is_below(one):
            tx.emit("space.cleared", space=one, data=data if one == space else {"messages": 0, "instructions": 0})
    return Cleared(space=place_of(space), messages=erased.messages, instructions=erased.instructions)


def delete_agent(tx: Transaction, key: AgentKey) -> None:
    """Delete an agent without open work, and its messages. Raises Refused (unknown_agent, conflict).

    If only its messages remain, because its file was deleted earlier, delete these.
    """
    home = personal_space(key)
    try:
        remove_agent(tx, key)
    except Refused as refused:
        if refused.code != "unknown_agent" or not erase(tx, [home]).messages:
            raise
    else:
        erase(tx, [home])
        mark_redo(tx, home)
    end(tx, home)
    tx.forget()
    for statement in OF_AGENT:
        tx.conn.execute(statement, (key,))
