"""End a workflow: it is stopped, and nothing in its space stays open."""

from typing import Final, Literal, NamedTuple, cast

import msgspec

from kernel.rule.draft import Draft, WorkflowStopped
from kernel.store.commits.append import append
from kernel.store.commits.ballot import expire_ballots
from kernel.store.commits.close import cancel, give_up
from kernel.store.transaction import Transaction
from protocol.message import SYSTEM
from protocol.names import AttemptId, InstructionId, attempt_id, instruction_id, place_of


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What a stop ended. The workers of ``live`` still run until their kernel ends them; they can write no more.

    ``incomplete``: a limit of the workflow, or a budget, had held them back, or whom they had asked.
    """

    cancelled: tuple[InstructionId, ...]
    incomplete: tuple[InstructionId, ...]
    live: tuple[AttemptId, ...]


class _Open(NamedTuple):
    number: int
    epoch: int
    live: bool
    limit: Literal["budget", "limit"] | None
    """What holds it back for good."""
    asked: int | None
    """The instruction whose answer it waits for."""


OPEN: Final = """
SELECT id, epoch, state IN ('leased', 'running'),
  CASE WHEN state = 'waiting' THEN CASE waits_for WHEN 'budget' THEN 'budget' WHEN 'hops' THEN 'limit' END END,
  CASE waits_for WHEN 'answer' THEN CAST(substr(wait_key, 2) AS INTEGER) END
FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""


def stop_workflow(tx: Transaction, space: str, status: str, exit_code: int, reason: str = "") -> Stopped:
    """Stop the workflow that runs in ``space``. Raises Refused (workflow_not_running)."""
    text = f"{place_of(space)} ended: {reason or status}"
    payload = WorkflowStopped(status=status, exit_code=exit_code, reason=reason)
    expire_ballots(tx, over=space)  # the rest is called off
    append(tx, Draft(kind="status", space=space, sender=SYSTEM, text=text, payload=payload))
    rows = [_Open(*cast("_Open", row)) for row in tx.conn.execute(OPEN, (space,)).fetchall()]
    held_back = _held_back(rows)
    for one in rows:
        limit = held_back.get(one.number)
        if limit is None:
            cancel(tx, one.number, one.epoch)
        else:
            give_up(tx, one.number, one.epoch, limit)
    return Stopped(
        cancelled=tuple(instruction_id(one.number) for one in rows if one.number not in held_back),
        incomplete=tuple(instruction_id(one.number) for one in rows if one.number in held_back),
        live=tuple(attempt_id(instruction_id(one.number), one.epoch) for one in rows if one.live),
    )


def _held_back(rows: list[_Open]) -> dict[int, Literal["budget", "limit"]]:
    """What a limit holds back, and what waits for an answer of that. What was asked is newer than who asked."""
    held: dict[int, Literal["budget", "limit"]] = {}
    for one in reversed(rows):
        limit = one.limit or held.get(one.asked or 0)
        if limit is not None:
            held[one.number] = limit
    return held
