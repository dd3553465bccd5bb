"""An upgrade in the log: another program goes on in this kernel's place, or did not get that far.

It is no boot: the row of this one stays, with its clock and all that is counted from it, and says the new version and
the new term: nodes and copies of the log know each program as a kernel of its own. So no attempt ended, nothing is put
back, and nobody died.
"""

from collections.abc import Collection
from typing import Final, cast

from kernel.store.attempts import end_left_behind
from kernel.store.transaction import Transaction
from kernel.store.transitions.requeue import Requeue, requeue
from protocol.names import InstructionId, instruction_id

LIVE: Final = "SELECT id, epoch FROM instructions INDEXED BY one_live WHERE state IN ('leased', 'running') ORDER BY id"
_LEFT: Final = Requeue(status="queued", outcome="kernel_restart", cause="kernel_restart")


SERVES: Final = "UPDATE boots SET term = ? WHERE id = (SELECT max(id) FROM boots)"


def settle(tx: Transaction, going_on: Collection[InstructionId], term: int) -> tuple[InstructionId, ...]:
    """Put back, uncharged, what was live when the program was replaced and does not go on: it was just being ended.

    To be committed before anything is leased, and before any node hears of ``term``, which is this program's. Returns
    what was put back.
    """
    tx.conn.execute(SERVES, (term,))
    rows = cast("list[tuple[int, int]]", tx.conn.execute(LIVE).fetchall())
    left = [(found, epoch) for number, epoch in rows if (found := instruction_id(number)) not in going_on]
    for instruction, epoch in left:
        requeue(tx, instruction, epoch, _LEFT)
    end_left_behind(tx)
    return tuple(instruction for instruction, _ in left)


RENAME: Final = "UPDATE boots SET version = ?, pid = ? WHERE id = (SELECT max(id) FROM boots)"


def upgraded(tx: Transaction, *, pid: int, version: str, before: str, attempts: int, waited_seconds: float) -> None:
    """Write down that the program of ``version`` goes on, with so many attempts that waited so long at most."""
    tx.conn.execute(RENAME, (version, pid))
    data = {"from": before, "to": version, "pid": pid, "attempts": attempts, "waited_seconds": waited_seconds}
    tx.emit("kernel.upgraded", data=data)


def upgrade_failed(tx: Transaction, *, pid: int, version: str, to: str, reason: str) -> None:
    """Write down that the program of ``version`` goes on, for ``reason``, and not ``to``."""
    tx.conn.execute(RENAME, (version, pid))
    tx.emit("kernel.upgrade_failed", data={"from": version, "to": to, "pid": pid, "reason": reason})
