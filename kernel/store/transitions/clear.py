"""Remove what was said and done in spaces: texts, journals, prompts and effects, for a person who wants it gone.

What stays tells that something was there: messages with their kind and number, instructions with their status and
cost, events without their words. It reads the log from end to end, so it takes as long as the log is.
"""

from collections.abc import Generator, Iterable
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

# The work that was done there, and that of their guard, which was shown in a space of its own what was said in them.
WORK: Final = """
INSERT INTO work (value) SELECT i.id FROM instructions AS i WHERE i.space IN (SELECT value FROM cleared)
UNION SELECT j.instruction FROM guard_jobs AS j WHERE j.space IN (SELECT value FROM cleared)
"""
# What it refers to, before that is gone: journals, prompts, inputs of approvals, long texts, shared parts of prompts.
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
WHERE j.space IN (SELECT value FROM cleared) AND i.ended_ms IS NULL
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

# What a request was answered is kept to be answered again; of a document about this space only its shape is.
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

ERASE_BLOBS: Final = """
DELETE FROM blobs WHERE hash IN (SELECT value FROM wiped)
  -- what another space refers to stays
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
    """Numbers of messages and instructions that lost their words."""

    messages: int
    instructions: int


@contextmanager
def _listed(conn: apsw.Connection, spaces: Iterable[str]) -> Generator[None]:
    """Have ``spaces``, those below them and the work that was done there in the lists of the statements."""
    conn.execute(MAKE_LISTS).fetchall()
    conn.executemany(ADD_SPACE, [(space,) for space in with_those_below(conn, spaces)])
    conn.execute(WORK)
    yield
    conn.execute(EMPTY_LISTS).fetchall()


def erase(tx: Transaction, spaces: Iterable[str]) -> Erased:
    """Remove the words of ``spaces`` and of those below them; ``tx.forget`` is for its caller."""
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
        for one in HOLDINGS:
            if one.clear:
                conn.execute(one.clearing())
                messages += conn.changes() if one.table == "messages" else 0
        conn.execute(EVENTS)
        conn.execute(ERASE_ANSWERS)
        conn.executemany(ADD_TO_LIST, referred)
        # Prompts first: what only they needed is needed by nobody then.
        conn.execute(ERASE_BLOBS)
        conn.execute(ERASE_BLOBS)
    return Erased(messages, instructions)


def end(tx: Transaction, space: str) -> int:
    """Remove all that goes with the last run of ``space``, or with the agent whose it is. Returns the rows."""
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
    """Remove the words of ``space``, and of ``more`` with the same name; what is put to the vote there is cancelled.

    What was said in spaces below them goes along.
    Raises Refused (conflict) while something there has not ended.
    """
    spaces = with_those_below(tx.conn, (space, *more))
    expire_proposals(tx)  # it may wake somebody
    count = sum(int(tx.conn.execute(OPEN, (one,)).get) for one in spaces)
    if count:
        raise Refused(
            "conflict",
            f"{count} instructions in {place_of(space)} have not ended",
            "wait for them, or end them first: awk cancel ID",
        )
    for one in spaces:
        cancel_open(tx, one, "what was said here is removed")
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
    """Forget an agent that has nothing to do, and what was said to it. Raises Refused (unknown_agent, conflict).

    One that was forgotten before, when its file went, may have left words behind.
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
