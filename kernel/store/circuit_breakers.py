"""Circuit breakers: providers that are left alone after failures, and the probe that closes them again.

A breaker without a row is closed. What waits for one, and whom it holds, is in kernel.store.waits under its key.
``record_failure`` and ``release_probe`` are part of the commit that books an attempt's end; ``probe`` and ``close``
are jobs.
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
breaker = Sql(f"{_BREAKERS} WHERE key = ?").row(Breaker, failures=_failures.decode)
"""The breaker of ``key``, if it ever failed since it was last closed."""


breakers = Sql(f"{_BREAKERS} ORDER BY key").rows(Breaker, failures=_failures.decode)
"""Every breaker that is not simply closed: a handful."""


PROBER: Final = """
SELECT i.agent FROM breakers AS b CROSS JOIN instructions AS i ON i.id = b.probe
WHERE b.key = ? AND b.state = 'half_open'
"""


def closed_for(conn: apsw.Connection, keys: tuple[str, ...], agent: str) -> Breaker | None:
    """The first breaker among ``keys`` that keeps ``agent`` from calling; None: it may. A prober's agent may."""
    for key in keys:
        found = breaker(conn, key)
        if found is None or found.state == "closed":
            continue
        row = conn.execute(PROBER, (key,)).fetchone()
        if row is None or row[0] != agent:
            return found
    return None


probed_by = Sql("""
SELECT b.key FROM breakers AS b CROSS JOIN instructions AS i ON i.id = b.probe
WHERE b.state = 'half_open' AND i.agent = ?
""").column(str)
"""The breakers that ``agent`` is trying whether they can be closed."""


class ProviderFailure(msgspec.Struct, frozen=True):
    """A failure of a provider, as one attempt met it. ``jitter`` is uniform in [0, 1)."""

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


def record_failure(tx: Transaction, failure: ProviderFailure) -> Breaker:
    """Count a failure against the breaker. Returns it as it is now, open or not."""
    old = breaker(tx.conn, failure.key)
    new = policy.failed(old, failure.key, failure.cause, failure.retry_after_seconds, tx.now_ms, failure.jitter)
    _put(tx, new)
    return new


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
        close(tx, key)
        return
    number, agent = row
    _put(tx, policy.probing(found, number))
    wake(tx, (number,))
    _release(tx, agent, tx.now_ms)


DELETE: Final = "DELETE FROM breakers WHERE key = ?"


def close(tx: Transaction, key: str) -> None:
    """The provider answers: close the breaker, and let those go on that it held, one agent after the other."""
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
    """Wake instructions; those that wait on because their workflow is paused probe nothing."""
    for number in waits.wake(tx, numbers):
        release_probe(tx, number)


def release_probe(tx: Transaction, number: int) -> None:
    """A probe ended without an answer from the provider: the next one may try at once."""
    for found in breakers(tx.conn):
        if found.probe == number:
            _put(tx, policy.abandoned(found, number, tx.now_ms))


def record_answer(tx: Transaction, agent: AgentKey, keys: Sequence[str]) -> None:
    """The provider behind ``keys`` answered ``agent``: close what it was probing of them."""
    for key in probed_by(tx.conn, agent):
        if key in keys:
            close(tx, key)


def move_probe(tx: Transaction, agent: AgentKey, keys: Sequence[str]) -> None:
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

# Others that wait for the same go on waiting until this one has been answered: one probe, no herd.
TRY: Final = """
UPDATE breakers SET state = 'half_open', probe = :id, changed_ms = :now WHERE key = :key AND state <> 'closed'
"""

FIRST_LANED: Final = """
SELECT i.id FROM instructions AS i INDEXED BY instructions_queue
WHERE i.state IN ('queued', 'yielded') AND i.agent = ? ORDER BY i.lane, i.id LIMIT 1
"""


def release_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Let ``agent`` ask its provider again, first of all that wait for it. Returns its instructions that go on."""
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
            close(tx, key)  # nothing is there to be tried, and no time would ever open it
    wake(tx, (number for number, _key in waiting))
    waits.release(tx, agent)
    return tuple(instruction_id(number) for number, _key in waiting)
