"""Remove what is kept no longer, a little at a time: each of these is one small commit, so that others get their turn.

Messages stay, and so does what tells of an instruction: its status, its cost, its attempts.
"""

from collections.abc import Sequence
from typing import Final

from kernel.store.transaction import Transaction

ROWS: Final = 500
"""What one commit removes at most; the journal of one instruction is removed in one piece."""

STILL_OLD: Final = "SELECT 1 FROM instructions WHERE id = ? AND ended_ms < ?"
ENTRIES: Final = "DELETE FROM entries WHERE instruction = ?"
EFFECTS: Final = "DELETE FROM effects WHERE instruction = ?"
APPROVALS: Final = "DELETE FROM approvals WHERE instruction = ?"
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
        for statement in (ENTRIES, EFFECTS, APPROVALS, COMPLAINTS, FORGET):
            tx.conn.execute(statement, (number,))
            rows += tx.conn.changes()
    return len(numbers)


EVENT: Final = "DELETE FROM events WHERE seq = ?"
MISSING: Final = "UPDATE kept SET events = max(events, ?) WHERE id = 1"


def sweep_events(tx: Transaction, seqs: Sequence[int]) -> None:
    """Remove these events, and remember up to where some are missing. At most ROWS, in order."""
    tx.conn.executemany(EVENT, [(seq,) for seq in seqs])
    tx.conn.execute(MISSING, (seqs[-1],))


BLOB: Final = "DELETE FROM blobs WHERE hash = ? AND put_ms < ?"


def sweep_blobs(tx: Transaction, hashes: Sequence[bytes], before_ms: int) -> None:
    """Remove these blobs, unless they were put since ``before_ms``. At most ROWS."""
    tx.conn.executemany(BLOB, [(digest, before_ms) for digest in hashes])


ANSWERS: Final = """
DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE at_ms < ? ORDER BY at_ms LIMIT ?)
"""


def sweep_answers(tx: Transaction, before_ms: int) -> int:
    """Remove answers that are replayed no longer; how many."""
    tx.conn.execute(ANSWERS, (before_ms, ROWS))
    return tx.conn.changes()


FEEDBACK: Final = "DELETE FROM feedback WHERE rowid IN (SELECT id FROM feedback WHERE at_ms < ? ORDER BY id LIMIT ?)"


def sweep_feedback(tx: Transaction, before_ms: int) -> int:
    """Remove what was said about the work before that time; how much."""
    tx.conn.execute(FEEDBACK, (before_ms, ROWS))
    return tx.conn.changes()


CRASHES: Final = "DELETE FROM crashes WHERE rowid IN (SELECT rowid FROM crashes WHERE at_ms < ? LIMIT ?)"


def sweep_crashes(tx: Transaction, before_ms: int) -> int:
    """Remove crashes that no restart budget counts any more; how many."""
    tx.conn.execute(CRASHES, (before_ms, ROWS))
    return tx.conn.changes()
