"""Book the time that an attempt worked, minute by minute, with its agent's budget."""

from typing import Final

from kernel.store.commits.spend import KEPT_MINUTES
from kernel.store.spending import MINUTE_MS
from kernel.store.transaction import Transaction

# One row for each minute it worked in: so its time leaves the window as it came.
BOOK: Final = """
WITH RECURSIVE worked (minute) AS (
  SELECT :from / :size UNION ALL SELECT minute + 1 FROM worked WHERE (minute + 1) * :size < :to)
INSERT INTO spending (agent, minute, tokens, usd, worked_ms)
  SELECT :agent, minute, 0, 0.0, min(:to, (minute + 1) * :size) - max(:from, minute * :size) FROM worked WHERE true
ON CONFLICT (agent, minute) DO UPDATE SET worked_ms = worked_ms + excluded.worked_ms
"""

# As many as were added, and a few: so the table needs no sweep.
FORGET: Final = """
DELETE FROM spending WHERE agent = :agent AND minute IN (
  SELECT minute FROM spending WHERE agent = :agent AND minute < :oldest ORDER BY minute LIMIT :most)
"""


def book_work(tx: Transaction, agent: str, started_ms: int, worked_ms: int) -> None:
    """Add ``worked_ms`` from ``started_ms`` on to what ``agent`` has worked, as far as a window may reach back."""
    if worked_ms <= 0:
        return
    oldest = tx.now_ms // MINUTE_MS - KEPT_MINUTES
    until_ms = started_ms + worked_ms
    since_ms = min(max(started_ms, oldest * MINUTE_MS), until_ms)
    tx.conn.execute(BOOK, {"agent": agent, "from": since_ms, "to": until_ms, "size": MINUTE_MS})
    most = (until_ms - since_ms) // MINUTE_MS + 4
    tx.conn.execute(FORGET, {"agent": agent, "oldest": oldest, "most": most})
