"""Say that the worker of an attempt runs, and of what its prompt was made: with its first entry, or by itself."""

from dataclasses import dataclass
from typing import Final

from kernel.store.fence import held
from kernel.store.transaction import Transaction
from protocol.names import attempt_id, instruction_id
from protocol.text import encode_json

SET_MANIFEST: Final = "UPDATE instructions SET manifest = ?, model = ? WHERE id = ?"
SET_MODEL: Final = "UPDATE instructions SET model = ? WHERE id = ? AND model IS NOT ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What there is to tell of a worker that runs. ``manifest`` is what its prompt was made of."""

    pid: int
    backend: str
    model: str
    manifest: tuple[str, ...] = ()


def started(tx: Transaction, instruction: str, epoch: int, beginning: Beginning) -> None:
    """Tell that the attempt's worker runs. Raises Refused (stale_attempt)."""
    row = held(tx.conn, instruction, epoch)
    tell_started(tx, row.number, epoch, row.name, row.space, beginning)


def tell_started(tx: Transaction, number: int, epoch: int, name: str, space: str, beginning: Beginning) -> None:
    """The same as a part of another commit, which has seen that the attempt still holds its instruction."""
    model = beginning.model or beginning.backend
    if beginning.manifest:
        tx.conn.execute(SET_MANIFEST, (encode_json(beginning.manifest), model, number))
    else:
        tx.conn.execute(SET_MODEL, (model, number, model))
    data = {
        "attempt": attempt_id(instruction_id(number), epoch),
        "pid": beginning.pid,
        "backend": beginning.backend,
        "model": beginning.model,
    }
    tx.emit("attempt.started", space=space, agent=name, instruction=number, data=data)
