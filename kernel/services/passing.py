"""Removes what was said in workflows with ``provider: memory``, a minute after they have ended.

The minute is for whoever reads the report of a run. What an earlier kernel left is removed by the next one.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from kernel.services.level import look_again
from kernel.store import passing
from kernel.store.commits.clear import clear
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.errors import Refused

logger = logging.getLogger(__name__)

KEPT_MS: Final = 60_000
RETRY_SECONDS: Final = 60.0
WAKING: Final = frozenset({"workflow.stopped"})


class Passing:
    """One task."""

    def __init__(self, *, reader: Reader, writer: Writer, wake: Wake, now_ms: Callable[[], int]) -> None:
        self._reader = reader
        self._writer = writer
        self._wake = wake
        self._now_ms = now_ms

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Remove until cancelled. Raises StorageFailed."""
        await look_again(self._wake, self.run_once, task_status)

    async def run_once(self) -> float:
        """Remove what is due. Returns the seconds until something may be."""
        nap = float("inf")
        for space, ended_ms in self._reader.now(passing.ended):
            left_ms = ended_ms + KEPT_MS - self._now_ms()
            if left_ms > 0:
                return min(nap, left_ms / 1000)
            try:
                await self._writer.commit(clear, space)
            except Refused as refused:
                logger.warning("passing.refused %s: %s", space, refused.text)
                nap = RETRY_SECONDS
        return nap
