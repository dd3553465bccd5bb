"""The reasons that a kernel is needed for, as far as the log knows."""

from typing import Final, cast

import apsw

from kernel.policy.idle import Outstanding
from kernel.store.transitions.retention import ended

OUTSTANDING: Final = """
SELECT (SELECT coalesce(max(seq), 0) FROM events),
  EXISTS (SELECT 1 FROM instructions WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting')),
  EXISTS (SELECT 1 FROM workflows WHERE state = 'running' AND mode = 'run'),
  EXISTS (SELECT 1 FROM ballots WHERE state = 'open'),
  EXISTS (SELECT 1 FROM landings WHERE state IN ('requested', 'merging', 'checked')),
  EXISTS (SELECT 1 FROM timers),
  EXISTS (SELECT 1 FROM webhook_retries AS r JOIN webhooks AS w ON w.digest = r.digest AND w.disabled = 0)
"""


def outstanding(conn: apsw.Connection) -> Outstanding:
    """Return it. Ask in a thread."""
    event, *found = cast("tuple[int, ...]", conn.execute(OUTSTANDING).fetchone())
    work, runs, votes, merges, schedules, deliveries = map(bool, found)
    return Outstanding(
        event=event,
        work=work,
        runs=runs,
        votes=votes,
        merges=merges,
        schedules=schedules,
        deliveries=deliveries,
        passing=bool(ended(conn)),
    )
