"""Sets right what an earlier kernel stored, where its clock was ahead of ours. Part of recovery.

What waits keeps its wait (fault TF14), but a clock that was put back must not make it longer (fault TF01): it begins
anew, at most. A clock that was put forward makes nothing wait longer, so there is nothing to set right.
"""

from typing import Final

from kernel.store.transaction import Transaction

LONGEST_BACKOFF_MS: Final = 30_000
"""No restart of an agent is put off longer."""

NEWEST: Final = "SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1"

WAITS: Final = """
UPDATE instructions SET not_before_ms = :now + max(not_before_ms - parked_ms, 0), parked_ms = :now
WHERE state IN ('queued', 'yielded', 'waiting') AND not_before_ms > 0 AND parked_ms > :now
"""
AGES: Final = """
UPDATE instructions SET enqueued_ms = :now
WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting') AND enqueued_ms > :now
"""
BREAKERS: Final = """
UPDATE breakers SET open_until_ms = :now + max(open_until_ms - changed_ms, 0), changed_ms = :now
WHERE open_until_ms > 0 AND changed_ms > :now
"""
HOLDS: Final = """
UPDATE agents SET hold_until_ms = coalesce((SELECT open_until_ms FROM breakers WHERE key = hold_key), hold_until_ms)
WHERE hold_key IS NOT NULL AND hold_until_ms > 0
"""
BACKOFFS: Final = """
UPDATE agents SET resume_at_ms = min(resume_at_ms, :now + :longest), crashed_ms = min(crashed_ms, :now)
WHERE resume_at_ms > :now OR crashed_ms > :now
"""
CRASHES: Final = "UPDATE crashes SET at_ms = :now WHERE at_ms > :now"
DEADLINES: Final = """
UPDATE workflows SET deadline_ms = :now + (deadline_ms - started_ms), started_ms = :now
WHERE state = 'running' AND deadline_ms IS NOT NULL AND started_ms > :now
"""
INTERVALS: Final = """
UPDATE timers SET next_ms = :now + period_ms WHERE period_ms IS NOT NULL AND next_ms > :now + period_ms
"""
ALL: Final = (WAITS, AGES, BREAKERS, HOLDS, CRASHES, DEADLINES, INTERVALS)


def reclock(tx: Transaction) -> bool:
    """Bring times that lie ahead back to now. False: the clock has not been put back since the last event."""
    row = tx.conn.execute(NEWEST).fetchone()
    if row is None or int(row[0]) <= tx.now_ms:
        return False
    for statement in ALL:
        tx.conn.execute(statement, {"now": tx.now_ms})
    tx.conn.execute(BACKOFFS, {"now": tx.now_ms, "longest": LONGEST_BACKOFF_MS})
    return True
