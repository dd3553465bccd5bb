"""The log of starts: that a kernel took over, that it was asked to stop, and whether those before it kept dying."""

from collections.abc import Sequence
from typing import Final, cast

from kernel.policy.boots import LOOP_BOOTS, PastBoot, keeps_dying
from kernel.store.commits.reclock import Machine
from kernel.store.transaction import Transaction

LAST: Final = "SELECT at_ms, stopped_ms IS NOT NULL, progress_seq FROM boots ORDER BY id DESC LIMIT ?"

PROGRESS: Final = """
SELECT 1 FROM events WHERE seq > ? AND type IN ('instruction.step', 'instruction.ended') LIMIT 1
"""


def died(tx: Transaction) -> bool:
    """Whether the kernel before us ended without being asked to."""
    row = tx.conn.execute(LAST, (1,)).fetchone()
    return row is not None and not row[1]


def in_a_loop(tx: Transaction) -> bool:
    """Whether the last kernels died one after the other and none got anything done."""
    rows = cast("list[tuple[int, int, int]]", tx.conn.execute(LAST, (LOOP_BOOTS,)).fetchall())
    if not keeps_dying([PastBoot(at, bool(clean)) for at, clean, _seq in rows], tx.now_ms):
        return False
    return tx.conn.execute(PROGRESS, (rows[-1][2],)).fetchone() is None


INSERT: Final = """
INSERT INTO boots (pid, version, at_ms, requeued, safe, machine, offset_ms, skipped_ms, progress_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT max(seq) FROM events), 0))
"""


LAST_PID: Final = "SELECT pid FROM boots ORDER BY id DESC LIMIT 1"


def took_over(
    tx: Transaction,
    *,
    pid: int,
    version: str,
    requeued: int,
    safe: bool,
    machine: Machine | None = None,
    skipped_ms: int = 0,
    working: Sequence[str] | None = None,
) -> None:
    """Write down that this kernel runs. What it has done so far counts for those before it.

    ``working`` is what the one before was at when it died, if it did: who killed a kernel is among them, or nobody
    of ours (fault PF24).
    """
    data: dict[str, object] = {"pid": pid, "version": version, "requeued": requeued, "safe_mode": safe}
    if working is not None:
        (last,) = cast("tuple[int]", tx.conn.execute(LAST_PID).fetchone())
        data["died"] = {"pid": last, "working": list(working)}
    tx.emit("kernel.started", data=data)
    boot_id, offset_ms = (None, None) if machine is None else (machine.boot_id, machine.offset_ms)
    tx.conn.execute(INSERT, (pid, version, tx.now_ms, requeued, safe, boot_id, offset_ms, skipped_ms))


STOPPED: Final = """
UPDATE boots SET stopped_ms = ? WHERE id = (SELECT max(id) FROM boots) AND stopped_ms IS NULL
"""


def asked_to_stop(tx: Transaction, by: str = "request", *, wanted: bool = True) -> None:
    """However it ends now, it is no death: somebody wanted it to end. ``by``: a request, or the name of a signal.

    Where it ends because it cannot go on, nobody ``wanted`` that: then it is a death, after which more may follow.
    """
    tx.emit("kernel.stopping", data={"by": by})
    if wanted:
        tx.conn.execute(STOPPED, (tx.now_ms,))


TOUCH: Final = "UPDATE boots SET version = version WHERE id = (SELECT max(id) FROM boots)"


def touch(tx: Transaction) -> None:
    """Write something and change nothing: whether the disk takes it is the answer."""
    tx.conn.execute(TOUCH)
