"""A limit of a running workflow is reached by what was done, not by what was said: it is told, and its queue waits."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, cast

from kernel.rule.draft import Draft
from kernel.store.commits.append import append
from kernel.store.transaction import Transaction
from protocol.instruction import LANES, WaitReason
from protocol.message import SYSTEM
from protocol.names import place_of

By = Literal["budget", "wall_time"]

LIMIT: Final = """
UPDATE workflows SET limited = 1, limited_by = :by WHERE id = :run AND state = 'running' AND limited_by IS NOT :by
RETURNING space, name, tag, mode, budget_tokens, budget_usd, spent_tokens, spent_usd, wall_time_ms
"""

HOLD: Final = """
UPDATE instructions SET state = 'waiting', waits_for = :reason, wait_key = NULL, not_before_ms = 0, parked_ms = :now
WHERE space = :space AND state IN ('queued', 'yielded') RETURNING id, name, lane
"""


def limit(tx: Transaction, run: int, by: By) -> bool:
    """Hold the workflow until somebody continues it. False: it is held already, or does not run.

    Attempts under way are told with their next entry.
    """
    row = tx.conn.execute(LIMIT, {"by": by, "run": run}).fetchone()
    if row is None:
        return False
    space, name, tag, mode, *amounts = row
    hint = "" if mode == "run" else f"; nothing goes on until somebody continues it (awk continue @{name}:{tag})"
    append(tx, Draft(kind="system", space=space, sender=SYSTEM, text=f"{_TEXTS[by](*amounts)}{hint}"))
    tx.emit("workflow.changed", space=space, data={"run": place_of(space), "state": "waiting", "reason": by})
    reason = _REASONS[by]
    held = tx.conn.execute(HOLD, {"space": space, "now": tx.now_ms, "reason": reason}).fetchall()
    for number, agent, lane in cast("list[tuple[int, str, int]]", held):
        data = {"status": "waiting", "lane": LANES[lane], "not_before": None, "waits_for": reason}
        tx.emit("instruction.queued", space=space, agent=agent, instruction=number, data=data)
    return True


def _budget(tokens: int | None, usd: float | None, spent_tokens: int, spent_usd: float, _wall: int | None) -> str:
    of_tokens = "" if tokens is None else f"{spent_tokens:,} of {tokens:,} tokens"
    of_usd = "" if usd is None else f"{spent_usd:.4g} of {usd:.4g} USD"
    return f"the budget is used up: {' and '.join(part for part in (of_tokens, of_usd) if part)}"


def _wall_time(_t: int | None, _u: float | None, _st: int, _su: float, wall_ms: int | None) -> str:
    return f"its wall time of {(wall_ms or 0) / 1000:g} s is over"


_REASONS: Final[Mapping[By, WaitReason]] = MappingProxyType({"budget": "budget", "wall_time": "hops"})
"""What the work that is held back waits for: money, or any other limit."""

_TEXTS: Final[Mapping[By, Callable[[int | None, float | None, int, float, int | None], str]]] = MappingProxyType(
    {"budget": _budget, "wall_time": _wall_time}
)
