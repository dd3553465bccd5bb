"""Find and remove what is kept no longer: journals and effects of ended work, whole runs, events, answers and blobs.

A sweep removes a little at a time: each is one small commit, so that others get their turn. What is old is found by
queries that read whole tables; ask those in a thread, and look again before removing. What was said to an agent
directly stays, and so does what tells of its instructions: status, cost, attempts. Of a run nothing stays: its row goes
first, so that nobody goes on with it, and then what is left in its space.
"""

from collections.abc import Sequence
from typing import Final, cast

import apsw

from kernel.policy.timing import ClockJump
from kernel.store.holdings import OF_INSTRUCTION
from kernel.store.mirrors import mark_redo
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from kernel.store.transitions.clear import end, erase

ROWS: Final = 500
"""What one commit removes at most; the journal of one instruction is removed in one piece."""

STILL_OLD: Final = "SELECT 1 FROM instructions WHERE id = ? AND ended_ms < ?"
ENTRIES: Final = "DELETE FROM entries WHERE instruction = ?"
EFFECTS: Final = "DELETE FROM effects WHERE instruction = ?"
APPROVALS: Final = "DELETE FROM approvals WHERE instruction = ?"
HANDOVERS: Final = "DELETE FROM handovers WHERE instruction = ?"
COMPLAINTS: Final = "UPDATE attempts SET stderr_tail = NULL WHERE instruction = ? AND stderr_tail IS NOT NULL"
FORGET: Final = "UPDATE instructions SET entries = 0, aside = 0, carried_steps = 0, prefix = NULL WHERE id = ?"


def sweep_instructions(tx: Transaction, numbers: Sequence[int], before_ms: int) -> int:
    """Remove what was done in the first of these that ended before, but for its cost. Returns how many that were."""
    rows = 0
    for done, number in enumerate(numbers):
        if rows >= ROWS:
            return done
        if tx.conn.execute(STILL_OLD, (number, before_ms)).fetchone() is None:
            continue  # somebody had it tried again
        for statement in (ENTRIES, EFFECTS, APPROVALS, HANDOVERS, COMPLAINTS, FORGET):
            tx.conn.execute(statement, (number,))
            rows += tx.conn.changes()
    return len(numbers)


EVENT: Final = "DELETE FROM events WHERE seq = ?"
MISSING: Final = "UPDATE kept SET events = max(events, ?) WHERE id = 1"


def sweep_events(tx: Transaction, seqs: Sequence[int]) -> None:
    """Remove these events, and remember up to where some are missing. At most ROWS, in order."""
    tx.conn.executemany(EVENT, [(seq,) for seq in seqs])
    tx.conn.execute(MISSING, (seqs[-1],))


OVER: Final = """
SELECT space FROM workflows WHERE space = :space GROUP BY space
HAVING max(state = 'running') = 0 AND max(bound) = 0 AND max(ended_ms) < :before
"""


def clear_runs(tx: Transaction, spaces: Sequence[str], before_ms: int) -> int:
    """Remove the words of these spaces, if all their runs ended before, also from files, which knows their rows."""
    over = [one for one in spaces if tx.conn.execute(OVER, {"space": one, "before": before_ms}).fetchone()]
    erase(tx, over)
    for space in over:
        mark_redo(tx, space)
        tx.emit("space.cleared", space=space, data={"messages": 0, "instructions": 0})
    return len(spaces)


# What was said is in files until these are made anew: by the rows of its runs they are known.
DROP_RUNS: Final = """
DELETE FROM workflows WHERE space = :space AND NOT EXISTS (
  SELECT 1 FROM workflows AS w WHERE w.space = :space AND (w.state = 'running' OR w.bound OR w.ended_ms >= :before
    OR (w.mirror IS NOT NULL AND EXISTS (SELECT 1 FROM mirrors AS m WHERE m.space = :space))))
RETURNING 1
"""


def sweep_runs(tx: Transaction, spaces: Sequence[str], before_ms: int) -> int:
    """Remove the runs of the first of these spaces, if all ended before, and who lived there. Returns how many spaces
    were looked at."""
    rows = 0
    for done, space in enumerate(spaces):
        if rows >= ROWS:
            return done
        dropped = tx.conn.execute(DROP_RUNS, {"space": space, "before": before_ms}).fetchall()
        if not dropped:
            continue  # somebody goes on with it
        rows += len(dropped) + end(tx, space)
    return len(spaces)


DELIVERIES: Final = "DELETE FROM deliveries WHERE message = ?"
MESSAGE: Final = "DELETE FROM messages WHERE seq = ?"


def sweep_messages(tx: Transaction, seqs: Sequence[int]) -> None:
    """Remove these messages of removed runs, and whom they reached. At most ROWS."""
    for statement in (DELIVERIES, MESSAGE):
        tx.conn.executemany(statement, [(seq,) for seq in seqs])


INSTRUCTION: Final = "DELETE FROM instructions WHERE id = ?"


def sweep_left(tx: Transaction, numbers: Sequence[int]) -> None:
    """Remove these instructions of removed runs. At most ROWS."""
    for statement in (*OF_INSTRUCTION, INSTRUCTION):
        tx.conn.executemany(statement, [(number,) for number in numbers])


BLOB: Final = "DELETE FROM blobs WHERE hash = ? AND put_ms < ?"


def sweep_blobs(tx: Transaction, hashes: Sequence[bytes], before_ms: int) -> None:
    """Remove these blobs, unless they were put since ``before_ms``. At most ROWS."""
    tx.conn.executemany(BLOB, [(digest, before_ms) for digest in hashes])


