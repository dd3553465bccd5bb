"""A kernel with the worst bug there is: it answers before it commits. ``python -m tests.crash.hasty``; for tests only."""

import select
from functools import partial
from typing import Any, Final

from kernel.__main__ import main
from kernel.fault import fault_hook
from kernel.store.writer import Writer

HEAD_START_SECONDS: Final = 0.03
"""For the answer to reach its client before COMMIT is begun."""


def commit_group(self: Writer, group: list[Any]) -> bool:
    """In place of Writer._commit_group: the same order of points, but for the answer."""
    conn = self._conn
    conn.execute("BEGIN IMMEDIATE")
    events = [event for job in group for event in self._run_job(job, self._clock_ms())]
    self._on_trio(partial(self._deliver, group, events))
    select.select([], [], [], HEAD_START_SECONDS)
    fault_hook("store.commit")
    conn.execute("COMMIT")
    return True


if __name__ == "__main__":
    Writer._commit_group = commit_group  # type: ignore[method-assign]
    raise SystemExit(main())
