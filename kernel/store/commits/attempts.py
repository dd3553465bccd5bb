"""The end of an attempt: its row, its token and its event. Part of park and close, never a job of its own."""

from dataclasses import dataclass
from typing import Final

from kernel.store.transaction import Transaction
from protocol.names import attempt_id, instruction_id


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended. ``exit`` is a code or a signal's name; ``stderr_tail`` what its worker complained."""

    outcome: str
    exit: str | None = None
    stderr_tail: str | None = None


END: Final = """
UPDATE attempts SET ended_ms = ?, outcome = ?, exit = ?, stderr_tail = ?
WHERE instruction = ? AND epoch = ? AND ended_ms IS NULL
RETURNING n
"""


def end_attempt(tx: Transaction, number: int, epoch: int, name: str, space: str, ending: Ending) -> None:
    """Close the attempt's row, if one is open. Its token is worth nothing from this commit on."""
    row = (tx.now_ms, ending.outcome, ending.exit, ending.stderr_tail, number, epoch)
    if tx.conn.execute(END, row).fetchone() is None:
        return
    data = {
        "attempt": attempt_id(instruction_id(number), epoch),
        "outcome": ending.outcome,
        "exit": ending.exit,
        "stderr": ending.stderr_tail,
    }
    tx.emit("attempt.ended", space=space, agent=name, instruction=number, data=data)
