"""A kernel with the worst bug there is: it answers before it commits. Run as ``python -m tests.crash.hasty``."""

import select
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from kernel.__main__ import main
from kernel.fault_injection import fault_point
from kernel.store.transaction import Transaction
from kernel.store.writer import Writer

HEAD_START_SECONDS: Final = 0.1
"""For the answer to reach its client before COMMIT is begun."""


class Hasty(Writer):
    """Has a point of its own, between the answer and the COMMIT of what a user said."""

    def _commit_group(self, group: list[Any]) -> bool:
        conn = self._conn
        conn.execute("BEGIN IMMEDIATE")
        transaction = Transaction(conn, self._clock_ms())
        for job in group:
            self._run_apart(job, transaction)
        self._on_trio(partial(self._deliver, group, transaction.events))
        if any(event.type == "message" and event.agent == "user" for event in transaction.events):
            select.select([], [], [], HEAD_START_SECONDS)
            fault_point("hasty.answered")
        conn.execute("COMMIT")
        return True


if __name__ == "__main__":
    with patch.object(Writer, "_commit_group", vars(Hasty)["_commit_group"]):
        raise SystemExit(main())
