"""Timers: set, put off, and come. A timer that comes appends a ``due`` message; what follows is the rule's business."""

from collections.abc import Sequence
from typing import Final

from kernel.policy.cadence import Decision, Look, decide
from kernel.rule.draft import Draft, WakeupDue
from kernel.store.commits.append import append
from kernel.store.timers import Timer
from kernel.store.transaction import Transaction
from protocol.message import SYSTEM
from protocol.names import InstructionId, name_of, number_of, place_of

PUT: Final = """
INSERT INTO timers (agent, home, schedule, period_ms, next_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (agent, home) DO UPDATE SET
  schedule = excluded.schedule, period_ms = excluded.period_ms, next_ms = excluded.next_ms
"""
DROP: Final = "DELETE FROM timers WHERE agent = ? AND home = ?"


def arm(tx: Transaction, put: Sequence[Timer], drop: Sequence[Timer]) -> None:
    """Set the timers ``put``, in place of those they replace, and forget ``drop``."""
    for timer in drop:
        tx.conn.execute(DROP, (timer.agent, timer.home))
    for timer in put:
        tx.conn.execute(PUT, (timer.agent, timer.home, timer.schedule, timer.period_ms, timer.next_ms))


POSTPONE: Final = "UPDATE timers SET next_ms = ? WHERE agent = ? AND home = ?"


def postpone(tx: Transaction, timer: Timer, next_ms: int) -> None:
    """Let the timer come at ``next_ms`` instead."""
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
    """Let ``timer`` come at ``at_ms`` of its clock, next at ``following_ms``, if its agent is free to hear it.

    Its words are ``text``. None: the timer or its agent changed meanwhile, and nothing was done.
    """
    row = tx.conn.execute(LOOK, (timer.agent, timer.home, timer.schedule, timer.next_ms)).fetchone()
    if row is None:
        return None
    active_ms, busy, pending = row
    look = Look(
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
            made = _due(tx, timer, text, workspace)
            instruction = number_of(made[0], "i") if made else None
            tx.conn.execute(FIRED, (verdict.next_ms, at_ms, instruction, timer.agent, timer.home))
        case "coalesced":
            _coalesce(tx, timer, verdict.next_ms)
        case _:
            postpone(tx, timer, verdict.next_ms)
    return verdict.decision


def _due(tx: Transaction, timer: Timer, text: str, workspace: str | None) -> tuple[InstructionId, ...]:
    payload = WakeupDue(agent=timer.agent, workspace=workspace)
    draft = Draft(kind="due", space=timer.home, sender=SYSTEM, text=text, payload=payload)
    return append(tx, draft).instruction_ids


def _coalesce(tx: Transaction, timer: Timer, next_ms: int) -> None:
    """Told the first time only: an agent that waits for days would fill the log."""
    row = tx.conn.execute(COALESCE, (next_ms, timer.agent, timer.home)).fetchone()
    if row is not None and row[0] == 1:
        tx.emit("wakeup.coalesced", space=timer.home, agent=name_of(timer.agent), data={"home": place_of(timer.home)})
