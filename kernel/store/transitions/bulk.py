"""Cancel or retry many instructions in one transaction, with the same checks as for a single one.

The instructions are selected in the transaction that changes them, so that the selection contains all earlier
instructions and no later one. If the end of one instruction ends another, that other one is counted separately.

Without a workflow, an agent is named by its key, because it has one queue for all spaces; within a
workflow's spaces, by its name there. All criteria of a selection must match.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from kernel.store import rows
from kernel.store.instructions import find
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from kernel.store.transitions import steering
from kernel.store.transitions.close import close_cancelled
from protocol.api.instructions import BulkReport, BulkRequest, BulkRetryRequest, InstructionSummary, Unchanged
from protocol.errors import Refused
from protocol.instruction import LIVE, Status
from protocol.names import InstructionId, SpaceId, instruction_id, place_of


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria for instructions; None: any. ``queued``: only instructions without a worker."""

    agent: str | None = None
    spaces: frozenset[str] | None = None
    queued: bool = False


class Choosable(msgspec.Struct, frozen=True):
    """Instruction with the fields of a selection: ``agent`` is the key, ``name`` the agent's name in ``space``."""

    id: InstructionId
    agent: str
    name: str
    space: str
    status: Status


class BulkSelection(msgspec.Struct, frozen=True):
    """Selected instructions, oldest first (``taken``), and the number of excluded running ones."""

    taken: tuple[Choosable, ...]
    left: int


def choose(rows: Iterable[Choosable], selection: Selection) -> BulkSelection:
    """Return the instructions among ``rows`` that match ``selection``."""
    taken: list[Choosable] = []
    left = 0
    for row in rows:
        if selection.spaces is not None and row.space not in selection.spaces:
            continue
        if selection.agent not in (None, row.agent if selection.spaces is None else row.name):
            continue
        if selection.queued and row.status in LIVE:
            left += 1
        else:
            taken.append(row)
    return BulkSelection(tuple(taken), left)


# Oldest first: askers end before the instructions that they asked, so that no answer wakes them.
OPEN: Final = """
SELECT id, agent, name, space, state AS status FROM instructions INDEXED BY instructions_open
WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""
GIVEN_UP: Final = """
SELECT id, agent, name, space, state AS status FROM instructions INDEXED BY instructions_dead
WHERE state IN ('failed', 'dead') AND dismissed = 0 ORDER BY id
"""
AT_ONCE: Final = 10_000
"""Limit of instructions per commit. Each takes 0.2 ms, during which other writers wait."""
SPACES: Final = "SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1"


def cancel_many(tx: Transaction, asked: BulkRequest, agent: str | None, space: SpaceId | None) -> BulkReport:
    """Cancel open instructions of ``agent`` (see Selection) in ``space`` and spaces below it."""

    def cancel(row: Choosable) -> None:
        found = find(tx.conn, row.id)
        if close_cancelled(tx, found.number, found.epoch) is None:
            raise Refused("conflict", f"{row.id} has ended: {found.state}")

    choice = _choice(tx, OPEN, Selection(agent=agent, spaces=_spaces(tx, space), queued=asked.queued))
    return _change(tx, choice, "cancel", cancel, dry_run=asked.dry_run)


def retry_many(tx: Transaction, asked: BulkRetryRequest, agent: str | None, space: SpaceId | None) -> BulkReport:
    """Requeue the selected instructions among the failed and dead ones that were not dismissed."""

    def retry(row: Choosable) -> None:
        steering.retry(tx, row.id, fresh=asked.fresh)

    choice = _choice(tx, GIVEN_UP, Selection(agent=agent, spaces=_spaces(tx, space)))
    return _change(tx, choice, "retry", retry, dry_run=asked.dry_run)


def _spaces(tx: Transaction, space: SpaceId | None) -> frozenset[str] | None:
    return None if space is None else frozenset(str(found) for (found,) in tx.conn.execute(SPACES, (space,)))


def _choice(tx: Transaction, statement: str, selection: Selection) -> BulkSelection:
    return choose(rows.each(tx.conn.execute(statement), statement, Choosable, id=instruction_id), selection)


def _change(
    tx: Transaction,
    choice: BulkSelection,
    action: Literal["cancel", "retry"],
    change: Callable[[Choosable], None],
    *,
    dry_run: bool,
) -> BulkReport:
    taken = choice.taken[:AT_ONCE]
    kept: list[Unchanged] = []
    changed: list[Choosable] = []
    for row in () if dry_run else taken:
        try:
            change(row)
        except Refused as refused:
            kept.append(Unchanged(id=row.id, code=refused.code, detail=refused.text))
        else:
            changed.append(row)
    listed = taken if dry_run else changed
    return BulkReport(
        action=action,
        dry_run=dry_run,
        matched=len(taken),
        rest=len(choice.taken) - len(taken),
        changed=len(changed),
        left=choice.left,
        kept_by=dict(Counter(one.code for one in kept)),
        kept=tuple(kept[:LONGEST]),
        instructions=tuple(_summary(tx, row) for row in listed[:LONGEST]),
    )


def _summary(tx: Transaction, row: Choosable) -> InstructionSummary:
    return InstructionSummary(
        id=row.id, agent=row.name, space=place_of(SpaceId(row.space)), status=find(tx.conn, row.id).state
    )
