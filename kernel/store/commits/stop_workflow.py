"""End a workflow: it is stopped, and everything open in its space is cancelled."""

from typing import Final, cast

import msgspec

from kernel.rule.draft import Draft, WorkflowStopped
from kernel.store.commits.append import append
from kernel.store.commits.close import cancel
from kernel.store.transaction import Transaction
from protocol.message import SYSTEM
from protocol.names import AttemptId, InstructionId, attempt_id, instruction_id


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What a stop ended. The workers of ``live`` still run until their kernel ends them; they can write no more."""

    cancelled: tuple[InstructionId, ...]
    live: tuple[AttemptId, ...]


OPEN: Final = """
SELECT id, epoch, state IN ('leased', 'running') FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""


def stop_workflow(tx: Transaction, space: str, status: str, exit_code: int, reason: str = "") -> Stopped:
    """Stop the workflow that runs in ``space``. Raises Refused (workflow_not_running)."""
    text = f"{space} ended: {reason or status}"
    payload = WorkflowStopped(status=status, exit_code=exit_code, reason=reason)
    append(tx, Draft(kind="status", space=space, sender=SYSTEM, text=text, payload=payload))
    rows = cast("list[tuple[int, int, int]]", tx.conn.execute(OPEN, (space,)).fetchall())
    for number, epoch, _live in rows:
        cancel(tx, number, epoch)
    return Stopped(
        cancelled=tuple(instruction_id(number) for number, _epoch, _live in rows),
        live=tuple(attempt_id(instruction_id(number), epoch) for number, epoch, live in rows if live),
    )
