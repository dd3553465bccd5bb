"""One attempt of one instruction: lease, spawn, talk, see the tree gone, settle.

Straight-line on purpose. It decides nothing: the retry policy says what follows a failure, and the commits say
whether this attempt may still write. The ending is booked when nothing of the attempt is left, so the next attempt
of the agent never meets the last one's processes.
"""

import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import trio

from kernel.agents.backends import check_files
from kernel.agents.providers import CauseError
from kernel.fault_injection import fault_point
from kernel.policy.circuit_breaker import keys_of
from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient, Spec
from kernel.services.admission import Admission
from kernel.services.budgets import BudgetEnforcer
from kernel.services.completion import AttemptResult, Completer, Ending, commit_with_retry, of_bug
from kernel.services.running_attempt import RunningAttempt, StopReason, Supervision
from kernel.services.start_frame import CannotStart, StartFrame, StartFrameBuilder
from kernel.services.worker_link import StderrTail
from kernel.services.working_directory import Prepare, nothing_is_over, nothing_to_prepare
from kernel.store.circuit_breakers import move_probe, probed_by
from kernel.store.errors import StorageFailed
from kernel.store.feed import Feed
from kernel.store.reader import Reader
from kernel.store.transitions.lease import Leased, lease
from kernel.store.transitions.requeue import Requeue
from kernel.store.writer import Writer
from protocol.agent import Retry
from protocol.backends import EXEC
from protocol.errors import Refused
from protocol.ipc import Exited

logger = logging.getLogger(__name__)


STARTING: Final = "waiting for its worker to start"
"""What ``ps`` shows of one that is leased and has no process yet."""


