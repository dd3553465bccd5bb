"""A person has an instruction done before the others."""

from typing import Final

from kernel.store.commits.find import Found, find
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.instruction import LANES, LIVE

PROMOTE: Final = """
UPDATE instructions SET lane = 0, promoted = 1 WHERE id = ? AND state IN ('queued', 'yielded', 'waiting')
RETURNING state
"""


def promote(tx: Transaction, instruction: str) -> None:
    """Move an instruction to the most urgent lane, where it makes a step before anything preempts it.

    One that waits goes on waiting, and is first afterwards. Raises Refused: not_found, conflict (it runs, or ended).
    """
    found = find(tx.conn, instruction)
    row = tx.conn.execute(PROMOTE, (found.number,)).fetchone()
    if row is None:
        raise _too_late(found, instruction)
    data = {"status": row[0], "lane": LANES[0], "not_before": None}
    tx.emit("instruction.queued", space=found.space, agent=found.name, instruction=found.number, data=data)


def _too_late(found: Found, instruction: str) -> Refused:
    if found.state in LIVE:
        return Refused("conflict", f"{instruction} runs already", f"see it: awk show {instruction}")
    hint = f"run it again: awk retry {instruction}" if found.state in ("failed", "dead") else None
    return Refused("conflict", f"{instruction} has ended: {found.state}", hint)
