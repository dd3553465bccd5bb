"""A provider's breaker: it trips, is probed, and closes; whom it held goes on.

``trip`` and ``give_back`` are part of the commit that books an attempt's end; ``probe`` and ``shut`` are jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from kernel.policy import breaker as policy
from kernel.policy.breaker import Breaker
from kernel.store.breakers import breaker, breakers, probed_by
from kernel.store.clock_text import optional_rfc3339
from kernel.store.commits.paused import keep_paused
from kernel.store.transaction import Transaction
from protocol.errors import Cause
from protocol.instruction import LANES, WaitReason
from protocol.names import AgentKey, name_of


@dataclass(frozen=True, slots=True)
class Trip:
    """What a provider did to an attempt. ``jitter`` is uniform in [0, 1)."""

    key: str
    cause: Cause
    retry_after_seconds: float | None
    jitter: float


PUT: Final = """
INSERT INTO breakers (key, reason, state, open_until_ms, opens, failures, probe, changed_ms)
VALUES (:key, :reason, :state, :open_until_ms, :opens, :failures, :probe, :now)
ON CONFLICT (key) DO UPDATE SET reason = :reason, state = :state, open_until_ms = :open_until_ms, opens = :opens,
  failures = :failures, probe = :probe, changed_ms = :now
"""


# Who waits for it waits as long as it is open now, and for the same reason: a person, or a time that still comes.
FOLLOW: Final = (
    """
UPDATE instructions SET waits_for = :reason, parked_ms = :now,
  not_before_ms = CASE :until WHEN 0 THEN 0 ELSE max(not_before_ms, :until) END
WHERE state = 'waiting' AND wait_key = :key
  AND (waits_for IS NOT :reason OR not_before_ms < :until OR (:until = 0 AND not_before_ms > 0))
""",
    """
UPDATE agents SET hold_reason = :reason, hold_until_ms = :until
WHERE hold_key = :key AND (hold_reason IS NOT :reason OR hold_until_ms <> :until)
""",
)


def trip(tx: Transaction, failure: Trip) -> Breaker:
    """Count a failure against the breaker. Returns it as it is now, open or not."""
    old = breaker(tx.conn, failure.key)
    new = policy.failed(old, failure.key, failure.cause, failure.retry_after_seconds, tx.now_ms, failure.jitter)
    _put(tx, new)
    return new


HOLD: Final = """
UPDATE agents SET hold_key = :key, hold_reason = :reason, hold_until_ms = :until
WHERE key = :agent AND (hold_key IS NOT :key OR hold_until_ms <> :until)
RETURNING key
"""


def hold(tx: Transaction, agent: AgentKey, key: str, reason: WaitReason, until_ms: int) -> None:
    """Lease nothing of ``agent`` until what ``key`` names lets it go; ``until_ms`` 0: nobody knows when."""
    row = tx.conn.execute(HOLD, {"agent": agent, "key": key, "reason": reason, "until": until_ms}).fetchone()
    if row is not None:
        data = {"state": "waiting", "reason": reason, "until": optional_rfc3339(until_ms)}
        tx.emit("agent.changed", agent=name_of(agent), data=data)


# Whose agent is given no work could not try: they come last.
NEXT_WAITER: Final = """
SELECT i.id, i.agent FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.state = 'waiting' AND i.wait_key = ? ORDER BY coalesce(a.state, '') <> 'active', i.lane, i.id LIMIT 1
"""


ABOVE: Final = "SELECT 1 FROM breakers WHERE state <> 'closed' AND key || '/' = substr(?, 1, length(key) + 1) LIMIT 1"


def probe(tx: Transaction, key: str) -> None:
    """Let the first that waits for ``key`` try whether the provider answers again. Nobody waits: it is closed.

    A model is not tried while its account is shut: nobody who may try the one could pass the other, and two who were
    given one of them each would send each other back for ever.
    """
    found = breaker(tx.conn, key)
    if found is None or found.state != "open" or tx.conn.execute(ABOVE, (key,)).fetchone() is not None:
        return
    row = tx.conn.execute(NEXT_WAITER, (key,)).fetchone()
    if row is None:
        shut(tx, key)
        return
    number, agent = row
    _put(tx, policy.probing(found, number))
    wake(tx, number)
    _let_go(tx, agent, tx.now_ms)


WAITERS: Final = """
SELECT id, agent FROM instructions WHERE state = 'waiting' AND wait_key = ? ORDER BY lane, id
"""
HELD: Final = "SELECT key FROM agents WHERE hold_key = ? ORDER BY key"
DELETE: Final = "DELETE FROM breakers WHERE key = ?"


def shut(tx: Transaction, key: str) -> None:
    """The provider answers: close the breaker, and let those go on that it held, one agent after the other."""
    tx.conn.execute(DELETE, (key,))
    waiters = cast("list[tuple[int, str]]", tx.conn.execute(WAITERS, (key,)).fetchall())
    order = dict.fromkeys(agent for _number, agent in waiters)
    order.update(dict.fromkeys(str(agent) for (agent,) in tx.conn.execute(HELD, (key,)).fetchall()))
    for number, _agent in waiters:
        wake(tx, number)
    for agent, at_ms in zip(order, policy.release_times(len(order), tx.now_ms), strict=True):
        _let_go(tx, AgentKey(agent), at_ms)


LET_GO: Final = """
UPDATE agents SET hold_key = NULL, hold_reason = NULL, hold_until_ms = 0, resume_at_ms = max(resume_at_ms, :at)
WHERE key = :agent
"""


def _let_go(tx: Transaction, agent: AgentKey, at_ms: int) -> None:
    tx.conn.execute(LET_GO, {"agent": agent, "at": at_ms if at_ms > tx.now_ms else 0})
    tx.emit("agent.changed", agent=name_of(agent), data={"state": "active", "reason": None})


WAKE: Final = """
UPDATE instructions SET state = 'queued', waits_for = NULL, wait_key = NULL,
  not_before_ms = CASE WHEN waits_for = 'paused' THEN not_before_ms ELSE 0 END
