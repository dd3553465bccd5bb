"""Requeue an instruction: for a retry, for later, or into a wait."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from kernel.policy.scheduling import lane_after
from kernel.store import waits
from kernel.store.agents import charge_crash
from kernel.store.approvals import awaited
from kernel.store.attempts import AttemptEnding, end_attempt, stale
from kernel.store.circuit_breakers import ProviderFailure, breaker, record_failure, release_probe
from kernel.store.rows import instruction_sql
from kernel.store.transaction import Transaction, optional_rfc3339
from kernel.store.transitions import tasks
from kernel.store.transitions.threads import compact, take_answers
from protocol.errors import CLASS_OF_CAUSE, Cause
from protocol.instruction import WaitReason
from protocol.names import number_of

TOLD_CHARACTERS: Final = 500
"""Limit of the failure text in the event about a retry; the attempt stores the full text."""
Charge = Literal["attempt", "crash", "none"]


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """Return of an instruction from its attempt to its lane, or the start of its wait.

    ``not_before_ms`` is kernel time; 0: now, or for a wait, no known time. ``charge``: how the attempt counts.
    ``holds``: the agent's other work waits for ``wait_key`` too. ``crash_jitter`` is set if the worker crashed,
    ``trip`` if its provider failed; both may delay the work further. ``seen_shut``: the only reason to wait is that the
    breaker ``wait_key`` was open; if the breaker has closed since, the instruction is queued.
    """

    status: Literal["queued", "yielded", "waiting"]
    outcome: str
    not_before_ms: int = 0
    charge: Charge = "none"
    cause: Cause | None = None
    exit: str | None = None
    stderr_tail: str | None = None
    waits_for: WaitReason | None = None
    wait_key: str | None = None
    holds: bool = False
    rests_until_ms: int = 0
    """Time before which the agent can do nothing else; its queue is not polled until then."""
    preempted: bool = False
    compact: bool = False
    throttled: bool = False
    crash_jitter: float | None = None
    trip: ProviderFailure | None = None
    seen_shut: bool = False
    refund: int = 0
    """Number of earlier attempts whose charges are refunded."""
    change: "Mapping[str, str | None] | None" = None
    """Set if another model of the agent's list is used from now on: the content of the event."""
    retry: "Retried | None" = None
    """Set if an attempt failed and another one follows: the content of the event."""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """Failure of attempt ``n``. At most ``left`` attempts follow (None: they are not counted)."""

    n: int
    left: int | None
    text: str


# The lease has charged an attempt. A crash is charged as a crash instead; an uncharged attempt is refunded.
PARK: Final = instruction_sql("""
UPDATE instructions SET state = :status, {wait}, cause = :cause, error_class = :class,
  attempts = max(0, attempts - :refund), crashes = crashes + :crash, preempted = preempted + :preempted,
  promoted = promoted AND NOT :preempted, compacted = compacted OR :compact,
  throttled_ms = CASE WHEN NOT :throttled THEN throttled_ms WHEN throttled_ms > 0 THEN throttled_ms ELSE :now END
WHERE id = :id AND epoch = :epoch AND state {before retry}
RETURNING agent, name, space, lane, preempted
""")

REST: Final = "UPDATE agents SET resume_at_ms = max(resume_at_ms, ?) WHERE key = ?"

LAST_EXIT: Final = "UPDATE agents SET last_exit = ?, last_event_ms = ? WHERE key = ?"

SET_LANE: Final = "UPDATE instructions SET lane = ?, promoted = 1 WHERE id = ?"


PAUSED: Final = """
SELECT w.paused FROM instructions AS i CROSS JOIN workflows AS w ON w.id = i.run WHERE i.id = ?
"""


