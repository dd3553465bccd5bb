"""Book what an attempt spent of which its kernel learns after somebody took its instruction back: nothing is free."""

from typing import Final

import msgspec

from kernel.store.commits.close import BOOK, amounts_of
from kernel.store.commits.entry_body import store_body
from kernel.store.commits.journal import INSERT_ENTRY
from kernel.store.commits.spend import spend
from kernel.store.fence import stale
from kernel.store.transaction import Transaction
from protocol.ipc import Entry
from protocol.names import number_of

_encode: Final = msgspec.json.Encoder().encode

# Only of the attempt that was stopped: a new one has another epoch.
ADVANCE: Final = """
UPDATE instructions SET entries = entries + 1, input_tokens = input_tokens + :input,
  output_tokens = output_tokens + :output,
  cache_read_tokens = cache_read_tokens + :cache, cache_write_tokens = cache_write_tokens + :cached,
  cost_usd = CASE WHEN :cost IS NULL THEN cost_usd ELSE coalesce(cost_usd, 0.0) + :cost END
WHERE id = :id AND epoch = :epoch AND entries = :k AND state = 'cancelled'
RETURNING agent, run
"""


def book_late(tx: Transaction, instruction: str, epoch: int, entry: Entry) -> None:
    """Keep ``entry``, the next of a cancelled instruction, and book its usage. Raises Refused (stale_attempt)."""
    number = number_of(instruction, "i")
    assert entry.usage is not None, "there is something to book"
    values = {"id": number, "epoch": epoch, "k": entry.k, **amounts_of(entry.usage)}
    row = tx.conn.execute(ADVANCE, values).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    agent, run = row
    tx.conn.execute(INSERT_ENTRY, (number, entry.k, epoch, entry.kind, *store_body(tx, _encode(entry)), tx.now_ms))
    spend(tx, agent=agent, run=run, usage=entry.usage)
    tx.conn.execute(BOOK, {"agent": agent, "exit": None, "now": tx.now_ms, "worked": False, **amounts_of(entry.usage)})