WHERE id = ? AND state = 'waiting' RETURNING name, space, lane
"""


def wake(tx: Transaction, number: int) -> bool:
    """What ``number`` waited for is there: back to its place in its lane. False: it does not wait.

    Where its workflow is paused it waits for that from now on, and probes nothing.
    """
    row = tx.conn.execute(WAKE, (number,)).fetchone()
    if row is None:
        return False
    if keep_paused(tx, number):
        give_back(tx, number)
        return True
    name, space, lane = row
    data = {"status": "queued", "lane": LANES[lane], "not_before": None}
    tx.emit("instruction.queued", space=space, agent=name, instruction=number, data=data)
    return True


def give_back(tx: Transaction, number: int) -> None:
    """A probe ended without an answer from the provider: the next one may try at once."""
    for found in breakers(tx.conn):
        if found.probe == number:
            _put(tx, policy.abandoned(found, number, tx.now_ms))


def answered(tx: Transaction, agent: AgentKey, keys: Sequence[str]) -> None:
    """The provider behind ``keys`` answered ``agent``: close what it was probing of them."""
    for key in probed_by(tx.conn, agent):
        if key in keys:
            shut(tx, key)


def elsewhere(tx: Transaction, agent: AgentKey, keys: Sequence[str]) -> None:
    """``agent`` is about to call the provider behind ``keys``: what it was to try beside that, another may."""
    for key in probed_by(tx.conn, agent):
        found = None if key in keys else breaker(tx.conn, key)
        if found is None or found.probe is None:
            continue
        free = policy.abandoned(found, found.probe, tx.now_ms)
        _put(tx, free)
        if free.open_until_ms <= tx.now_ms:
            probe(tx, key)


def _put(tx: Transaction, one: Breaker) -> None:
    values = {
        "key": one.key,
        "reason": one.reason,
        "state": one.state,
        "open_until_ms": one.open_until_ms,
        "opens": one.opens,
        "failures": msgspec.json.encode(one.failures),
        "probe": one.probe,
        "now": tx.now_ms,
    }
    tx.conn.execute(PUT, values)
    if one.state == "open":
        for statement in FOLLOW:
            tx.conn.execute(
                statement, {"key": one.key, "reason": one.reason, "until": one.open_until_ms, "now": tx.now_ms}
            )
