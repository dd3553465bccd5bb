"""An upgrade in the log: another program goes on in this kernel's place, or did not get that far.

It is no boot: the row of this one stays, with its clock and all that is counted from it, and says the new version. So
no attempt ended, nothing is put back, and nobody died.
"""

from typing import Final

from kernel.store.transaction import Transaction

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
