"""Does what time alone decides, when it is time: ends waits, lets breakers be tried, raises what has waited too long.

It looks at the rows and sleeps until the next of them is due; whatever changes one wakes it.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from kernel.services.level import look_again
from kernel.store.commits.tick import next_tick_ms, tick
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.errors import Refused

logger = logging.getLogger(__name__)

LONGEST_NAP_SECONDS: Final = 60.0
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Before it tries again what the store could not take."""
SHORTEST_NAP_SECONDS: Final = 0.02
"""So that a row that cannot be moved on does not keep a core busy."""


class Alarms:
    """One task. ``starvation_ms``: how long work of any lane waits before it is immediate."""

    def __init__(
        self, *, reader: Reader, writer: Writer, wake: Wake, now_ms: Callable[[], int], starvation_ms: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._wake = wake
        self._now_ms = now_ms
        self._starvation_ms = starvation_ms

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        await look_again(self._wake, self.run_once, task_status)

    async def run_once(self) -> float:
        """Do what is due. Returns the seconds until something is again."""
        if self._due_seconds() <= 0:
            try:
                await self._writer.commit(tick, self._starvation_ms)
            except Refused as refused:
                logger.warning("alarm.refused %s", refused.text)
                return REFUSED_PAUSE_SECONDS
            return max(self._due_seconds(), SHORTEST_NAP_SECONDS)
        return self._due_seconds()

    def _due_seconds(self) -> float:
        due_ms = self._reader.now(next_tick_ms, self._starvation_ms)
        if due_ms is None:
            return LONGEST_NAP_SECONDS
        return min((due_ms - self._now_ms()) / 1000, LONGEST_NAP_SECONDS)
