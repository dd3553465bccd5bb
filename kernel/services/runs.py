"""Ends runs: a workflow started by ``run`` is over when nothing in it can go on by itself, or its time is up.

Quiescence is one question to the store (promise P26): what follows from a message is in the message's own
commit, so a space in which nothing can go on stays so until somebody does something. A workflow that was started
does not end by itself: when its wall time is over it holds still, until somebody continues it.
"""

from collections.abc import Callable
from typing import Final

import trio

from kernel.policy.verdict import Verdict, verdict
from kernel.services.fitting import misfit
from kernel.store import finals, workflows
from kernel.store.commits.end_run import Judged, end_run
from kernel.store.commits.limit import limit
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
        """End every run that is over. Returns the seconds until one may be over though nothing happens."""
        nap = await self._hold_overdue()
        for progress in self._reader.now(workflows.running_runs, self._now_ms()):
            over = verdict(progress, self._now_ms())
            if isinstance(over, Verdict):
                await self._end(progress.run)
            else:
                nap = min(nap, over / 1000)
        return nap

    async def _end(self, run: int) -> None:
        """End ``run``, if no more comes of it; first find out whether its answer is as it must be."""
        expected = self._reader.now(finals.expected, run)
        judged: Judged | None = None
        if expected.schema is not None:
            reply = self._reader.now(finals.last_reply, run, expected.exit_from)
            judged = Judged(reply.seq, await misfit(expected.schema, reply.text) if reply.seq else "there is none")
        await self._writer.commit(end_run, run, judged)

    async def _hold_overdue(self) -> float:
        """Hold the started workflows whose wall time is over. Returns the seconds until the next one's is."""
        for run, deadline_ms in self._reader.now(workflows.deadlines):
            left_ms = deadline_ms - self._now_ms()
            if left_ms > 0:
                return min(LONGEST_NAP_SECONDS, left_ms / 1000)
            await self._writer.commit(limit, run, "wall_time")
        return LONGEST_NAP_SECONDS
