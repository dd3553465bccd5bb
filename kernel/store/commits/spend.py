"""Book what a model call cost with everybody who has a budget: the agent's minutes, and the run it belongs to."""

from typing import Final

from kernel.store.commits.limit import limit
from kernel.store.spending import MINUTE_MS
from kernel.store.transaction import Transaction
from protocol.instruction import LARGEST, Usage

KEPT_MINUTES: Final = 31 * 24 * 60
"""As long as the longest window, and a day."""

BOOK: Final = """
INSERT INTO spending (agent, minute, tokens, usd) VALUES (:agent, :minute, :tokens, :usd)
ON CONFLICT (agent, minute) DO UPDATE SET tokens = min(tokens + excluded.tokens, :largest),
  usd = min(usd + excluded.usd, :largest)
"""

# Each minute that is added takes with it a few that are too old, so the table needs no sweep.
FORGET: Final = """
DELETE FROM spending WHERE agent = :agent AND minute IN (
  SELECT minute FROM spending WHERE agent = :agent AND minute < :oldest ORDER BY minute LIMIT 4)
"""

BOOK_RUN: Final = """
UPDATE workflows SET spent_tokens = min(spent_tokens + :tokens, :largest),
  spent_usd = min(spent_usd + :usd, :largest) WHERE id = :run
RETURNING limited_by IS NULL OR limited_by IN ('hops', 'instructions'),
  spent_tokens >= budget_tokens OR spent_usd >= budget_usd
"""


def spend(tx: Transaction, *, agent: str, run: int | None, usage: Usage) -> None:
    """Add ``usage`` to what ``agent`` and ``run`` have spent. A run whose budget that uses up is limited at once."""
    tokens = min(usage.tokens, LARGEST)
    if not tokens and not usage.cost_usd:
        return
    minute = tx.now_ms // MINUTE_MS
    usd = usage.cost_usd or 0.0
    values = {"agent": agent, "minute": minute, "tokens": tokens, "usd": usd, "run": run, "largest": LARGEST}
    tx.conn.execute(BOOK, values)
    tx.conn.execute(FORGET, {"agent": agent, "oldest": minute - KEPT_MINUTES})
    if run is None:
        return
    free, used_up = tx.conn.execute(BOOK_RUN, values).fetchone() or (False, False)
    if free and used_up:
        limit(tx, run, "budget")
