"""Work of a paused workflow waits. Part of every commit that puts an instruction into its lane."""

from typing import Final

from kernel.store.transaction import Transaction
from kernel.store.transition_sql import instruction_sql
from protocol.instruction import LANES

KEEP: Final = instruction_sql("""
UPDATE instructions SET state = {pause}, waits_for = 'paused', wait_key = NULL
WHERE id = ? AND state {before pause} AND EXISTS (
  SELECT 1 FROM workflows AS w WHERE w.space = instructions.space AND w.state = 'running' AND w.paused = 1)
RETURNING name, space, lane
""")


def keep_paused(tx: Transaction, number: int) -> bool:
    """Have an instruction wait where its workflow is paused. Returns whether it does."""
    row = tx.conn.execute(KEEP, (number,)).fetchone()
    if row is None:
        return False
    name, space, lane = row
    data = {"status": "waiting", "lane": LANES[lane], "not_before": None, "waits_for": "paused"}
    tx.emit("instruction.queued", space=space, agent=name, instruction=number, data=data)
    return True
