"""Timers of schedules: set, postponed and fired. A timer that fires appends a ``due`` message, which rules handle."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import apsw
import msgspec

from kernel.policy.timing import Decision, Wakeup, decide
from kernel.rule.draft import Draft, WakeupDue
from kernel.store import rows
from kernel.store.rows import Sql, select
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from protocol.message import SYSTEM
from protocol.names import AgentKey, name_of, number_of, place_of


class Timer(msgspec.Struct, frozen=True):
    """Active timer of a schedule. ``schedule`` is JSON of a protocol.agent.Schedule.

    Times are kernel time, but wall-clock time for a cron schedule (``period_ms`` is None).
    """

    agent: AgentKey
    home: str
    schedule: bytes
    period_ms: int | None
    next_ms: int
    fired_ms: int | None = None


_TIMERS: Final = select(Timer, "timers")
all = Sql(f"{_TIMERS} ORDER BY agent, home").rows(Timer)  # noqa: A001 - read as timers.all
"""Return every timer, in order. Unlimited: call in a thread."""

DUE: Final = """
SELECT t.agent, t.home, t.schedule, t.period_ms, t.next_ms, t.fired_ms
FROM timers AS t INDEXED BY timers_steady CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
WHERE t.period_ms IS NOT NULL AND t.next_ms <= :now
UNION ALL
SELECT t.agent, t.home, t.schedule, t.period_ms, t.next_ms, t.fired_ms
FROM timers AS t INDEXED BY timers_wall CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
WHERE t.period_ms IS NULL AND t.next_ms <= :wall
LIMIT :limit
"""


def due(conn: apsw.Connection, now_ms: int, wall_ms: int, limit: int = 64) -> tuple[Timer, ...]:
    """Return at most ``limit`` timers that are due and whose agents may receive work."""
    return tuple(rows.all_(conn.execute(DUE, {"now": now_ms, "wall": wall_ms, "limit": limit}), DUE, Timer))


class Upcoming(NamedTuple):
    """Time of the next timer on each clock; None if there is no timer."""

    steady_ms: int | None
    wall_ms: int | None


NEXT: Final = """
SELECT
  (SELECT t.next_ms FROM timers AS t INDEXED BY timers_steady
    CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
    WHERE t.period_ms IS NOT NULL ORDER BY t.next_ms LIMIT 1),
  (SELECT t.next_ms FROM timers AS t INDEXED BY timers_wall
    CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
    WHERE t.period_ms IS NULL ORDER BY t.next_ms LIMIT 1)
