"""End a workflow: it is stopped, and nothing in its space stays open."""

from typing import Final, NamedTuple, cast

import msgspec

from kernel.rule.draft import Draft, WorkflowStopped
from kernel.store.commits.append import append
from kernel.store.commits.close import cancel, give_up
from kernel.store.transaction import Transaction
from protocol.message import SYSTEM
from protocol.names import AttemptId, InstructionId, attempt_id, instruction_id


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What a stop ended. The workers of ``live`` still run until their kernel ends them; they can write no more.

    ``incomplete``: a limit of the workflow, or a budget, had held them back.
    """

    cancelled: tuple[InstructionId, ...]
    incomplete: tuple[InstructionId, ...]
    live: tuple[AttemptId, ...]


class _Open(NamedTuple):
    number: int
    epoch: int
    live: bool
    held_back: bool


OPEN: Final = """
SELECT id, epoch, state IN ('leased', 'running'), state = 'waiting' AND waits_for IN ('budget', 'hops')
FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""


def stop_workflow(tx: Transaction, space: str, status: str, exit_code: int, reason: str = "") -> Stopped:
    """Stop the workflow that runs in ``space``. Raises Refused (workflow_not_running)."""
    text = f"{space} ended: {reason or status}"
    payload = WorkflowStopped(status=status, exit_code=exit_code, reason=reason)
    append(tx, Draft(kind="status", space=space, sender=SYSTEM, text=text, payload=payload))
    rows = [_Open(*cast("tuple[int, int, bool, bool]", row)) for row in tx.conn.execute(OPEN, (space,)).fetchall()]
    for one in rows:
        (give_up if one.held_back else cancel)(tx, one.number, one.epoch)
    return Stopped(
        cancelled=tuple(instruction_id(one.number) for one in rows if not one.held_back),
        incomplete=tuple(instruction_id(one.number) for one in rows if one.held_back),
        live=tuple(attempt_id(instruction_id(one.number), one.epoch) for one in rows if one.live),
    )
