"""Ends runs, and deletes their data after the retention time.

A workflow started by ``run`` ends when none of its work can continue without a person, or at its deadline.

Quiescence is a single query (promise P26): the effects of a message are in its own commit, so a space without runnable
work stays quiet until a new event. A workflow started by ``start`` does not end automatically: after its wall time it
is held until a person continues it. The answer of a run is checked against its schema in a separate process, because
that may take arbitrarily long.

Retention runs soon after the start, then daily, in small commits. It deletes the journals, effects, prompts and events
of work that ended before the project's ``retention``, all data of runs, unused CLI homes, and feedback of that age;
answers to requests after a day; and crashes that no longer count. It searches in a thread, beside the writer.
"""

import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec
import trio

from kernel.policy.run_completion import RunCompletion, run_completion
from kernel.policy.timing import old_before
from kernel.services.completion import commit_with_retry
from kernel.services.timers import reconcile
from kernel.services.working_directory import CliHomes
from kernel.store import idempotency, run_outcomes, workflows
from kernel.store.entries import UNSWEPT_MS
from kernel.store.feed import Wake
from kernel.store.transaction import Transaction
from kernel.store.transitions import landings, retention
from kernel.store.transitions.clear import clear
from kernel.store.transitions.limits import limit
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
from kernel.store.transitions.runs import RunJudgement, end_run
from kernel.store.writer import StoreLog
from protocol.errors import Refused
from protocol.message import Event
from protocol.names import is_personal

logger = logging.getLogger(__name__)

P = ParamSpec("P")

PATIENCE_SECONDS: Final = 20.0
"""Time limit for a busy machine; the process itself stops after a few seconds of CPU time."""
TOO_LONG: Final = "the check did not finish in time"


class _CheckResult(msgspec.Struct, frozen=True):
    why: str | None


_decoder: Final = msgspec.json.Decoder(_CheckResult)


async def check_in_subprocess(schema: bytes, text: str) -> str | None:
    """Return why ``text`` violates ``schema`` (JSON), or None; cancellation kills the checking process."""
    asked = msgspec.json.encode({"schema": msgspec.Raw(schema), "text": text})
    command = [sys.executable, "-I", "-m", "kernel.workflows.schema_check"]
    with trio.move_on_after(PATIENCE_SECONDS):
        done = await trio.run_process(
            command, stdin=asked, capture_stdout=True, stderr=subprocess.DEVNULL, check=False, env={}
        )
        try:
            return _decoder.decode(done.stdout).why
        except msgspec.DecodeError:
            logger.warning("output.unjudged exit code %d", done.returncode)
    return TOO_LONG


LONGEST_NAP_SECONDS: Final = 60.0
MEMORY_SPACE_KEPT_MS: Final = 60_000
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Retry delay if the store refused the end of a run."""


def concerns_no_run(event: Event) -> bool:
    """Return whether ``event`` affects no run: personal work that was queued as ready, or is done."""
    if event.space is None or not is_personal(event.space):
        return False
    data = event.data
    if event.type == "instruction.queued":
        return data["status"] == "queued" and not data["not_before"]
    return event.type == "instruction.ended" and data["status"] == "done"


class Runs(msgspec.Struct, eq=False, kw_only=True):
    """Ends running runs, including runs of earlier kernels; its ``wake`` may omit events that affect no run."""

    log: StoreLog
    wake: Wake

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch runs until cancelled."""
        await reconcile(self.wake, self.run_once, task_status)

    async def run_once(self) -> float:
        """End all completed runs, and return the seconds until the next check without an event."""
        nap = min(await self._hold_overdue(), await self._clear_ended())
        for progress in self.log.reader.now(workflows.running_runs, self.log.now_ms()):
            over = run_completion(progress, self.log.now_ms())
            if not isinstance(over, RunCompletion):
                nap = min(nap, over / 1000)
            elif not await self._end(progress.run):
                nap = min(nap, REFUSED_PAUSE_SECONDS)
        return nap

    async def _end(self, run: int) -> bool:
        expected = self.log.reader.now(run_outcomes.expected, run)
        if expected.deliver is not None:
            last = self.log.reader.now(landings.last_delivery, run)
            if last is not None and not last.over:
                return True  # its end wakes this service
        judged: RunJudgement | None = None
        if expected.schema is not None:
            reply = self.log.reader.now(run_outcomes.last_reply, run, expected.exit_from)
            fault = await check_in_subprocess(expected.schema, reply.text) if reply.seq else "the run has no answer"
            judged = RunJudgement(reply.seq, fault)
        return await self._commits(end_run, run, judged)

    async def _hold_overdue(self) -> float:
        """Hold started workflows whose wall time is over, and return the seconds until the next one."""
        nap = LONGEST_NAP_SECONDS
        for run, deadline_ms in self.log.reader.now(workflows.deadlines):
            left_ms = deadline_ms - self.log.now_ms()
            if left_ms > 0:
                return min(nap, left_ms / 1000)
            if not await self._commits(limit, run, "wall_time"):
                nap = REFUSED_PAUSE_SECONDS
        return nap

    async def _clear_ended(self) -> float:
        """Clear workflows with ``provider: memory`` a minute after their end. Return the seconds until the next."""
        for space, ended_ms in self.log.reader.now(retention.ended):
            left_ms = ended_ms + MEMORY_SPACE_KEPT_MS - self.log.now_ms()
            if left_ms > 0:
                return left_ms / 1000
            await self._commits(clear, space)
        return LONGEST_NAP_SECONDS

    async def _commits(
        self, job: Callable[Concatenate[Transaction, P], object], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        try:
            await self.log.writer.commit(job, *args, **kwargs)
        except Refused as refused:
            logger.warning("run.refused %s", refused.text)
            return False
        return True


T = TypeVar("T")

EVERY_MS: Final = 24 * 3600 * 1000
FIRST_SECONDS: Final = 30.0
"""Delay after the start, so that waiting work runs first."""
LOOK_SECONDS: Final = 1800.0
"""Interval of checks whether a day has passed, because a machine may sleep at night."""
CRASHES_KEPT_MS: Final = 3600 * 1000
BLOB_PASSES: Final = 2
"""The first pass deletes a prompt, the second the system text that only the prompt used."""


class Retention(msgspec.Struct, eq=False, kw_only=True):
    """Deletes old data once a day; ``kept_seconds`` is read before each sweep, because the project file may change.

    ``redo`` removes deleted messages from files, too.
    """

    log: StoreLog
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
        """Delete all old data. Raises Refused (bad_definition: the project file).

        After a cancellation, deleted data is gone, and the next sweep finds the rest.
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
        # Runs first, then their remaining rows, including the rest of an interrupted sweep.
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
        """Repeat ``job`` until all items are done; each call returns how many it completed."""
        left = items
        while left:
            left = left[await commit_with_retry(self.log.writer, job, left[:ROWS], before_ms) :]
        return len(items)
