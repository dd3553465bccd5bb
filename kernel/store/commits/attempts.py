"""The end of an attempt: its row, its token and its event. Part of park and close, never a job of its own."""

from dataclasses import dataclass
from typing import Final

from kernel.store.commits.work import book_work
from kernel.store.transaction import Transaction
from protocol.names import attempt_id, instruction_id


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended. ``exit`` is a code or a signal's name; ``stderr_tail`` what its worker complained."""

    outcome: str
    exit: str | None = None
    stderr_tail: str | None = None


KERNEL_RESTART: Final = "kernel_restart"
"""The outcome of an attempt whose kernel died: nobody saw it end."""

# Until when it worked that its kernel left behind is not known: until its last entry at least.
END: Final = """
UPDATE attempts SET ended_ms = :now, outcome = :outcome, exit = :exit, stderr_tail = :stderr,
  worked_ms = max(0, CASE WHEN :unseen THEN coalesce((SELECT max(at_ms) FROM entries
      WHERE instruction = :instruction AND epoch = :epoch), started_ms) ELSE :now END - started_ms)
WHERE instruction = :instruction AND epoch = :epoch AND ended_ms IS NULL
RETURNING (SELECT agent FROM instructions WHERE id = :instruction), started_ms, worked_ms
"""


def end_attempt(tx: Transaction, number: int, epoch: int, name: str, space: str, ending: Ending) -> None:
    """Close the attempt's row, if one is open, and book its time. Its token is worth nothing from this commit on."""
    values = {
        "now": tx.now_ms,
        "outcome": ending.outcome,
        "exit": ending.exit,
        "stderr": ending.stderr_tail,
        "unseen": ending.outcome == KERNEL_RESTART,
        "instruction": number,
        "epoch": epoch,
    }
    row = tx.conn.execute(END, values).fetchone()
    if row is None:
        return
    agent, started_ms, worked_ms = row
    book_work(tx, agent, started_ms, worked_ms)
    data = {
        "attempt": attempt_id(instruction_id(number), epoch),
        "outcome": ending.outcome,
        "exit": ending.exit,
        "stderr": ending.stderr_tail,
    }
    tx.emit("attempt.ended", space=space, agent=name, instruction=number, data=data)
