"""Make one entry of an attempt durable."""

from typing import Final

import msgspec

from kernel.store.fence import stale
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.ipc import Entry
from protocol.names import number_of

_encode: Final = msgspec.json.Encoder().encode
_NO_USAGE: Final = Usage()

# The guard, the place and the cost in one statement: zero rows mean fenced, or not the next entry.
ADVANCE: Final = """
UPDATE instructions SET state = 'running', entries = entries + 1, steps = steps + :step,
  input_tokens = input_tokens + :input, output_tokens = output_tokens + :output,
  cache_read_tokens = cache_read_tokens + :cache,
  cost_usd = CASE WHEN :cost IS NULL THEN cost_usd ELSE coalesce(cost_usd, 0.0) + :cost END
WHERE id = :id AND epoch = :epoch AND entries = :k AND state IN ('leased', 'running')
RETURNING agent, name, space, message, steps
"""

INSERT_ENTRY: Final = "INSERT INTO entries (instruction, k, epoch, kind, body, at_ms) VALUES (?, ?, ?, ?, ?, ?)"

INJECTED: Final = "UPDATE deliveries SET state = 'injected' WHERE message = ? AND agent = ? AND state = 'leased'"


def journal(tx: Transaction, instruction: str, epoch: int, entry: Entry) -> None:
    """Write entry ``entry.k`` and book its usage. The same entry again changes nothing.

    Raises Refused (stale_attempt; conflict where k is not the next or holds another body).
    """
    number = number_of(instruction, "i")
    usage = entry.usage or _NO_USAGE
    values = {
        "id": number,
        "epoch": epoch,
        "k": entry.k,
        "step": entry.kind == "reply",
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache": usage.cache_read_tokens,
        "cost": usage.cost_usd,
    }
    row = tx.conn.execute(ADVANCE, values).fetchone()
    if row is None:
        _check_repeated(tx, instruction, epoch, entry)
        return
    agent, name, space, message, steps = row
    tx.conn.execute(INSERT_ENTRY, (number, entry.k, epoch, entry.kind, _encode(entry), tx.now_ms))
    if entry.k == 0:
        tx.conn.execute(INJECTED, (message, agent))
    data = {"k": entry.k, "kind": entry.kind, "step": steps, "name": entry.name}
    tx.emit("instruction.step", space=space, agent=name, instruction=number, data=data)


STORED: Final = """
SELECT i.entries, e.body FROM instructions AS i LEFT JOIN entries AS e ON e.instruction = i.id AND e.k = :k
WHERE i.id = :id AND i.epoch = :epoch AND i.state IN ('leased', 'running')
"""


def _check_repeated(tx: Transaction, instruction: str, epoch: int, entry: Entry) -> None:
    values = {"id": number_of(instruction, "i"), "epoch": epoch, "k": entry.k}
    row = tx.conn.execute(STORED, values).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    entries, body = row
    if body is None:
        raise Refused("conflict", f"entry {entry.k} of {instruction} is out of order: the next is {entries}")
    if body != _encode(entry):
        raise Refused("conflict", f"entry {entry.k} of {instruction} is already written, with another body")
