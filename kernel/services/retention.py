"""Retention: removes what is kept no longer, soon after the start, then daily, in small commits.

Journals, effects, prompts and events of work that ended longer ago than the project's ``retention``, all there is of
runs that did, the homes of CLIs that did only such, and feedback of that age; answers to requests after a day; crashes
once they count no more. What it removes it looks for in a thread, beside the writer. Spaces of workflows that keep
nothing (``provider: memory``) are cleared a minute after their end.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec
import trio

from kernel.policy.retention import old_before
from kernel.services.completion import commit_with_retry
from kernel.services.timers import reconcile
from kernel.services.working_directory import CliHomes
from kernel.store import idempotency
from kernel.store.entries import UNSWEPT_MS
from kernel.store.feed import Wake
from kernel.store.transaction import Transaction
from kernel.store.transitions import retention
from kernel.store.transitions.clear import clear
from kernel.store.transitions.retention import (
    ROWS,
    clear_runs,
    sweep_blobs,
    sweep_events,
    sweep_instructions,
    sweep_left,
    sweep_messages,
    sweep_rows,
    sweep_runs,
)
from kernel.store.writer import Log
from protocol.errors import Refused

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

EVERY_MS: Final = 24 * 3600 * 1000
FIRST_SECONDS: Final = 30.0
"""After the start: the work that waited for it comes first."""
LOOK_SECONDS: Final = 1800.0
"""Between two looks whether a day has passed: a machine that sleeps at night has days all the same."""
CRASHES_KEPT_MS: Final = 3600 * 1000
BLOB_PASSES: Final = 2
"""A prompt, and then the system text that only it needed."""
MEMORY_SPACE_KEPT_MS: Final = 60_000
RETRY_SECONDS: Final = 60.0
LAST_SECONDS: Final = 5.0
"""For the removal when the kernel ends."""
WAKING: Final = frozenset({"workflow.stopped"})
"""Events after which a memory space may have to be removed."""


class Retention(msgspec.Struct, eq=False, kw_only=True):
    """Sweeps once a day. ``kept_seconds`` is asked before each sweep: the project file may have been edited.

    ``redo`` has words that were removed out of the files too.
    """

    log: Log
    kept_seconds: Callable[[], float]
    homes: CliHomes = msgspec.field(default_factory=CliHomes)
    redo: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint
    sleep: Callable[[float], Awaitable[object]] = trio.sleep

    async def run(self) -> None:
        """Sweep until cancelled. Raises StorageFailed."""
        next_ms = 0
        await self.sleep(FIRST_SECONDS)
        while True:
            if self.log.now_ms() >= next_ms:
                next_ms = self.log.now_ms() + EVERY_MS
                try:
                    await self.sweep()
                except Refused as refused:
                    logger.warning("retention.skipped %s", refused.text)
            await self.sleep(LOOK_SECONDS)

    async def sweep(self) -> None:
        """Remove all that is old now. Raises Refused (bad_definition: the project file).

        Cancellation: what was removed is removed, the rest is found again.
        """
        now_ms = self.log.now_ms()
        skips = await self.log.reader.read(retention.skips)
        before_ms = old_before(now_ms, int(self.kept_seconds() * 1000), skips)
        instructions = events = blobs = after = 0
        while found := await self.log.reader.read(retention.instructions, before_ms):
            instructions += await self._commit_parts(sweep_instructions, found, before_ms)
        while seqs := await self.log.reader.read(retention.events, before_ms, after):
            events += await self._commit_batches(sweep_events, seqs)
            after = seqs[-1]
        # Runs first, then what is left of them, also by a sweep that was interrupted.
        if over := await self.log.reader.read(retention.runs, before_ms):
            await self._commit_parts(clear_runs, over, before_ms)
            await self.redo()
        runs = await self._commit_parts(sweep_runs, over, before_ms)
        while seqs := await self.log.reader.read(retention.messages_left):
            await self._commit_batches(sweep_messages, seqs)
        while numbers := await self.log.reader.read(retention.instructions_left):
            await self._commit_batches(sweep_left, numbers)
        for _ in range(BLOB_PASSES):
            unused = await self.log.reader.read(retention.blobs, now_ms - UNSWEPT_MS)
            blobs += await self._commit_batches(sweep_blobs, unused, now_ms - UNSWEPT_MS)
        for statement, rows_before_ms in (
            (retention.FEEDBACK, before_ms),
            (retention.ANSWERS, now_ms - idempotency.KEPT_MS),
            (retention.CRASHES, now_ms - CRASHES_KEPT_MS),
        ):
            while await commit_with_retry(self.log.writer, sweep_rows, statement, rows_before_ms) == ROWS:
                pass
        if runs:
            await commit_with_retry(self.log.writer, retention.give_back)
        homes = await self.homes.keep(await self.log.reader.read(retention.spaces_in_use, before_ms))
        logger.info(
            "retention.swept instructions: %d, events: %d, spaces of runs: %d, blobs: %d, homes: %d",
            instructions,
            events,
            runs,
            blobs,
            homes,
        )

    async def _commit_batches(
        self,
        job: Callable[Concatenate[Transaction, Sequence[T], P], object],
        items: Sequence[T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> int:
        for start in range(0, len(items), ROWS):
            await commit_with_retry(self.log.writer, job, items[start : start + ROWS], *args, **kwargs)
        return len(items)

    async def _commit_parts(
        self, job: Callable[[Transaction, Sequence[T], int], int], items: Sequence[T], before_ms: int
    ) -> int:
        """Commit ``job``, which returns how many items it has done, until all are. Returns how many there were."""
        left = items
        while left:
            left = left[await commit_with_retry(self.log.writer, job, left[:ROWS], before_ms) :]
        return len(items)


class MemorySpaceCleanup(msgspec.Struct, eq=False, kw_only=True):
    """Removes the messages of workflows with ``provider: memory``, a minute after they have ended. One task.

    The minute is for clients that read the report of a run. It ends with the kernel; what one left that was killed is
    removed at the next start.
    """

    log: Log
    wake: Wake

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Remove until cancelled. Raises StorageFailed."""
        await self.run_once(0)
        try:
            await reconcile(self.wake, self.run_once, task_status)
        finally:
            with trio.move_on_after(LAST_SECONDS, shield=True):
                await self.run_once(0)

    async def run_once(self, kept_ms: int = MEMORY_SPACE_KEPT_MS) -> float:
        """Remove what ended ``kept_ms`` ago or earlier. Returns the seconds until something may be due."""
        nap = float("inf")
        for space, ended_ms in self.log.reader.now(retention.ended):
            left_ms = ended_ms + kept_ms - self.log.now_ms()
            if left_ms > 0:
                return min(nap, left_ms / 1000)
            try:
                await self.log.writer.commit(clear, space)
            except Refused as refused:
                logger.warning("passing.refused %s: %s", space, refused.text)
                nap = RETRY_SECONDS
        return nap
