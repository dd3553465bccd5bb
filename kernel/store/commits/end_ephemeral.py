"""What a clean stop ends: agents that were made at run time, and what was asked of them (contracts.md section 3)."""

from typing import Final, cast

from kernel.store.commits.close import cancel
from kernel.store.transaction import Transaction

OPEN: Final = """
SELECT i.id, i.epoch FROM instructions AS i CROSS JOIN agents AS a ON a.key = i.agent
WHERE a.origin = 'ephemeral' AND i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY i.id
"""
DELETE: Final = "DELETE FROM agents WHERE origin = 'ephemeral' RETURNING key"


def end_ephemeral(tx: Transaction) -> tuple[str, ...]:
    """Cancel the open work of ephemeral agents and forget them. Returns their names."""
    for number, epoch in cast("list[tuple[int, int]]", tx.conn.execute(OPEN).fetchall()):
        cancel(tx, number, epoch)
    names = tuple(str(key) for (key,) in tx.conn.execute(DELETE).fetchall())
    for name in names:
        tx.emit("agent.changed", agent=name, data={"state": "deleted", "reason": "the kernel was stopped"})
    return names
