"""Ends runs: a workflow started by ``run`` is over when nothing in it can go on by itself, or its time is up.

Quiescence is one question to the store (promise P26): what follows from a message is in the message's own
commit, so a space without open instructions stays without until somebody speaks.
"""

from collections.abc import Callable
from typing import Final

import trio

from kernel.policy.verdict import Verdict, verdict
from kernel.store import workflows
from kernel.store.commits.end_run import end_run
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from kernel.store.writer import Writer

LONGEST_NAP_SECONDS: Final = 60.0


class Runs:
    """Watches every running run, also those a previous kernel started."""

    def __init__(self, *, reader: Reader, writer: Writer, wake: Wake, now_ms: Callable[[], int]) -> None:
        self._reader = reader
        self._writer = writer
        self._wake = wake
        self._now_ms = now_ms

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        task_status.started()
        while True:
            self._wake.clear()
            with trio.move_on_after(await self.run_once()):
                await self._wake.wait()

    async def run_once(self) -> float:
        """End every run that is over. Returns the seconds until the next one's time is up."""
        nap = LONGEST_NAP_SECONDS
        for progress in self._reader.now(workflows.running_runs):
            over = verdict(progress, self._now_ms())
            if isinstance(over, Verdict):
                await self._writer.commit(end_run, progress.run)
            else:
                nap = min(nap, over / 1000)
        return nap
