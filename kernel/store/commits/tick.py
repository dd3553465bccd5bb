"""What time alone changes: waits that are over, breakers that may be tried, work that has waited too long."""

from typing import Final, cast

import apsw

from kernel.store.commits.trip import probe, wake
from kernel.store.transaction import Transaction

AGE: Final = """
UPDATE instructions SET lane = 0, promoted = 1
WHERE state IN ('queued', 'yielded') AND lane > 0 AND enqueued_ms <= ?
RETURNING id, name, space, state
"""

OVER: Final = """
SELECT id FROM instructions INDEXED BY instructions_timed
WHERE state = 'waiting' AND not_before_ms > 0 AND not_before_ms <= ? AND wait_key IS NULL ORDER BY lane, id
"""

PROBE: Final = "SELECT key FROM breakers WHERE state = 'open' AND open_until_ms > 0 AND open_until_ms <= ? ORDER BY key"


def tick(tx: Transaction, starvation_ms: int) -> None:
    """Do whatever is due at the transaction's time. Nothing due: nothing is written."""
    aged = tx.conn.execute(AGE, (tx.now_ms - starvation_ms,)).fetchall()
    for number, name, space, state in cast("list[tuple[int, str, str, str]]", aged):
        data = {"status": state, "lane": "immediate", "not_before": None}
        tx.emit("instruction.queued", space=space, agent=name, instruction=number, data=data)
    for (number,) in cast("list[tuple[int]]", tx.conn.execute(OVER, (tx.now_ms,)).fetchall()):
        wake(tx, number)
    for (key,) in tx.conn.execute(PROBE, (tx.now_ms,)).fetchall():
        probe(tx, str(key))


NEXT: Final = """
SELECT min(
  coalesce((SELECT min(i.enqueued_ms) + :starvation FROM instructions AS i INDEXED BY instructions_aging
    WHERE i.state IN ('queued', 'yielded') AND i.lane > 0), :never),
  coalesce((SELECT min(i.not_before_ms) FROM instructions AS i INDEXED BY instructions_timed
    WHERE i.state = 'waiting' AND i.not_before_ms > 0 AND i.wait_key IS NULL), :never),
  coalesce((SELECT min(b.open_until_ms) FROM breakers AS b WHERE b.state = 'open' AND b.open_until_ms > 0), :never))
"""
NEVER: Final = 2**62


def next_tick_ms(conn: apsw.Connection, starvation_ms: int) -> int | None:
    """When ``tick`` has something to do next; None: not before something else happens."""
    row = conn.execute(NEXT, {"starvation": starvation_ms, "never": NEVER}).fetchone()
    return None if row is None or row[0] == NEVER else int(row[0])
