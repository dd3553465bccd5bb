"""What only the last kernel knew, or a new one may know better: probes, credentials, answers. Part of recovery.

A refused credential or an empty account is asked once more: whoever starts a kernel may have changed its environment.
"""

from typing import Final, cast

from kernel.store.commits.answer import answer
from kernel.store.commits.trip import shut, wake
from kernel.store.transaction import Transaction

# Whoever was trying is in its lane again, or has ended: nobody would ever report.
STOP_PROBES: Final = "UPDATE breakers SET state = 'open', probe = NULL WHERE state = 'half_open'"

WITHOUT_TIME: Final = """
SELECT key FROM breakers WHERE reason IN ('credentials', 'quota') AND open_until_ms = 0 ORDER BY key
"""

# Whom a breaker holds is let go with it; these have lost theirs, and nobody would ever come back to them.
STRANDED: Final = """
SELECT id FROM instructions INDEXED BY instructions_waiting
WHERE state = 'waiting' AND waits_for IN ('provider', 'credentials', 'quota')
  AND NOT EXISTS (SELECT 1 FROM breakers AS b WHERE b.key = instructions.wait_key AND b.state <> 'closed')
ORDER BY id
"""
FORGET_HOLDS: Final = """
UPDATE agents SET hold_key = NULL, hold_reason = NULL, hold_until_ms = 0
WHERE hold_key IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM breakers AS b WHERE b.key = agents.hold_key AND b.state <> 'closed')
"""

ANSWERED: Final = """
SELECT i.id FROM instructions AS i INDEXED BY instructions_waiting
CROSS JOIN instructions AS asked ON asked.id = CAST(substr(i.wait_key, 2) AS INTEGER)
WHERE i.state = 'waiting' AND i.waits_for = 'answer'
  AND asked.state IN ('done', 'incomplete', 'failed', 'dead', 'cancelled')
ORDER BY i.id
"""

PAUSE: Final = """
UPDATE instructions SET state = 'waiting', waits_for = 'paused', wait_key = NULL
WHERE state IN ('queued', 'yielded')
  AND space IN (SELECT w.space FROM workflows AS w WHERE w.paused AND w.state = 'running')
"""


def reopen(tx: Transaction) -> None:
    """Let go on what need not wait any more; what a person has paused stays so."""
    tx.conn.execute(STOP_PROBES)
    for (key,) in tx.conn.execute(WITHOUT_TIME).fetchall():
        shut(tx, str(key))
    for question, let_go in ((STRANDED, wake), (ANSWERED, answer)):
        for (number,) in cast("list[tuple[int]]", tx.conn.execute(question).fetchall()):
            let_go(tx, number)
    tx.conn.execute(FORGET_HOLDS)
    tx.conn.execute(PAUSE)
