"""Remove what is kept no longer, a little at a time: each of these is one small commit, so that others get their turn.

What was said to an agent directly stays, and so does what tells of its instructions: status, cost, attempts. Of a run
nothing stays: its row goes first, so that nobody goes on with it, and then what is left in its space.
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


DROP_RUNS: Final = """
DELETE FROM workflows WHERE space = :space AND NOT EXISTS (
  SELECT 1 FROM workflows AS w WHERE w.space = :space AND (w.state = 'running' OR w.bound OR w.ended_ms >= :before))
RETURNING 1
"""
VOTES: Final = "DELETE FROM votes WHERE ballot IN (SELECT b.id FROM ballots AS b WHERE b.space = ?)"
ELECTORS: Final = "DELETE FROM electors WHERE ballot IN (SELECT b.id FROM ballots AS b WHERE b.space = ?)"
BALLOTS: Final = "DELETE FROM ballots WHERE space = ?"
TREES: Final = "DELETE FROM worktrees WHERE space = ?"
MEMBERS: Final = "DELETE FROM members WHERE space = ?"
REDO: Final = "DELETE FROM mirrors WHERE space = ?"
SPENT: Final = "DELETE FROM spending WHERE agent IN (SELECT a.key FROM agents AS a WHERE a.home_space = ?)"
RULES: Final = "DELETE FROM approval_rules WHERE agent IN (SELECT a.key FROM agents AS a WHERE a.home_space = ?)"
INLINE: Final = "DELETE FROM agents WHERE home_space = ? AND origin = 'inline'"
OF_RUNS: Final = (VOTES, ELECTORS, BALLOTS, TREES, MEMBERS, REDO, SPENT, RULES, INLINE)


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
        rows += len(dropped)
        for statement in OF_RUNS:
            tx.conn.execute(statement, (space,))
            rows += tx.conn.changes()
    return len(spaces)


DELIVERIES: Final = "DELETE FROM deliveries WHERE message = ?"
MESSAGE: Final = "DELETE FROM messages WHERE seq = ?"


def sweep_messages(tx: Transaction, seqs: Sequence[int]) -> None:
    """Remove these messages of removed runs, and whom they reached. At most ROWS."""
    for statement in (DELIVERIES, MESSAGE):
        tx.conn.executemany(statement, [(seq,) for seq in seqs])


ATTEMPTS: Final = "DELETE FROM attempts WHERE instruction = ?"
INSTRUCTION: Final = "DELETE FROM instructions WHERE id = ?"


def sweep_left(tx: Transaction, numbers: Sequence[int]) -> None:
    """Remove these instructions of removed runs. At most ROWS."""
    for statement in (ENTRIES, EFFECTS, APPROVALS, ATTEMPTS, INSTRUCTION):
        tx.conn.executemany(statement, [(number,) for number in numbers])


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
