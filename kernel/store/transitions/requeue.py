"""Put an instruction back: to be tried again, to go on later, or to wait."""

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
"""Of why an attempt failed, in the event that another follows; all of it is in the attempt."""
Charge = Literal["attempt", "crash", "none"]


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """Return of an instruction from its attempt to its lane, or into a wait.

    ``not_before_ms`` is the kernel's time, 0 for at once (a waiting one: nobody knows when). ``charge`` says what the
    attempt counts as. ``holds``: its agent's other work waits for ``wait_key`` too. ``crash_jitter`` is set where the
    worker left unasked, ``trip`` where its provider failed; either may hold it back longer. ``seen_shut``: a look at
    the breaker ``wait_key`` is the only reason; where that has been closed since, nothing is waited for.
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
    """Set where nothing else of its agent could be done before either: its queue is not even looked at until then."""
    preempted: bool = False
    compact: bool = False
    throttled: bool = False
    crash_jitter: float | None = None
    trip: ProviderFailure | None = None
    seen_shut: bool = False
    retry: "Retried | None" = None
    """Set where an attempt failed and another one follows: what people are told of it."""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt ``n`` failed with ``text``; ``left`` more may follow (None: they are not counted)."""

    n: int
    left: int | None
    text: str


# The lease has charged an attempt: a crash is charged as a crash instead, and what is not charged is given back.
PARK: Final = instruction_sql("""
UPDATE instructions SET state = :status, {wait}, cause = :cause, error_class = :class,
  attempts = attempts - :refund, crashes = crashes + :crash, preempted = preempted + :preempted,
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
    """End the attempt and return its instruction to its place in its lane (order is by lane, then id).

    What it has asked others for it waits for first. Raises Refused (stale_attempt).
    """
    number = number_of(instruction, "i")
    if number is None:
        raise stale(instruction, epoch)
    parking = _with_wait(tx, number, parking)
    values = {
        "id": number,
        "epoch": epoch,
        "now": tx.now_ms,
        "status": parking.status,
        "not_before": parking.not_before_ms,
        "cause": parking.cause,
        "class": None if parking.cause is None else CLASS_OF_CAUSE[parking.cause],
        "waits_for": parking.waits_for,
        "wait_key": parking.wait_key,
        "refund": parking.charge != "attempt",
        "crash": parking.charge == "crash",
        "preempted": parking.preempted,
        "compact": parking.compact,
        "throttled": parking.throttled,
    }
    row = tx.conn.execute(PARK, values).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    agent, name, space, lane, preempted = row
    # Who was sent away too often moves up.
    better = lane_after(lane, preempted)
    if better != lane:
        tx.conn.execute(SET_LANE, (better, number))
    end_attempt(tx, number, epoch, name, space, AttemptEnding(parking.outcome, parking.exit, parking.stderr_tail))
    release_probe(tx, number)
    if parking.cause is not None:  # who only waits, or makes room, goes on with what it holds
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
    more: dict[str, object] = {}
    if parking.retry is not None:
        retry = parking.retry
        tries = None if retry.left is None else retry.n + retry.left
        more = {"n": retry.n, "tries": tries, "cause": parking.cause, "text": retry.text[:TOLD_CHARACTERS]}
    waits.tell_queued(
        tx, number, name, space, better, parking.status,
        not_before=optional_rfc3339(parking.not_before_ms), waits_for=parking.waits_for, **more,
    )  # fmt: skip
    waits.settle(tx, number)  # its file may say so by now


def _with_wait(tx: Transaction, number: int, parking: Requeue) -> Requeue:
    """Return ``parking`` with what the instruction has to wait for by now: the first of these that applies.

    A provider whose breaker is open, an answer, an approval, the pause of its workflow.
    """
    # Where the breaker that it found open was closed since, nobody would ever wake it.
    if parking.seen_shut:
        found = None if parking.wait_key is None else breaker(tx.conn, parking.wait_key)
        if found is None or found.state == "closed":
            parking = msgspec.structs.replace(
                parking, status="queued", waits_for=None, wait_key=None, not_before_ms=0, holds=False
            )
    # Once the breaker has counted the failure it may be open.
    failed = None if parking.trip is None else record_failure(tx, parking.trip)
    if failed is not None and failed.state != "closed":
        until_ms = max(parking.not_before_ms, failed.open_until_ms) if failed.open_until_ms else 0
        parking = msgspec.structs.replace(
            parking,
            status="waiting",
            waits_for=failed.reason,
            wait_key=failed.key,
            not_before_ms=until_ms,
            holds=True,
        )
    # Answers that are there are notes by now.
    still_open = take_answers(tx, number)
    if still_open is not None and parking.status != "waiting":
        parking = msgspec.structs.replace(
            parking, status="waiting", waits_for="answer", wait_key=still_open, not_before_ms=0
        )
    # Until an approval is decided it holds no worker; one that is tried again later looks then.
    if parking.status != "waiting" and not parking.not_before_ms and (request := awaited(tx.conn, number)) is not None:
        parking = msgspec.structs.replace(
            parking,
            status="waiting",
            waits_for="approval",
            wait_key=request.approval,
            not_before_ms=request.waits_ms,
        )
    if parking.status != "waiting":
        row = tx.conn.execute(PAUSED, (number,)).fetchone()
        if row is not None and row[0]:
            parking = msgspec.structs.replace(parking, status="waiting", waits_for="paused")
    return parking
