"""Correct stored times if the clock was changed since an earlier kernel. Part of recovery.

Without a reboot in between, the difference is known, and all relevant times are shifted by it: a clock change without a
kernel affects no wait, floor or window (promises P2, P12, P21). After a reboot, only a clock that was set back is
noticed: waits keep their length (fault TF14) but start again (fault TF01). Ended work keeps its displayed times;
``skipped`` returns how to read them (kernel.policy.timing).
"""

from typing import Final

import msgspec

from kernel.policy.timing import unseen
from kernel.store.transaction import Transaction

LONGEST_BACKOFF_MS: Final = 30_000
"""Longest delay of an agent's restart."""

NEWEST: Final = "SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1"

WAITS: Final = """
UPDATE instructions SET not_before_ms = :now + max(not_before_ms - parked_ms, 0), parked_ms = :now
WHERE state IN ('queued', 'yielded', 'waiting') AND not_before_ms > 0 AND parked_ms > :now
"""
ANSWERS: Final = """
UPDATE instructions SET answer_by_ms = :now + (answer_by_ms - max(enqueued_ms, parked_ms))
WHERE state = 'waiting' AND answer_by_ms > 0 AND max(enqueued_ms, parked_ms) > :now
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
APPROVALS: Final = """
UPDATE approvals SET expires_ms = :now + (expires_ms - requested_ms), requested_ms = :now,
  waits_ms = CASE WHEN waits_ms > 0 THEN :now + (expires_ms - requested_ms) ELSE 0 END
WHERE state = 'open' AND requested_ms > :now
"""
BALLOTS: Final = """
UPDATE ballots SET expires_ms = :now + (expires_ms - created_ms), created_ms = :now
WHERE state = 'open' AND created_ms > :now
"""
ALL: Final = (ANSWERS, WAITS, AGES, BREAKERS, HOLDS, CRASHES, DEADLINES, INTERVALS, APPROVALS, BALLOTS)


class HostClock(msgspec.Struct, frozen=True):
    """Clock of a machine: the id of its boot, and the kernel's time at that boot."""

    boot_id: str
    offset_ms: int


LAST: Final = "SELECT machine, offset_ms FROM boots ORDER BY id DESC LIMIT 1"

DRIFT_MS: Final = 1000
"""Differences below this limit are normal drift."""

MOVED: Final = (
    """
UPDATE instructions SET not_before_ms = CASE WHEN not_before_ms > 0 THEN not_before_ms + :by ELSE 0 END,
  parked_ms = CASE WHEN parked_ms > 0 THEN parked_ms + :by ELSE 0 END, enqueued_ms = enqueued_ms + :by,
  throttled_ms = CASE WHEN throttled_ms > 0 THEN throttled_ms + :by ELSE 0 END,
  answer_by_ms = CASE WHEN answer_by_ms > 0 THEN answer_by_ms + :by ELSE 0 END
WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
""",
    """
UPDATE breakers SET open_until_ms = CASE WHEN open_until_ms > 0 THEN open_until_ms + :by ELSE 0 END,
  changed_ms = changed_ms + :by
""",
    """
UPDATE agents SET hold_until_ms = CASE WHEN hold_until_ms > 0 THEN hold_until_ms + :by ELSE 0 END,
  resume_at_ms = CASE WHEN resume_at_ms > 0 THEN resume_at_ms + :by ELSE 0 END,
  crashed_ms = CASE WHEN crashed_ms > 0 THEN crashed_ms + :by ELSE 0 END
WHERE hold_until_ms > 0 OR resume_at_ms > 0 OR crashed_ms > 0
""",
    "UPDATE crashes SET at_ms = at_ms + :by",
    "UPDATE workflows SET deadline_ms = deadline_ms + :by WHERE state = 'running' AND deadline_ms IS NOT NULL",
    "UPDATE timers SET next_ms = next_ms + :by WHERE period_ms IS NOT NULL",
    """
UPDATE approvals SET expires_ms = expires_ms + :by, requested_ms = requested_ms + :by,
  waits_ms = CASE WHEN waits_ms > 0 THEN waits_ms + :by ELSE 0 END
WHERE state = 'open'
""",
    "UPDATE ballots SET expires_ms = expires_ms + :by, created_ms = created_ms + :by WHERE state = 'open'",
    "UPDATE idempotency SET at_ms = at_ms + :by",
    # In two steps, because every row needs a unique key at any time.
    "UPDATE spending SET minute = -(minute + :by / 60000)",
    "UPDATE spending SET minute = -minute",
)


def correct_clock(tx: Transaction, machine: HostClock | None = None) -> bool:
    """Adjust stored times to the clock of the new kernel. Return whether anything changed."""
    by_ms = _set_by(tx, machine)
    return _put_back(tx) if by_ms is None else _moved(tx, by_ms)


def skipped(tx: Transaction, machine: HostClock | None = None) -> int:
    """Return the ms by which the clock jumped since the previous kernel; negative: it was set back.

    Call this before emitting an event: the newest event is the last known time of the previous kernel.
    """
    by_ms = _set_by(tx, machine)
    if by_ms is not None:
        return by_ms if abs(by_ms) >= DRIFT_MS else 0
    row = tx.conn.execute(NEWEST).fetchone()
    return 0 if row is None else unseen(int(row[0]), tx.now_ms)


def _set_by(tx: Transaction, machine: HostClock | None) -> int | None:
    """Return by how many ms the clock was set since the last kernel; None after a reboot."""
    row = tx.conn.execute(LAST).fetchone()
    if machine is None or not machine.boot_id or row is None or row[0] != machine.boot_id:
        return None
    return machine.offset_ms - int(str(row[1]))


def _moved(tx: Transaction, by_ms: int) -> bool:
    if abs(by_ms) < DRIFT_MS:
        return False
    for statement in MOVED:
        tx.conn.execute(statement, {"by": by_ms})
    return True


def _put_back(tx: Transaction) -> bool:
    """Set future times to now. Return whether the clock was set back, so that this was needed."""
    row = tx.conn.execute(NEWEST).fetchone()
    if row is None or int(row[0]) <= tx.now_ms:
        return False
    for statement in ALL:
        tx.conn.execute(statement, {"now": tx.now_ms})
    tx.conn.execute(BACKOFFS, {"now": tx.now_ms, "longest": LONGEST_BACKOFF_MS})
    return True
