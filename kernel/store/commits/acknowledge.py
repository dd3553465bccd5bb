"""An agent marks messages of its inbox as handled."""

from collections.abc import Iterable
from typing import Final

from kernel.rule.draft import Author
from kernel.store.fence import held
from kernel.store.transaction import Transaction

ACK: Final = """
UPDATE deliveries SET state = 'acked'
WHERE message = ? AND agent = ? AND space = ? AND state IN ('queued', 'leased', 'injected')
RETURNING message
"""


def acknowledge(tx: Transaction, author: Author, messages: Iterable[int]) -> tuple[int, ...]:
    """Mark deliveries to the author's agent in its space; return those that were open until now.

    Doing it twice changes nothing, so it needs no ledger. Work that a message has already queued still runs.
    Raises Refused (stale_attempt).
    """
    owner = held(tx.conn, author.instruction, author.epoch)
    rows = (tx.conn.execute(ACK, (seq, owner.agent, owner.space)).fetchone() for seq in messages)
    return tuple(row[0] for row in rows if row is not None)
