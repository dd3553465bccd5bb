"""Circuit breakers: providers that are not called after failures, and the probe that closes them again.

A breaker without a row is closed. kernel.store.waits stores waiting work and held agents under its key.
``record_failure`` and ``release_probe`` are part of the commit that books an attempt's end; ``probe`` and ``close`` are
jobs.
"""

from collections.abc import Iterable, Sequence
from typing import Final, cast

import apsw
import msgspec

from kernel.policy import circuit_breaker as policy
from kernel.policy.circuit_breaker import Breaker
from kernel.store import waits
from kernel.store.rows import Sql, select
from kernel.store.transaction import Transaction
from protocol.errors import Cause
from protocol.names import AgentKey, InstructionId, instruction_id, name_of

_failures: Final = msgspec.json.Decoder(tuple[int, ...])


_BREAKERS: Final = select(Breaker, "breakers")
breaker = Sql(f"{_BREAKERS} WHERE key = ?").row(Breaker, failures=_failures.decode, lasting=bool)
"""Return the breaker of ``key``, if it has failed since it was last closed."""


breakers = Sql(f"{_BREAKERS} ORDER BY key").rows(Breaker, failures=_failures.decode, lasting=bool)
"""Return all breakers with a row, which are few."""


PROBER: Final = """
SELECT i.agent FROM breakers AS b CROSS JOIN instructions AS i ON i.id = b.probe
WHERE b.key = ? AND b.state = 'half_open'
"""


def shut_for(conn: apsw.Connection, keys: tuple[str, ...], agent: str) -> list[Breaker]:
    """Return the breakers among ``keys`` that block ``agent``. A breaker does not block the agent that probes it."""
    found = (breaker(conn, key) for key in keys)
    shut = [one for one in found if one is not None and one.state != "closed"]
    return [one for one in shut if (conn.execute(PROBER, (one.key,)).get or "") != agent]


def claim_probes(tx: Transaction, keys: Sequence[str], number: int) -> None:
    """Make instruction ``number`` the probe of the breakers of ``keys``, unless another one was faster."""
    for key in keys:
        found = breaker(tx.conn, key)
        if found is not None and found.is_due(tx.now_ms):
            _put(tx, policy.probing(found, number))


def close_model(tx: Transaction, new: Breaker) -> None:
    """Store the breaker that closes a model, and let the work that waits for it choose another model."""
    _put(tx, new)
    wake(tx, (waiter.number for waiter in waits.waiting_for(tx.conn, new.key)))
    for agent in waits.held_by(tx.conn, new.key):
        _release(tx, agent, tx.now_ms)


def forget_closed(tx: Transaction) -> None:
    """Close the lasting breakers, so that the next attempts ask their first models again."""
    for found in breakers(tx.conn):
        if found.lasting:
            close(tx, found.key)


probed_by = Sql("""
SELECT b.key FROM breakers AS b CROSS JOIN instructions AS i ON i.id = b.probe
WHERE b.state = 'half_open' AND i.agent = ?
""").column(str)
"""Return the breakers that ``agent`` is probing."""


class ProviderFailure(msgspec.Struct, frozen=True):
    """Failure of a provider in one attempt. ``jitter`` is uniform in [0, 1)."""

    key: str
    cause: Cause
    retry_after_seconds: float | None
    jitter: float


PUT: Final = """
INSERT INTO breakers (key, reason, state, open_until_ms, opens, failures, probe, lasting, changed_ms)
VALUES (:key, :reason, :state, :open_until_ms, :opens, :failures, :probe, :lasting, :now)
ON CONFLICT (key) DO UPDATE SET reason = :reason, state = :state, open_until_ms = :open_until_ms, opens = :opens,
  failures = :failures, probe = :probe, lasting = :lasting, changed_ms = :now
"""


def record_failure(tx: Transaction, failure: ProviderFailure) -> Breaker:
    """Count a provider's failure and return its breaker, which may still be closed."""
    old = breaker(tx.conn, failure.key)
    new = policy.failed(old, failure.key, failure.cause, failure.retry_after_seconds, tx.now_ms, failure.jitter)
    _put(tx, new)
    return new


# Agents that receive no work cannot probe the provider: they come last.
NEXT_WAITER: Final = """
SELECT i.id, i.agent FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
WHERE i.state = 'waiting' AND i.wait_key = ? ORDER BY coalesce(a.state, '') <> 'active', i.lane, i.id LIMIT 1
"""


ABOVE: Final = "SELECT 1 FROM breakers WHERE state <> 'closed' AND key || '/' = substr(?, 1, length(key) + 1) LIMIT 1"


