"""Delete expired data: journals and effects of ended work, whole runs, events, answers and blobs.

A sweep deletes in small commits, so that other writers are not blocked. The queries that find old
data read whole tables: run them in a thread. Each deletion checks again. Direct messages to an
agent remain, and so do the status, cost and attempts of its instructions. A run is deleted
completely: first its row, so that it cannot be continued, then the rest of its space.
"""

from collections.abc import Sequence
from typing import Final, cast

import apsw

from kernel.policy.timing import ClockJump
from kernel.store.holdings import OF_INSTRUCTION
from kernel.store.mirrors import mark_redo
from kernel.store.rows import Sql
from kernel.store.spaces import with_those_below
from kernel.store.transaction import Transaction
from kernel.store.transitions.clear import end, erase
from kernel.store.transitions.runs import stop_workflow
from kernel.store.workflows import memory_spaces

ROWS: Final = 500
"""Limit of deleted rows per commit; the journal of one instruction is deleted as a whole."""

STILL_OLD: Final = "SELECT 1 FROM instructions WHERE id = ? AND ended_ms < ?"
ENTRIES: Final = "DELETE FROM entries WHERE instruction = ?"
EFFECTS: Final = "DELETE FROM effects WHERE instruction = ?"
APPROVALS: Final = "DELETE FROM approvals WHERE instruction = ?"
HANDOVERS: Final = "DELETE FROM handovers WHERE instruction = ?"
EXCHANGES: Final = "DELETE FROM exchanges WHERE instruction = ?"
COMPLAINTS: Final = "UPDATE attempts SET stderr_tail = NULL WHERE instruction = ? AND stderr_tail IS NOT NULL"
FORGET: Final = "UPDATE instructions SET entries = 0, aside = 0, carried_steps = 0, prefix = NULL WHERE id = ?"


def sweep_instructions(tx: Transaction, numbers: Sequence[int], before_ms: int) -> int:
    """Delete old journals, about ROWS rows. Return how many of ``numbers`` were processed."""
    rows = 0
    for done, number in enumerate(numbers):
        if rows >= ROWS:
            return done
        if tx.conn.execute(STILL_OLD, (number, before_ms)).fetchone() is None:
            continue  # retried meanwhile
        for statement in (ENTRIES, EFFECTS, APPROVALS, HANDOVERS, EXCHANGES, COMPLAINTS, FORGET):
            tx.conn.execute(statement, (number,))
            rows += tx.conn.changes()
    return len(numbers)


EVENT: Final = "DELETE FROM events WHERE seq = ?"
MISSING: Final = "UPDATE kept SET events = max(events, ?) WHERE id = 1"


def sweep_events(tx: Transaction, seqs: Sequence[int]) -> None:
    """Delete the events ``seqs``, at most ROWS in order; record the last as deleted."""
    tx.conn.executemany(EVENT, [(seq,) for seq in seqs])
    tx.conn.execute(MISSING, (seqs[-1],))


OVER: Final = """
SELECT space FROM workflows WHERE space = :space GROUP BY space
HAVING max(state = 'running') = 0 AND max(bound) = 0 AND max(ended_ms) < :before
"""


def clear_runs(tx: Transaction, spaces: Sequence[str], before_ms: int) -> int:
    """Delete the messages of ``spaces`` whose runs are all old. Return the number of ``spaces``."""
    over = [one for one in spaces if tx.conn.execute(OVER, {"space": one, "before": before_ms}).fetchone()]
    _clear(tx, over)
    return len(spaces)


def _clear(tx: Transaction, spaces: Sequence[str]) -> None:
    erase(tx, spaces)
    for space in with_those_below(tx.conn, spaces):
        mark_redo(tx, space)
        tx.emit("space.cleared", space=space, data={"messages": 0, "instructions": 0})


# The rows of runs remain until the mirror files, which contain their messages, are rewritten.
DROP_RUNS: Final = """
DELETE FROM workflows WHERE space = :space AND NOT EXISTS (
  SELECT 1 FROM workflows AS w WHERE w.space = :space AND (w.state = 'running' OR w.bound OR w.ended_ms >= :before
    OR (w.mirror IS NOT NULL AND EXISTS (SELECT 1 FROM mirrors AS m WHERE m.space = :space))))
RETURNING 1
"""


