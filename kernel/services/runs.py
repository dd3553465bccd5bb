"""Ends runs: a workflow started by ``run`` is over when nothing in it can go on by itself, or its time is up.

Quiescence is one question to the store (promise P26): what follows from a message is in the message's own commit, so a
space in which nothing can go on stays so until somebody does something. A workflow that was started does not end by
itself: when its wall time is over it holds still, until somebody continues it. An answer is checked against its schema
in a process of its own, since that may take arbitrarily long.
"""

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec

import msgspec
import trio

from kernel.policy.run_completion import RunCompletion, run_completion
from kernel.services.timers import reconcile
from kernel.store import run_outcomes, workflows
from kernel.store.feed import Wake
from kernel.store.transaction import Transaction
from kernel.store.transitions import landings
from kernel.store.transitions.limits import limit
from kernel.store.transitions.runs import RunJudgement, end_run
from kernel.store.writer import Log
from protocol.errors import Refused
from protocol.events import Event
from protocol.names import is_personal

logger = logging.getLogger(__name__)

P = ParamSpec("P")

PATIENCE_SECONDS: Final = 20.0
"""For a machine that is busy with other things: the process ends itself after a few seconds of work."""
TOO_LONG: Final = "whether it fits could not be found out in time"


class _CheckResult(msgspec.Struct, frozen=True):
    why: str | None


_decoder: Final = msgspec.json.Decoder(_CheckResult)


async def check_in_subprocess(schema: bytes, text: str) -> str | None:
    """Check ``text`` against ``schema`` (JSON), no longer than that can take. Returns why it does not fit, or None.

    Cancellation kills the process.
    """
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
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Before it looks again, where the store could not take the end of a run."""


def concerns_no_run(event: Event) -> bool:
    """Return whether ``event`` says nothing of any run: personal work that came and may begin, or is done."""
    if event.space is None or not is_personal(event.space):
        return False
    data = event.data
    if event.type == "instruction.queued":
        return data["status"] == "queued" and not data["not_before"]
    return event.type == "instruction.ended" and data["status"] == "done"


class Runs(msgspec.Struct, eq=False, kw_only=True):
    """Watches every running run, also those of earlier kernels. Its ``wake`` may leave out what concerns no run."""

    log: Log
    wake: Wake

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        await reconcile(self.wake, self.run_once, task_status)

    async def run_once(self) -> float:
        """End every run that is over. Returns the seconds until one may be over though nothing happens."""
        nap = await self._hold_overdue()
        for progress in self.log.reader.now(workflows.running_runs, self.log.now_ms()):
            over = run_completion(progress, self.log.now_ms())
            if not isinstance(over, RunCompletion):
                nap = min(nap, over / 1000)
            elif not await self._end(progress.run):
                nap = min(nap, REFUSED_PAUSE_SECONDS)
        return nap

    async def _end(self, run: int) -> bool:
        """End ``run`` unless more comes of it, and check its answer against its schema first. False: try later."""
        expected = self.log.reader.now(run_outcomes.expected, run)
        if expected.deliver is not None:
            last = self.log.reader.now(landings.last_delivery, run)
            if last is not None and not last.over:
                return True  # its end wakes us
        judged: RunJudgement | None = None
        if expected.schema is not None:
            reply = self.log.reader.now(run_outcomes.last_reply, run, expected.exit_from)
            fault = await check_in_subprocess(expected.schema, reply.text) if reply.seq else "there is none"
            judged = RunJudgement(reply.seq, fault)
        return await self._commits(end_run, run, judged)

    async def _hold_overdue(self) -> float:
        """Hold the started workflows whose wall time is over. Returns the seconds until the next one's is."""
        nap = LONGEST_NAP_SECONDS
        for run, deadline_ms in self.log.reader.now(workflows.deadlines):
            left_ms = deadline_ms - self.log.now_ms()
            if left_ms > 0:
                return min(nap, left_ms / 1000)
            if not await self._commits(limit, run, "wall_time"):
                nap = REFUSED_PAUSE_SECONDS
        return nap

    async def _commits(
        self, job: Callable[Concatenate[Transaction, P], bool], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        """Commit; False where the store cannot take it now (a full disk), which is no reason to end the kernel."""
        try:
            await self.log.writer.commit(job, *args, **kwargs)
        except Refused as refused:
            logger.warning("run.refused %s", refused.text)
            return False
        return True