def probe(tx: Transaction, key: str) -> None:
    """Let the first instruction that waits for ``key`` probe the provider; close the breaker if none waits.

    A lasting breaker stays open then.

    A model is not probed while the breaker of its account is open: that breaker would block the probe, and the probes
    of both breakers would block each other forever.
    """
    found = breaker(tx.conn, key)
    if found is None or found.state != "open" or tx.conn.execute(ABOVE, (key,)).fetchone() is not None:
        return
    row = tx.conn.execute(NEXT_WAITER, (key,)).fetchone()
    if row is None:
        if not found.lasting:
            close(tx, key)
        return
    number, agent = row
    _put(tx, policy.probing(found, number))
    wake(tx, (number,))
    _release(tx, agent, tx.now_ms)


DELETE: Final = "DELETE FROM breakers WHERE key = ?"


def close(tx: Transaction, key: str) -> None:
    """Delete the breaker of a provider that works again; release its held agents one by one."""
    tx.conn.execute(DELETE, (key,))
    waiters = waits.waiting_for(tx.conn, key)
    order = list(dict.fromkeys([*(waiter.agent for waiter in waiters), *waits.held_by(tx.conn, key)]))
    wake(tx, (waiter.number for waiter in waiters))
    for agent, at_ms in zip(order, policy.release_times(len(order), tx.now_ms), strict=True):
        _release(tx, agent, at_ms)


def _release(tx: Transaction, agent: AgentKey, at_ms: int) -> None:
    waits.release(tx, agent, at_ms)
    tx.emit("agent.changed", agent=name_of(agent), data={"state": "active", "reason": None})


def wake(tx: Transaction, numbers: Iterable[int]) -> None:
    """Requeue instructions that waited for a breaker. Instructions of a paused workflow keep
    waiting and release their probes.
    """
    for number in waits.wake(tx, numbers):
        release_probe(tx, number)


def release_probe(tx: Transaction, number: int) -> None:
    """Release the probe of an instruction that got no answer, so that another may probe at once."""
    for found in breakers(tx.conn):
        if found.probe == number:
            _put(tx, policy.abandoned(found, number, tx.now_ms))


def record_answer(tx: Transaction, agent: AgentKey, keys: Sequence[str]) -> None:
    """Close the breakers among ``keys`` that ``agent`` was probing: its provider has answered."""
    for key in probed_by(tx.conn, agent):
        if key in keys:
            close(tx, key)


def move_probe(tx: Transaction, agent: AgentKey, keys: Sequence[str]) -> None:
    """Release the probes of ``agent`` except for ``keys``, the providers that it calls next."""
    for key in probed_by(tx.conn, agent):
        found = None if key in keys else breaker(tx.conn, key)
        if found is None or found.probe is None:
            continue
        free = policy.abandoned(found, found.probe, tx.now_ms)
        _put(tx, free)
        if free.open_until_ms <= tx.now_ms:
            probe(tx, key)


def _put(tx: Transaction, one: Breaker) -> None:
    tx.conn.execute(
        PUT, msgspec.structs.asdict(one) | {"failures": msgspec.json.encode(one.failures), "now": tx.now_ms}
    )
    if one.state == "open":
        waits.follow(tx, one.key, one.reason, one.open_until_ms)


KEYS: Final = """
SELECT hold_key FROM agents WHERE key = :agent AND hold_key IS NOT NULL
UNION
SELECT wait_key FROM instructions
WHERE agent = :agent AND state = 'waiting' AND waits_for IN ('provider', 'quota', 'credentials')
  AND wait_key IS NOT NULL
"""

WAITING: Final = """
SELECT id, wait_key FROM instructions
WHERE agent = ? AND state = 'waiting' AND waits_for IN ('provider', 'quota', 'credentials') ORDER BY lane, id
"""

# Other work waits until the provider answers this probe, so that not all call it at once.
TRY: Final = """
UPDATE breakers SET state = 'half_open', probe = :id, changed_ms = :now WHERE key = :key AND state <> 'closed'
"""

FIRST_LANED: Final = """
SELECT i.id FROM instructions AS i INDEXED BY instructions_queue
WHERE i.state IN ('queued', 'yielded') AND i.agent = ? ORDER BY i.lane, i.id LIMIT 1
"""


def release_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Let ``agent`` probe its provider before other agents. Return its released instructions."""
    keys = [str(key) for (key,) in tx.conn.execute(KEYS, {"agent": agent}).fetchall()]
    waiting = cast("list[tuple[int, str | None]]", tx.conn.execute(WAITING, (agent,)).fetchall())
    for key in keys:
        row = tx.conn.execute(FIRST_LANED, (agent,)).fetchone()
        first = next(
            (number for number, wait_key in waiting if wait_key == key), None if row is None else int(str(row[0]))
        )
        if first is not None:
            tx.conn.execute(TRY, {"key": key, "id": first, "now": tx.now_ms})
        elif (found := breaker(tx.conn, key)) is None or found.open_until_ms == 0:
            close(tx, key)  # nothing can probe it, and no time would ever open it
    wake(tx, (number for number, _key in waiting))
    waits.release(tx, agent)
    return tuple(instruction_id(number) for number, _key in waiting)