def sweep_runs(tx: Transaction, spaces: Sequence[str], before_ms: int) -> int:
    """Delete the runs of old ``spaces``, about ROWS rows. Return how many were processed."""
    rows = 0
    for done, space in enumerate(spaces):
        if rows >= ROWS:
            return done
        dropped = tx.conn.execute(DROP_RUNS, {"space": space, "before": before_ms}).fetchall()
        if not dropped:
            continue  # continued meanwhile
        rows += len(dropped) + end(tx, space)
    return len(spaces)


DELIVERIES: Final = "DELETE FROM deliveries WHERE message = ?"
MESSAGE: Final = "DELETE FROM messages WHERE seq = ?"


def sweep_messages(tx: Transaction, seqs: Sequence[int]) -> None:
    """Delete these messages of deleted runs (at most ROWS) and their deliveries."""
    for statement in (DELIVERIES, MESSAGE):
        tx.conn.executemany(statement, [(seq,) for seq in seqs])


INSTRUCTION: Final = "DELETE FROM instructions WHERE id = ?"


def sweep_left(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete these instructions of deleted runs (at most ROWS)."""
    for statement in (*OF_INSTRUCTION, INSTRUCTION):
        tx.conn.executemany(statement, [(number,) for number in numbers])


BLOB: Final = "DELETE FROM blobs WHERE hash = ? AND put_ms < ?"


def sweep_blobs(tx: Transaction, hashes: Sequence[bytes], before_ms: int) -> None:
    """Delete these blobs, at most ROWS, except those stored again since ``before_ms``."""
    tx.conn.executemany(BLOB, [(digest, before_ms) for digest in hashes])


ANSWERS: Final = """
DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE at_ms < ? ORDER BY at_ms LIMIT ?)
"""
FEEDBACK: Final = "DELETE FROM feedback WHERE rowid IN (SELECT id FROM feedback WHERE at_ms < ? ORDER BY id LIMIT ?)"
CRASHES: Final = "DELETE FROM crashes WHERE rowid IN (SELECT rowid FROM crashes WHERE at_ms < ? LIMIT ?)"


def sweep_rows(tx: Transaction, statement: str, before_ms: int) -> int:
    """Delete at most ROWS rows from before ``before_ms``. Return the number of deleted rows."""
    tx.conn.execute(statement, (before_ms, ROWS))
    return tx.conn.changes()


# The queries below have limits: after as many rows, the caller deletes them and queries again.

skips = Sql("""
SELECT at_ms, skipped_ms AS by_ms FROM boots WHERE skipped_ms <> 0 ORDER BY id DESC LIMIT 100
""").rows(ClockJump)
"""Return the last kernel starts with a changed clock or after a long time without power."""

instructions = Sql("""
SELECT i.id FROM instructions AS i
WHERE i.ended_ms < :before AND (i.entries > 0 OR i.prefix IS NOT NULL
  OR EXISTS (SELECT 1 FROM effects AS f WHERE f.instruction = i.id)
  OR EXISTS (SELECT 1 FROM approvals AS p WHERE p.instruction = i.id)
  OR EXISTS (SELECT 1 FROM handovers AS h WHERE h.instruction = i.id)
  OR EXISTS (SELECT 1 FROM exchanges AS x WHERE x.instruction = i.id)
  OR EXISTS (SELECT 1 FROM attempts AS a WHERE a.instruction = i.id AND a.stderr_tail IS NOT NULL))
