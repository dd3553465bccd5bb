"""Put an instruction back: to be tried again, to go on later, or to wait."""

from typing import Final, Literal

from kernel.store.clock_text import optional_rfc3339
from kernel.store.commits.attempts import Ending, end_attempt
from kernel.store.fence import stale
from kernel.store.transaction import Transaction
from protocol.errors import CLASS_OF_CAUSE, Cause
from protocol.instruction import LANES
from protocol.names import number_of

# The lease has charged an attempt: a crash is charged as a crash instead, and what is not charged is given back.
PARK: Final = """
UPDATE instructions SET state = :status, not_before_ms = :not_before, cause = :cause, error_class = :class,
  attempts = attempts - :refund, crashes = crashes + :crash, preempted = preempted + (:status = 'yielded')
WHERE id = :id AND epoch = :epoch AND state IN ('leased', 'running')
RETURNING name, space, lane
"""


def park(
    tx: Transaction,
    instruction: str,
    epoch: int,
    *,
    status: Literal["queued", "yielded", "waiting"],
    not_before_ms: int = 0,
    outcome: str,
    exit: str | None = None,
    stderr_tail: str | None = None,
    cause: Cause | None = None,
    charge: bool,
) -> None:
    """End the attempt and return its instruction to its place in its lane (order is by lane, then id).

    ``not_before_ms`` is wall time. ``charge`` False: this attempt does not count. Raises Refused (stale_attempt).
    """
    error_class = None if cause is None else CLASS_OF_CAUSE[cause]
    crashed = charge and error_class == "crash"
    values = {
        "id": number_of(instruction, "i"),
        "epoch": epoch,
        "status": status,
        "not_before": not_before_ms,
        "cause": cause,
        "class": error_class,
        "refund": not charge or crashed,
        "crash": crashed,
    }
    row = tx.conn.execute(PARK, values).fetchone()
    number = values["id"]
    if row is None or not isinstance(number, int):
        raise stale(instruction, epoch)
    name, space, lane = row
    end_attempt(tx, number, epoch, name, space, Ending(outcome, exit, stderr_tail))
    data = {"status": status, "lane": LANES[lane], "not_before": optional_rfc3339(not_before_ms)}
    tx.emit("instruction.queued", space=space, agent=name, instruction=number, data=data)