"""


def upcoming(conn: apsw.Connection) -> Upcoming:
    """Return the times of the next timers of agents that may receive work."""
    row = conn.execute(NEXT).fetchone()
    assert row is not None
    return Upcoming(*row)


class DeclaredAgent(NamedTuple):
    """Agent whose ``definition`` (JSON) may contain a schedule."""

    key: AgentKey
    origin: str
    definition: bytes


class DeclaredWorkflow(NamedTuple):
    """Running workflow that may have schedules; ``vouched``: JSON of the consents at its start."""

    space: str
    file: str
    definition: bytes
    vouched: bytes


class Declared(NamedTuple):
    """Definitions that may contain schedules, and the existing timers."""

    agents: tuple[DeclaredAgent, ...]
    workflows: tuple[DeclaredWorkflow, ...]
    armed: tuple[Timer, ...]


AGENTS: Final = """
SELECT key, origin, definition FROM agents
-- few of thousands have a schedule, and decoding all definitions would dominate the cost
WHERE origin <> 'inline' AND instr(definition, CAST('"schedule":{' AS BLOB)) > 0 ORDER BY key
"""
WORKFLOWS: Final = """
SELECT space, file, definition, vouched FROM workflows WHERE state = 'running' ORDER BY space
"""


def declared(conn: apsw.Connection) -> Declared:
    """Return the definitions that determine the timers, and the existing timers. Unlimited: call in a thread."""
    agents = rows.all_(conn.execute(AGENTS), AGENTS, DeclaredAgent)
    workflows = rows.all_(conn.execute(WORKFLOWS), WORKFLOWS, DeclaredWorkflow)
    return Declared(tuple(agents), tuple(workflows), all(conn))


PUT: Final = """
INSERT INTO timers (agent, home, schedule, period_ms, next_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (agent, home) DO UPDATE SET
  schedule = excluded.schedule, period_ms = excluded.period_ms, next_ms = excluded.next_ms
"""
DROP: Final = "DELETE FROM timers WHERE agent = ? AND home = ?"


def arm(tx: Transaction, put: Sequence[Timer], drop: Sequence[Timer]) -> None:
    """Set the timers ``put``, replacing those of the same agent and space, and delete ``drop``."""
    for timer in drop:
        tx.conn.execute(DROP, (timer.agent, timer.home))
    for timer in put:
        tx.conn.execute(PUT, (timer.agent, timer.home, timer.schedule, timer.period_ms, timer.next_ms))


POSTPONE: Final = "UPDATE timers SET next_ms = ? WHERE agent = ? AND home = ?"


def postpone(tx: Transaction, timer: Timer, next_ms: int) -> None:
    """Change the time of a timer to ``next_ms``."""
    tx.conn.execute(POSTPONE, (next_ms, timer.agent, timer.home))


LOOK: Final = """
SELECT coalesce(a.last_event_ms, 0),
  EXISTS (SELECT 1 FROM instructions AS live WHERE live.agent = t.agent AND live.state IN ('leased', 'running')),
  coalesce((SELECT i.state IN ('queued', 'yielded', 'waiting') FROM instructions AS i WHERE i.id = t.instruction), 0)
FROM timers AS t CROSS JOIN agents AS a ON a.key = t.agent AND a.state = 'active'
WHERE t.agent = ? AND t.home = ? AND t.schedule = ? AND t.next_ms = ?
"""
FIRED: Final = """
UPDATE timers SET next_ms = ?, fired_ms = ?, instruction = ?, coalesced = 0 WHERE agent = ? AND home = ?
"""
COALESCE: Final = """
UPDATE timers SET next_ms = ?, coalesced = coalesced + 1 WHERE agent = ? AND home = ? RETURNING coalesced
"""


def fire(
    tx: Transaction, timer: Timer, *, at_ms: int, following_ms: int, text: str, workspace: str | None
) -> Decision | None:
    """Append ``text`` if the agent of ``timer`` is free. Set the next time to ``following_ms``.

    ``at_ms`` is the current time of the timer's clock. Return None, without a change, if the timer
    or its agent has changed.
    """
    row = tx.conn.execute(LOOK, (timer.agent, timer.home, timer.schedule, timer.next_ms)).fetchone()
    if row is None:
        return None
    active_ms, busy, pending = row
    look = Wakeup(
        now_ms=at_ms,
        next_ms=timer.next_ms,
        following_ms=following_ms,
        period_ms=timer.period_ms,
        active_ms=active_ms,
        busy=bool(busy),
        pending=bool(pending),
    )
    verdict = decide(look)
    match verdict.decision:
        case "due":
            payload = WakeupDue(agent=timer.agent, workspace=workspace)
            draft = Draft(kind="due", space=timer.home, sender=SYSTEM, text=text, payload=payload)
            made = append(tx, draft).instruction_ids
            instruction = number_of(made[0], "i") if made else None
            tx.conn.execute(FIRED, (verdict.next_ms, at_ms, instruction, timer.agent, timer.home))
        case "coalesced":
            # Announced only the first time: an agent that waits for days would fill the log.
            row = tx.conn.execute(COALESCE, (verdict.next_ms, timer.agent, timer.home)).fetchone()
            if row is not None and row[0] == 1:
                tx.emit(
                    "wakeup.coalesced",
                    space=timer.home,
                    agent=name_of(timer.agent),
                    data={"home": place_of(timer.home)},
                )
        case _:
            postpone(tx, timer, verdict.next_ms)
    return verdict.decision