ORDER BY i.id LIMIT 20000
""").column(int)
"""Return old instructions that still have data to delete."""


events = Sql("""
SELECT e.seq FROM events AS e LEFT JOIN instructions AS i ON i.id = e.instruction
WHERE e.at_ms < :before AND (i.id IS NULL OR i.ended_ms < :before) AND e.seq > :after
ORDER BY e.seq LIMIT 20000
""").column(int)
"""Return events before a time and after a seq, except events of work that is open or ended later."""

WORKPLACES: Final = """
SELECT DISTINCT i.agent, i.space FROM instructions AS i WHERE i.ended_ms IS NULL OR i.ended_ms >= :before
"""


def spaces_in_use(conn: apsw.Connection, before_ms: int) -> frozenset[tuple[str, str]]:
    """Return (agent's key, space) of work that is open or ended after ``before_ms``."""
    return frozenset(cast("tuple[str, str]", row) for row in conn.execute(WORKPLACES, {"before": before_ms}))


# Runs that share a space with a newer one are retained, and so are bound runs and those with a working tree.
runs = Sql("""
SELECT w.space FROM workflows AS w
GROUP BY w.space HAVING max(w.state = 'running') = 0 AND max(w.bound) = 0 AND max(w.ended_ms) < :before
  AND NOT EXISTS (SELECT 1 FROM worktrees AS t WHERE t.space = w.space AND t.state <> 'gone')
LIMIT 20000
""").column(str)
"""Return the spaces whose runs have all ended before a time."""


# Messages whose space has neither a run nor a row of its own: the runs were deleted.
messages_left = Sql("""
SELECT m.seq FROM messages AS m
WHERE m.space NOT BETWEEN 'dm:' AND 'dm;' AND m.space NOT IN (SELECT w.space FROM workflows AS w)
  AND m.space NOT IN (SELECT s.space FROM subspaces AS s) LIMIT 20000
""").column(int)
"""Return messages of deleted runs."""

instructions_left = Sql("""
SELECT i.id FROM instructions AS i WHERE i.ended_ms IS NOT NULL
  AND i.space NOT BETWEEN 'dm:' AND 'dm;' AND i.space NOT IN (SELECT w.space FROM workflows AS w)
  AND i.space NOT IN (SELECT s.space FROM subspaces AS s) LIMIT 20000
""").column(int)
"""Return instructions of deleted runs."""

blobs = Sql("""
SELECT hash FROM blobs AS b WHERE b.put_ms < :before
  AND b.hash NOT IN (SELECT e.blob FROM entries AS e WHERE e.blob IS NOT NULL)
  AND b.hash NOT IN (SELECT i.prefix FROM instructions AS i WHERE i.prefix IS NOT NULL)
  AND b.hash NOT IN (SELECT a.blob FROM approvals AS a WHERE a.blob IS NOT NULL)
  AND b.hash NOT IN (SELECT r.blob FROM resources AS r)
  AND b.hash NOT IN (SELECT x.request FROM exchanges AS x UNION SELECT x.response FROM exchanges AS x)
  AND b.hash NOT IN (SELECT p.part FROM blobs AS p WHERE p.part IS NOT NULL)
LIMIT 20000
""").column(bytes)
"""Return blobs that are not referenced and were not stored since a time."""


# A space that runs again keeps its messages until that run has ended.
WITH_WORDS: Final = """
SELECT w.space, max(w.ended_ms) FROM workflows AS w INDEXED BY workflows_memory
WHERE w.workspace = 'memory' AND w.state = 'stopped'
  AND EXISTS (SELECT 1 FROM messages AS m
    WHERE m.run = w.id AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND m.cleared = 0 AND m.text <> '')
  AND NOT EXISTS (SELECT 1 FROM workflows AS r WHERE r.space = w.space
    AND (r.state = 'running' OR (r.id > w.id AND r.workspace <> 'memory')))
GROUP BY w.space ORDER BY 2 LIMIT 100
"""


def ended(conn: apsw.Connection) -> tuple[tuple[str, int], ...]:
    """Return ended spaces that still have messages, with the time of the end, the oldest first."""
    return tuple(conn.execute(WITH_WORDS))


def end_lost_runs(tx: Transaction) -> None:
    """End the runs of workflows with ``provider: memory``: their texts ended with the kernel that held them."""
    lost = memory_spaces(tx.conn, "stopped")
    if spaces := [*lost, *(space for space, _ended_ms in ended(tx.conn))]:
        _clear(tx, spaces)
        tx.forget()
    for space in lost:
        stop_workflow(tx, space, "failed", 1, "its data was in the memory of a kernel that has ended")


def give_back(tx: Transaction) -> None:
    """Request that the database is rewritten without free pages. No data changes."""
    tx.forget()
