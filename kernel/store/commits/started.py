"""Say that the worker of an attempt runs, and of what its prompt was made."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kernel.store.fence import held
from kernel.store.transaction import Transaction
from protocol.names import attempt_id

SET_MANIFEST: Final = "UPDATE instructions SET manifest = ? WHERE id = ?"
_encode: Final = msgspec.json.Encoder().encode


def started(
    tx: Transaction,
    instruction: str,
    epoch: int,
    *,
    pid: int,
    backend: str,
    model: str,
    manifest: Sequence[str] = (),
) -> None:
    """Tell that the attempt's worker runs, and of what its prompt was made. Raises Refused (stale_attempt)."""
    row = held(tx.conn, instruction, epoch)
    if manifest:
        tx.conn.execute(SET_MANIFEST, (_encode(manifest), row.number))
    data = {"attempt": attempt_id(instruction, epoch), "pid": pid, "backend": backend, "model": model}
    tx.emit("attempt.started", space=row.space, agent=row.name, instruction=row.number, data=data)