ANSWERS: Final = """
DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE at_ms < ? ORDER BY at_ms LIMIT ?)
"""
FEEDBACK: Final = "DELETE FROM feedback WHERE rowid IN (SELECT id FROM feedback WHERE at_ms < ? ORDER BY id LIMIT ?)"
CRASHES: Final = "DELETE FROM crashes WHERE rowid IN (SELECT rowid FROM crashes WHERE at_ms < ? LIMIT ?)"


def sweep_rows(tx: Transaction, statement: str, before_ms: int) -> int:
    """Remove rows from before that time by one of the statements above, ROWS at most; how many."""
    tx.conn.execute(statement, (before_ms, ROWS))
    return tx.conn.changes()


# Who got as many rows as the limit asks again.

skips = Sql("""
SELECT at_ms, skipped_ms AS by_ms FROM boots WHERE skipped_ms <> 0 ORDER BY id DESC LIMIT 100
""").rows(ClockJump)
"""The last starts of kernels whose clocks had been set, or whose machines had been off for long."""

instructions = Sql("""
SELECT i.id FROM instructions AS i
WHERE i.ended_ms < :before AND (i.entries > 0 OR i.prefix IS NOT NULL
  OR EXISTS (SELECT 1 FROM effects AS f WHERE f.instruction = i.id)
  OR EXISTS (SELECT 1 FROM approvals AS p WHERE p.instruction = i.id)
  OR EXISTS (SELECT 1 FROM handovers AS h WHERE h.instruction = i.id)
  OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.instruction = i.id AND a.stderr_tail IS NOT NULL))
ORDER BY i.id LIMIT 20000
""").column(int)
"""Instructions that ended before and of which something is left that is kept no longer."""


events = Sql("""
SELECT e.seq FROM events AS e LEFT JOIN instructions AS i ON i.id = e.instruction
WHERE e.at_ms < :before AND (i.id IS NULL OR i.ended_ms < :before) AND e.seq > :after
ORDER BY e.seq LIMIT 20000
""").column(int)
"""Events from before a time and after a seq, without those of work that ended later or not at all."""

WORKPLACES: Final = """
SELECT DISTINCT i.agent, i.space FROM instructions AS i WHERE i.ended_ms IS NULL OR i.ended_ms >= :before
"""


def spaces_in_use(conn: apsw.Connection, before_ms: int) -> frozenset[tuple[str, str]]:
    """Return pairs of agent key and space with work that has not ended, or ended since: the opposite of what is old."""
    return frozenset(cast("tuple[str, str]", row) for row in conn.execute(WORKPLACES, {"before": before_ms}))


# Also of those that share a space with a newer one all are kept, and what is bound, or has a working tree left.
runs = Sql("""
SELECT w.space FROM workflows AS w
GROUP BY w.space HAVING max(w.state = 'running') = 0 AND max(w.bound) = 0 AND max(w.ended_ms) < :before
  AND NOT EXISTS (SELECT 1 FROM worktrees AS t WHERE t.space = w.space AND t.state <> 'gone')
LIMIT 20000
""").column(str)
"""Spaces whose runs have all ended before that time."""


# The space of a run is begun by its row, and never again once that is gone.
messages_left = Sql("""
SELECT m.seq FROM messages AS m
WHERE m.space NOT BETWEEN 'dm:' AND 'dm;' AND m.space NOT IN (SELECT w.space FROM workflows AS w)
  AND m.space NOT IN (SELECT s.space FROM subspaces AS s) LIMIT 20000
""").column(int)
"""Messages of runs that are removed."""

instructions_left = Sql("""
SELECT i.id FROM instructions AS i WHERE i.ended_ms IS NOT NULL
  AND i.space NOT BETWEEN 'dm:' AND 'dm;' AND i.space NOT IN (SELECT w.space FROM workflows AS w)
  AND i.space NOT IN (SELECT s.space FROM subspaces AS s) LIMIT 20000
""").column(int)
"""Instructions of runs that are removed."""

blobs = Sql("""
SELECT hash FROM blobs AS b WHERE b.put_ms < :before
  AND b.hash NOT IN (SELECT e.blob FROM entries AS e WHERE e.blob IS NOT NULL)
  AND b.hash NOT IN (SELECT i.prefix FROM instructions AS i WHERE i.prefix IS NOT NULL)
  AND b.hash NOT IN (SELECT a.blob FROM approvals AS a WHERE a.blob IS NOT NULL)
  AND b.hash NOT IN (SELECT r.blob FROM resources AS r)
  AND b.hash NOT IN (SELECT p.part FROM blobs AS p WHERE p.part IS NOT NULL)
LIMIT 20000
""").column(bytes)
"""Blobs that nobody refers to and that were not put since a time."""


# A space that runs again keeps its words until that has ended too.
WITH_WORDS: Final = """
SELECT w.space, max(w.ended_ms) FROM workflows AS w INDEXED BY workflows_memory
WHERE w.workspace = 'memory' AND w.state = 'stopped'
  AND EXISTS (SELECT 1 FROM messages AS m
    WHERE m.run = w.id AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND m.cleared = 0 AND m.text <> '')
  AND NOT EXISTS (SELECT 1 FROM workflows AS r WHERE r.space = w.space AND r.state = 'running')
GROUP BY w.space ORDER BY 2 LIMIT 100
"""


def ended(conn: apsw.Connection) -> tuple[tuple[str, int], ...]:
    """Spaces of such workflows that have ended with their words still there, and when; the first ones first."""
    return tuple(conn.execute(WITH_WORDS))


def give_back(tx: Transaction) -> None:
    """Change nothing, and have the database rewritten without its free pages."""
    tx.forget()
