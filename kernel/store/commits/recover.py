"""What a new kernel does first: nothing that the last one had begun is lost, and nothing runs twice.

Run it only when no worker of the last kernel is left (every keeper's lock was taken).
"""

from typing import Final, cast

import msgspec

from kernel.store.commits.close import close
from kernel.store.commits.park import park
from kernel.store.entries import of
from kernel.store.transaction import Transaction
from protocol.ipc import Entry
from protocol.names import InstructionId, instruction_id

FINAL_STOPS: Final = frozenset({"end_turn", "stop_sequence", "stop"})
"""Stop reasons after which a model has said all it wanted to say."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was open: put back into its lane, or closed because its last reply was durable already."""

    requeued: tuple[InstructionId, ...] = ()
    closed: tuple[InstructionId, ...] = ()


LIVE: Final = "SELECT id, epoch FROM instructions WHERE state IN ('leased', 'running') ORDER BY id"

INSERT_BOOT: Final = "INSERT INTO boots (pid, version, at_ms, requeued) VALUES (?, ?, ?, ?)"


def recover(tx: Transaction, *, pid: int = 0, version: str = "") -> Recovered:
    """Take over from a kernel that is gone. No attempt is charged for its death."""
    requeued: list[InstructionId] = []
    closed: list[InstructionId] = []
    for number, epoch in cast("list[tuple[int, int]]", tx.conn.execute(LIVE).fetchall()):
        instruction = instruction_id(number)
        text = _final_text(of(tx.conn, instruction))
        if text is None:
            park(
                tx, instruction, epoch, status="queued", outcome="kernel_restart", cause="kernel_restart", charge=False
            )
            requeued.append(instruction)
        else:
            close(tx, instruction, epoch, status="done", text=text, outcome="kernel_restart")
            closed.append(instruction)
    tx.conn.execute(INSERT_BOOT, (pid, version, tx.now_ms, len(requeued)))
    tx.emit("kernel.started", data={"pid": pid, "version": version, "requeued": len(requeued)})
    return Recovered(requeued=tuple(requeued), closed=tuple(closed))


def _final_text(entries: tuple[Entry, ...]) -> str | None:
    """The result, if the last entry is a reply that ends the work; else None."""
    if not entries:
        return None
    last = entries[-1]
    if last.kind != "reply" or last.calls or last.stop_reason not in FINAL_STOPS:
        return None
    return next((one.text for one in reversed(entries) if one.kind == "reply" and one.text), "")