def requeue(tx: Transaction, instruction: str, epoch: int, parking: Requeue) -> None:
    """End the attempt and return its instruction to its place in the lane (ordered by lane, then id).

    An instruction that has asked others waits for the answers. Raises Refused (stale_attempt).
    """
    number = number_of(instruction, "i")
    if number is None:
        raise stale(instruction, epoch)
    parking = _with_wait(tx, number, parking)
    values = {
        **msgspec.structs.asdict(parking),
        "id": number,
        "epoch": epoch,
        "now": tx.now_ms,
        "not_before": parking.not_before_ms,
        "class": None if parking.cause is None else CLASS_OF_CAUSE[parking.cause],
        "refund": parking.refund + (parking.charge != "attempt"),
        "crash": parking.charge == "crash",
    }
    row = tx.conn.execute(PARK, values).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    agent, name, space, lane, preempted = row
    # An instruction that was preempted too often moves to a more urgent lane.
    better = lane_after(lane, preempted)
    if better != lane:
        tx.conn.execute(SET_LANE, (better, number))
    end_attempt(tx, number, epoch, name, space, AttemptEnding(parking.outcome, parking.exit, parking.stderr_tail))
    release_probe(tx, number)
    if parking.cause is not None:  # waiting or preempted work keeps its tasks
        tasks.attempt_over(tx, number)
    if parking.compact:
        compact(tx, number)
    if parking.rests_until_ms:
        tx.conn.execute(REST, (parking.rests_until_ms, agent))
    if parking.exit is not None:
        tx.conn.execute(LAST_EXIT, (parking.exit, tx.now_ms, agent))
    if parking.wait_key is not None and parking.waits_for is not None and parking.holds:
        waits.hold(tx, agent, parking.wait_key, parking.waits_for, parking.not_before_ms)
    if parking.crash_jitter is not None:
        charge_crash(tx, agent, parking.crash_jitter)
    if parking.change is not None:
        tx.emit("model.fallback", space=space, agent=name, instruction=number, data=parking.change)
    more: dict[str, object] = {}
    if parking.retry is not None:
        retry = parking.retry
        tries = None if retry.left is None else retry.n + retry.left
        more = {"n": retry.n, "tries": tries, "cause": parking.cause, "text": retry.text[:TOLD_CHARACTERS]}
    waits.tell_queued(
        tx, number, name, space, better, parking.status,
        not_before=optional_rfc3339(parking.not_before_ms), waits_for=parking.waits_for, **more,
    )  # fmt: skip
    waits.settle(tx, number)  # its workflow may have been paused meanwhile


def _with_wait(tx: Transaction, number: int, parking: Requeue) -> Requeue:
    """Return ``parking`` with the first wait that applies: an open breaker, an answer, an approval or a pause."""
    # If the breaker has closed since, nothing would ever wake the instruction.
    if parking.seen_shut:
        found = None if parking.wait_key is None else breaker(tx.conn, parking.wait_key)
        if found is None or found.state == "closed":
            parking = msgspec.structs.replace(
                parking, status="queued", waits_for=None, wait_key=None, not_before_ms=0, holds=False
            )
    # Counting the failure may open the breaker.
    failed = None if parking.trip is None else record_failure(tx, parking.trip)
    if failed is not None and failed.state != "closed":
        until_ms = max(parking.not_before_ms, failed.open_until_ms) if failed.open_until_ms else 0
        parking = msgspec.structs.replace(
            parking, status="waiting", waits_for=failed.reason, wait_key=failed.key, not_before_ms=until_ms, holds=True
        )
    # This also stores the answers that have arrived, as notes.
    still_open = take_answers(tx, number)
    if still_open is not None and parking.status != "waiting":
        parking = msgspec.structs.replace(
            parking, status="waiting", waits_for="answer", wait_key=still_open, not_before_ms=0
        )
    # Work that waits for an approval holds no worker. A delayed retry checks the approval when it starts.
    if parking.status != "waiting" and not parking.not_before_ms and (request := awaited(tx.conn, number)) is not None:
        parking = msgspec.structs.replace(
            parking, status="waiting", waits_for="approval", wait_key=request.approval, not_before_ms=request.waits_ms
        )
    if parking.status != "waiting":
        row = tx.conn.execute(PAUSED, (number,)).fetchone()
        if row is not None and row[0]:
            parking = msgspec.structs.replace(parking, status="waiting", waits_for="paused")
    return parking
