"""Work and spending of the whole project over time.

Spending per minute is read by agent. Ended work is counted in one pass over an index that contains the time of its end.
"""

from typing import Final, NamedTuple

import apsw

from kernel.store import rows
from kernel.store.rows import Sql

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
RATE_MINUTES: Final = 5


class HourRow(NamedTuple):
    """Totals of an hour since 1970. ``recent``: tokens of the last minutes."""

    hour: int
    tokens: int
    recent: int
    usd: float
    ended: int
    failed: int


HOURS: Final = """
SELECT hour, CAST(total(tokens) AS INTEGER) AS tokens, CAST(total(recent) AS INTEGER) AS recent, total(usd) AS usd,
  sum(ended) AS ended, sum(failed) AS failed FROM (
  SELECT s.minute / 60 AS hour, total(s.tokens) AS tokens, total(s.usd) AS usd, 0 AS ended, 0 AS failed,
    total(s.tokens) FILTER (WHERE s.minute > :recent) AS recent
  FROM agents AS a CROSS JOIN spending AS s ON s.agent = a.key AND s.minute >= :since * 60 GROUP BY 1
  UNION ALL
  SELECT ended_ms / 3600000, 0, 0, count(*), sum(state IN ('failed', 'dead')), 0
  FROM instructions INDEXED BY instructions_ended
  WHERE ended_ms IS NOT NULL AND ended_ms >= :since * 3600000 GROUP BY 1)
GROUP BY 1 ORDER BY 1
"""


def hours(conn: apsw.Connection, now_ms: int) -> tuple[HourRow, ...]:
    """Return the last 24 hours, oldest first. Reads an entry of an index per ended instruction: call in a thread."""
    last = now_ms // HOUR_MS
    values = {"since": last - 23, "recent": now_ms // 60_000 - RATE_MINUTES}
    found = {row.hour: row for row in rows.each(conn.execute(HOURS, values), HOURS, HourRow)}
    return tuple(found.get(hour, HourRow(hour, 0, 0, 0.0, 0, 0)) for hour in range(last - 23, last + 1))


running_runs = Sql("""
SELECT count(*) FROM workflows INDEXED BY workflows_running WHERE state = 'running' AND file <> ''
""").scalar(int)
"""Return the number of running workflows."""
