"""Limits of runs and budgets: book the cost of model calls, hold a run at its limit, and grant limits again.

A running workflow reaches a limit by its work, not by a message: the limit is announced and its queue waits.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from kernel.rule.draft import Draft
from kernel.store import waits
from kernel.store.rows import amounts_of
from kernel.store.spending import KEPT_MINUTES, MINUTE_MS
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from protocol.errors import Refused
from protocol.instruction import LARGEST, Usage, WaitReason
from protocol.message import SYSTEM
from protocol.names import InstructionId, place_of

GRANT: Final = """
UPDATE workflows SET limited = 0, limited_by = NULL, assigned = 0, spent_tokens = 0, spent_usd = 0,
  deadline_ms = CASE WHEN wall_time_ms IS NULL THEN deadline_ms ELSE :now + wall_time_ms END
WHERE space = :space AND state = 'running' RETURNING id
"""

FORGET_SPENDING: Final = "DELETE FROM spending WHERE agent = ?"
END_REST: Final = "UPDATE agents SET resume_at_ms = 0 WHERE key = ?"


def grant(tx: Transaction, space: str) -> tuple[InstructionId, ...]:
    """Reset the limits of the workflow in ``space``. Return the instructions that waited for them.

    Raises Refused (workflow_not_running).
    """
    values = {"space": space, "now": tx.now_ms}
    if tx.conn.execute(GRANT, values).fetchone() is None:
        hint = f"start it: awk start {space.partition(':')[0][:32]}"
        raise Refused("workflow_not_running", f"workflow {place_of(space)[:100]} is not running", hint)
    return waits.wake_limited(tx, space=space)


def grant_agent(tx: Transaction, agent: str) -> tuple[InstructionId, ...]:
    """Reset the budget of an agent, as if its window began now. Return the instructions that waited.

    If the limit of a workflow is also reached, its instructions wait again at their next lease.
    """
    tx.conn.execute(FORGET_SPENDING, (agent,))
    tx.conn.execute(END_REST, (agent,))
    return waits.wake_limited(tx, agent=agent)


By = Literal["budget", "wall_time"]

LIMIT: Final = """
UPDATE workflows SET limited = 1, limited_by = :by WHERE id = :run AND state = 'running' AND limited_by IS NOT :by
RETURNING space, name, tag, mode, budget_tokens, budget_usd, spent_tokens, spent_usd, wall_time_ms
"""


def limit(tx: Transaction, run: int, by: By) -> bool:
    """Hold a run at the limit ``by`` until it is continued. Return False if it is held or not running.

    Live attempts are notified when they store their next entry.
    """
    row = tx.conn.execute(LIMIT, {"by": by, "run": run}).fetchone()
    if row is None:
        return False
    space, name, tag, mode, *amounts = row
    hint = "" if mode == "run" else f"; its work waits until you continue it (awk continue @{name}:{tag})"
    append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=f"{_TEXTS[by](*amounts)}{hint}"))
    tx.emit("workflow.changed", space=space, data={"run": place_of(space), "state": "waiting", "reason": by})
    waits.wait_in_space(tx, space, _REASONS[by])
    return True


def _budget(tokens: int | None, usd: float | None, spent_tokens: int, spent_usd: float, _wall: int | None) -> str:
    of_tokens = "" if tokens is None else f"{spent_tokens:,} of {tokens:,} tokens"
    of_usd = "" if usd is None else f"{spent_usd:.4g} of {usd:.4g} USD"
    return f"the budget is used up: {' and '.join(part for part in (of_tokens, of_usd) if part)}"


_REASONS: Mapping[By, WaitReason] = {"budget": "budget", "wall_time": "hops"}
"""Wait reason of the held work: money, or any other limit."""

_TEXTS: Final[Mapping[By, Callable[[int | None, float | None, int, float, int | None], str]]] = {
    "budget": _budget,
    "wall_time": lambda _t, _u, _st, _su, wall_ms: f"its wall time of {(wall_ms or 0) / 1000:g} s is used up",
}


BOOK: Final = """
INSERT INTO spending (agent, minute, tokens, usd) VALUES (:agent, :minute, :tokens, :usd)
ON CONFLICT (agent, minute) DO UPDATE SET tokens = min(tokens + excluded.tokens, :largest),
  usd = min(usd + excluded.usd, :largest)
"""

# Each new minute deletes a few old ones, so that the table needs no sweep.
FORGET_MINUTES: Final = """
DELETE FROM spending WHERE agent = :agent AND minute IN (
  SELECT minute FROM spending WHERE agent = :agent AND minute < :oldest ORDER BY minute LIMIT 4)
"""

BOOK_RUN: Final = """
UPDATE workflows SET spent_tokens = min(spent_tokens + :tokens, :largest),
  spent_usd = min(spent_usd + :usd, :largest) WHERE id = :run
RETURNING limited_by IS NULL OR limited_by IN ('hops', 'instructions'),
  spent_tokens >= budget_tokens OR spent_usd >= budget_usd
"""


# Booked under the model of the attempt and the backend of its agent.
BOOK_MODEL: Final = """
INSERT INTO model_spending
  (backend, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd)
SELECT coalesce(a.backend, ''), coalesce(i.model, ''), :input, :output, :cache, :cached, :cost
FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent WHERE i.id = :id
ON CONFLICT (backend, model) DO UPDATE SET input_tokens = min(input_tokens + excluded.input_tokens, :largest),
  output_tokens = min(output_tokens + excluded.output_tokens, :largest),
  cache_read_tokens = min(cache_read_tokens + excluded.cache_read_tokens, :largest),
  cache_write_tokens = min(cache_write_tokens + excluded.cache_write_tokens, :largest),
  cost_usd = min(cost_usd + excluded.cost_usd, :largest)
"""


def spend(tx: Transaction, *, agent: str, run: int | None, usage: Usage, instruction: int | None) -> None:
    """Add ``usage`` to the spending of ``agent``, of ``run`` and of the model of ``instruction``.

    A run over its budget is held at once.
    """
    tokens = min(usage.tokens, LARGEST)
    if not tokens and not usage.cost_usd:
        return
    minute = tx.now_ms // MINUTE_MS
    usd = usage.cost_usd or 0.0
    values = {"agent": agent, "minute": minute, "tokens": tokens, "usd": usd, "run": run, "largest": LARGEST}
    tx.conn.execute(BOOK, values)
    tx.conn.execute(FORGET_MINUTES, {"agent": agent, "oldest": minute - KEPT_MINUTES})
    tx.conn.execute(BOOK_MODEL, {"id": instruction, **amounts_of(usage), "cost": usd})
    if run is None:
        return
    free, used_up = tx.conn.execute(BOOK_RUN, values).fetchone() or (False, False)
    if free and used_up:
        limit(tx, run, "budget")