def _nobody_knows(_instruction: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


class Attempts:
    """Runs attempts. One instance serves the whole kernel; each ``run`` is one task."""

    def __init__(
        self,
        *,
        writer: Writer,
        reader: Reader,
        feed: Feed,
        launcher: Launcher,
        briefings: StartFrameBuilder,
        admission: Admission,
        purse: BudgetEnforcer,
        books: Completer,
        now_text: Callable[[], str],
        prepare: Prepare = nothing_to_prepare,
        over: Callable[[Leased], None] = nothing_is_over,
        working: Callable[[str], AbstractContextManager[None]] = _nobody_knows,
    ) -> None:
        """``over`` is called once nothing of an attempt is left, whether it was prepared or not.

        ``working``: a block of it is around whatever the kernel itself does for an instruction.
        """
        self._working = working
        self._prepare = prepare
        self._over = over
        self._writer = writer
        self._reader = reader
        self._launcher = launcher
        self._briefings = briefings
        self._admission = admission
        self._purse = purse
        self._books = books
        self._supervision = Supervision(writer=writer, feed=feed, purse=purse, now_text=now_text, working=working)
        self.live: dict[str, RunningAttempt] = {}
        """By instruction id."""
        self._closing_grace_seconds: float | None = None

    async def run(self, instruction: str) -> None:
        """Make one attempt, from its lease until its whole tree is gone and its ending is booked.

        Returns at once where the instruction is no longer free. Cancellation kills the tree and leaves the
        instruction open; the next kernel requeues it.
        """
        token = secrets.token_urlsafe(32)
        leased = await self._writer.commit(lease, instruction, hashlib.sha256(token.encode()).digest())
        if leased is None:
            return
        fault_point("attempt.leased")
        live = self.live[leased.instruction] = RunningAttempt(leased)
        if self._closing_grace_seconds is not None:
            live.stop("shutdown", self._closing_grace_seconds)
        try:
            await self._attempt(live, token)
        except StorageFailed:
            raise
        except Exception as error:
            logger.exception("attempt.broke %s", leased.attempt)
            live.settling = True
            await self._books.settle(leased, of_bug(error), AttemptResult())
        finally:
            self._purse.close(leased.instruction)
            self._over(leased)
            del self.live[leased.instruction]

    def stop_all(self, grace_seconds: float) -> None:
        """Stop every attempt, also those whose lease is being committed."""
        self._closing_grace_seconds = grace_seconds
        for live in self.live.values():
            live.stop("shutdown", grace_seconds)

    def hold(self, instruction: str) -> AbstractContextManager[None]:
        """While the block lasts the worker of ``instruction``, if it has one, waits for a person."""
        live = self.live.get(instruction)
        return contextlib.nullcontext() if live is None else live.standstill.hold()

    def reached(self, instruction: str) -> None:
        """The attempt of ``instruction`` has come to Daemon MCP."""
        live = self.live.get(instruction)
        if live is not None:
            live.reached = True

    def stop_agent(self, agent: str, reason: StopReason, grace_seconds: float) -> bool:
        """Stop what ``agent`` (its key) does, if it does something; its instruction goes back to its lane."""
        found = [live for live in self.live.values() if live.leased.agent == agent and not live.settling]
        for live in found:
            live.stop(reason, grace_seconds)
        return bool(found)

    async def _attempt(self, live: RunningAttempt, token: str) -> None:
        leased = live.leased
        retry, endpoint = Retry(), None
        exited: Exited | None = None
        tail = StderrTail()
        try:
            with self._working(leased.instruction):
                briefing = await self._briefings.prepare(leased, token)
                retry, endpoint = briefing.definition.retry, briefing.endpoint
                admitted = await self._admission.admit(leased, briefing)
            if isinstance(admitted, Requeue):
                live.settling = True
                with contextlib.suppress(Refused):  # stale: somebody ended it meanwhile
                    await self._books.put_back(leased, admitted)
                return
            if isinstance(admitted, Ending):
                ending = admitted
            else:
                # Have a worker do it. Raises SpawnTransient.
                # Note which breakers its first reply may close, and leave to others what it was to try and will not.
                keys = keys_of(briefing.endpoint)
                probed = self._reader.now(probed_by, live.leased.agent)
                live.probing = tuple(key for key in keys if key in probed)
                if len(live.probing) < len(probed):
                    await commit_with_retry(self._writer, move_probe, live.leased.agent, keys)
                self._launcher.need(briefing.sdks)
                handle = await self._spawn(live, briefing)
                if handle is None:
                    ending, exited = Ending("stopped", str(live.stop_reason)), None
                else:
                    async with handle:
                        left = self._purse.usd_left(live.leased.instruction)
                        start = msgspec.structs.replace(briefing.start, allowance=admitted.tokens, budget_usd=left)
                        ending, exited = await self._supervision.run(live, briefing, start, handle, tail)
        except (CannotStart, CauseError) as error:
            ending = Ending("failed", str(error), cause=error.cause)
        except SpawnTransient as error:
            ending = Ending("failed", f"the worker could not be started: {error}", cause="spawn_transient")
        live.settling = True
        fault_point("attempt.settle")
        tried = AttemptResult(retry=retry, endpoint=endpoint, exited=exited, stderr=tail.text, preempted=live.preempted)
        with self._working(leased.instruction):
            await self._books.settle(leased, ending, tried)
        fault_point("attempt.settled")

    async def _spawn(self, live: RunningAttempt, briefing: StartFrame) -> Handle | None:
        """The worker's process; None where the attempt was stopped before it was there.

        Raises SpawnTransient; CauseError where it has no ground to work on.
        """
        handle: Handle | None = None
        with live.spawning:
            if live.stop_reason is None:
                await self._prepare(live.leased, briefing.start)
                if briefing.start.command and briefing.start.pinned:
                    await trio.to_thread.run_sync(check_files, briefing.definition, briefing.start)
                live.doing = STARTING
                start = briefing.start
                spec: Spec
                if start.backend != EXEC:
                    spec = Spec(attempt=start.attempt)
                else:
                    spec = Spec(attempt=start.attempt, argv=start.command, cwd=start.cwd, env=start.env)
                handle = await self._launcher.spawn(spec)
                live.doing = ""
        limits = briefing.definition.limits
        if handle is not None and (limits.memory, limits.processes) != (None, None):
            await handle.bound(memory_bytes=limits.memory, processes=limits.processes)
        return handle
