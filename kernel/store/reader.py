"""Reads, beside the writer: each sees the last commit, none can write.

``now`` is for questions with an index and a limit (microseconds), ``read`` for the others. They take any
function ``(connection, ...)``; which questions there are is for the modules of the tables.
"""

import time
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

import apsw
import trio

from kernel.store.database import Database
from protocol.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")
POOL: Final = 4
LONGEST_SECONDS: Final = 20.0
"""For one question: as long as a snapshot is held, the log cannot be copied back, and grows (fault SF18)."""
_STEPS: Final = 100_000
"""Between two looks at the clock, in SQLite's virtual machine: a few milliseconds."""


class Reader:
    """Answers questions."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        self._here = database.reader()
        self._idle: list[apsw.Connection] = []
        self._limiter = trio.CapacityLimiter(POOL)

    def now(self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask at once, on the calling thread: only what an index answers within a limit."""
        return question(self._here, *args, **kwargs)

    async def read(
        self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Ask in a thread, all of it on one snapshot. Raises Refused (busy) after LONGEST_SECONDS.

        Cancellation: the thread finishes its question first, then Cancelled is raised.
        """
        return await trio.to_thread.run_sync(
            lambda: self._ask(lambda c: question(c, *args, **kwargs)), limiter=self._limiter
        )

    def _ask(self, question: Callable[[apsw.Connection], T]) -> T:
        connection = self._idle.pop() if self._idle else self._database.reader()
        deadline = time.monotonic() + LONGEST_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            connection.execute("BEGIN")
            return question(connection)
        except apsw.InterruptError as error:
            raise Refused(
                "busy", f"reading takes more than {LONGEST_SECONDS:.0f} s", "ask for less at a time"
            ) from error
        finally:
            connection.set_progress_handler(None)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.append(connection)
