"""Completion of an attempt: derives one outcome from its terminal frame and exit, and writes it to the store.

Only structured signals count: a result frame, an error frame, an exit code or signal. Exit 0 without a result is a
protocol failure, regardless of the worker's output. The retry policy decides the consequence, which is written in one
commit: closed, requeued, or waiting. An attempt that no longer holds its instruction (cancelled, fenced by a newer
epoch) writes nothing.

These commits must not be lost if the disk is full or the database is busy: they are retried while their work waits
(faults SF03, SF11). Other refusals by the store are final.
"""

import logging
import math
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Concatenate, Final, Literal, ParamSpec, TypeVar

import msgspec
import trio

from kernel.policy.circuit_breaker import ModelEndpoint, key_for
from kernel.policy.fallback import CAUSES, ModelChoice
from kernel.policy.retry import Again, AttemptFailure, EndInstruction, History, decide, tries_left
from kernel.store.attempts import leave
from kernel.store.circuit_breakers import ProviderFailure
from kernel.store.transaction import Transaction, emit_log
from kernel.store.transitions.close import EndStatus, close
from kernel.store.transitions.fallback import ModelFailure, fall_back
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue, Retried, requeue
from kernel.store.writer import Writer
from protocol.agent import Restart, Retry
from protocol.backends import BACKENDS, CLIS
from protocol.errors import BESIDE_THE_PROVIDER, CLASS_OF_CAUSE, Cause, Refused
from protocol.instruction import Usage
from protocol.ipc import Error, Exited, Result

logger = logging.getLogger(__name__)

EndedAs = Literal["done", "incomplete", "yielded", "failed", "stopped"]
"""``stopped``: the kernel ended it; the text tells whether it was cancelled or the kernel shut down."""


class AttemptOutcome(msgspec.Struct, frozen=True):
    """Outcome of an attempt, before the policy decides the consequence; ``text`` is the reply or the reason."""

    ended_as: EndedAs
    text: str
    usage: Usage = Usage()
    cause: Cause | None = None
    retry_after_seconds: float | None = None
    http_status: int | None = None
    code: str | None = None
    ours: bool = False
    """Neither worker nor provider failed: no restart budget is charged, and no breaker counts it."""
    leaves: bool = False
    """The worker exits by itself and gets time to do so; other workers are killed at once."""


def of_result(result: Result) -> AttemptOutcome:
    """Return the outcome that a worker reported."""
    return AttemptOutcome(result.status, result.text, result.usage, result.cause, leaves=True)


def of_error(error: Error) -> AttemptOutcome:
    """Return the outcome of a failure that the worker reported."""
    status = f" (HTTP {error.http_status})" if error.http_status is not None else ""
    ours = error.code in BESIDE_THE_PROVIDER
    return AttemptOutcome(
        "failed",
        f"{error.text}{status}",
        cause=error.cause,
        retry_after_seconds=error.retry_after,
        http_status=error.http_status,
        code=error.code,
        ours=ours,
        leaves=True,
    )


def of_exit(exited: Exited) -> AttemptOutcome:
    """Return the outcome of a worker that exited without a terminal frame."""
    if exited.failed is not None:
        return AttemptOutcome("failed", f"worker could not be started: {exited.failed}", cause="spawn_permanent")
    if exited.lost:
        return of_lost("")
    if exited.exceeded is not None:
        return AttemptOutcome("failed", f"worker was killed: {exited.exceeded}", cause="resource")
    if exited.code == 0:
        return AttemptOutcome("failed", "worker exited with 0 but sent no result", cause="protocol")
    # The OS kills processes with SIGKILL if memory runs out (fault PF04).
    foreign = exited.signal == signal.SIGKILL and not exited.killed
    hint = " (not sent by agent-worker: the machine may be out of memory)" if foreign else ""
    return AttemptOutcome(
        "failed", f"worker ended with {describe_exit(exited)} and sent no result{hint}", cause="crash"
    )


def of_lost(node: str) -> AttemptOutcome:
    """Return the outcome of an attempt whose node was lost, which is charged to no agent."""
    return AttemptOutcome("failed", f"node {node} was lost".replace("  ", " "), cause="node_lost", ours=True)


def final_outcome(
    ending: AttemptOutcome | None,
    exited: Exited | None,
    stopped: str | None,
    backend: str,
    node: str,
    *,
    reached_mcp: bool,
) -> AttemptOutcome:
    """Return the final outcome from the worker's report and exit; ``stopped`` is the reason of a stop request."""
    if exited is not None and exited.lost:
        return AttemptOutcome("stopped", stopped) if stopped is not None else of_lost(node)
    if ending is None or ending.ended_as == "failed":
        if stopped is not None:
            return AttemptOutcome("stopped", stopped)
        assert exited is not None, "only a worker that has completed its work is cached"
        # A worker killed by another process just stops sending, which looks like a protocol violation.
        died = ending is not None and ending.cause == "protocol" and exited.signal is not None and not exited.killed
        return of_exit(exited) if ending is None or exited.exceeded is not None or died else ending
    connects = backend in CLIS and BACKENDS[backend].daemon_check != "no"
    if ending.ended_as == "done" and connects and not reached_mcp:
        # A CLI that should connect at startup but never did has not done its work, even if it reports success.
        text = f"{BACKENDS[backend].title} never connected to Daemon MCP: its result was discarded"
        return AttemptOutcome("failed", text, cause="network", ours=True)
    return ending


def describe_exit(exited: Exited) -> str:
    """Return an exit as process tables show it: ``1`` or ``SIGKILL``."""
    if exited.signal is None:
        return str(exited.code) if exited.failed is None else exited.failed
    try:
        return signal.Signals(exited.signal).name
    except ValueError:
        return f"signal {exited.signal}"


P = ParamSpec("P")
T = TypeVar("T")


TRANSIENT: Final = frozenset({"busy", "storage_full"})
"""Temporary refusals: the same job may succeed a moment later."""
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0


async def log_line(writer: Writer, leased: Leased, level: str, text: str) -> None:
    """Log a line for the work of ``leased``; drop it if the store refuses it."""
    data = {"level": level, "text": text}
    with suppress(Refused):
        await writer.commit(
            emit_log, "worker.log", space=leased.space, agent=leased.name, instruction=leased.instruction, data=data
        )


async def commit_with_retry(
    writer: Writer, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Commit ``job``, retrying while the store is busy or full. Raises Refused for other reasons.

    After a cancellation the job may or may not be committed; query the store.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await writer.commit(job, *args, **kwargs)
        except Refused as refused:
            if refused.code not in TRANSIENT:
                raise
            logger.warning("store.refused %s: retrying in %.1f s", refused.code, pause)
        await trio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about an attempt besides its outcome; ``endpoint`` is None if it is unknown."""

    retry: Retry = Retry()
    restart: Restart = Restart()
    endpoint: ModelEndpoint | None = None
    choice: ModelChoice | None = None
    exited: Exited | None = None
    stderr: str = ""
    preempted: bool = False


class Completer(msgspec.Struct, eq=False, kw_only=True):
    """Writes outcomes of attempts. ``jitter`` returns a random number in [0, 1)."""

    writer: Writer
    now_ms: Callable[[], int]
    jitter: Callable[[], float]
    _unstarted: int = 0
    """Consecutive spawns of any work that failed for lack of resources; they increase the delay."""

    async def complete(self, leased: Leased, ending: AttemptOutcome, result: AttemptResult) -> None:
        """Write the outcome ``ending``, unless the attempt no longer holds its instruction."""
        try:
            match ending.ended_as:
                case "incomplete" if ending.cause == "context_overflow":
                    await self._after_failure(leased, ending, "context_overflow", result)
                case "done" | "incomplete":
                    await self._close(leased, ending, ending.ended_as, result)
                case "yielded" | "stopped":
                    # No failure: requeue without a charge.
                    yielded = ending.ended_as == "yielded"
                    back = Requeue(
                        status="yielded" if yielded else "queued",
                        outcome="yielded" if yielded else ending.text,
                        exit=_exit_text(result),
                        preempted=result.preempted,
                        stderr_tail=result.stderr or None,
                    )
                    await self.put_back(leased, back)
                case "failed":
                    await self._after_failure(leased, ending, ending.cause or "crash", result)
        except Refused as refused:
            if refused.code != "stale_attempt":
                raise
            logger.info("attempt.fenced %s", leased.attempt)
            # Its own reply, if a limit was reached while the reply was written.
            await self.end_behind_reply(leased, result)

    async def end_behind_reply(self, leased: Leased, result: AttemptResult) -> None:
        """Record the end of an attempt whose reply is already written, in a shared later commit."""
        write = partial(leave, exit=_exit_text(result), ended_ms=self.now_ms())
        try:
            await self.writer.commit_soon(write, leased.instruction, leased.epoch)
        except Refused:
            await commit_with_retry(self.writer, write, leased.instruction, leased.epoch)

    async def put_back(self, leased: Leased, back: Requeue) -> None:
        """Requeue the instruction or make it wait. Raises Refused (stale_attempt)."""
        await commit_with_retry(self.writer, requeue, leased.instruction, leased.epoch, back)

    async def _after_failure(self, leased: Leased, ending: AttemptOutcome, cause: Cause, result: AttemptResult) -> None:
        now_ms = self.now_ms()
        throttled_seconds = (now_ms - leased.throttled_ms) / 1000 if leased.throttled_ms else 0.0
        # The agent's restart settings do not apply to failures of the kernel itself.
        restart = Restart() if ending.ours else result.restart
        history = History(
            attempts=leased.attempts,
            crashes=leased.crashes,
            throttled_seconds=throttled_seconds,
            overloaded_seconds=throttled_seconds,
            compacted=leased.compacted,
            unstarted=self._unstarted,
            crash_ages_seconds=tuple((now_ms - at) / 1000 for at in leased.crashed_ms),
        )
        failed = AttemptFailure(cause, ending.retry_after_seconds, ending.http_status, ending.code)
        decision = decide(failed, history, result.retry, self.jitter(), restart)
        self._unstarted = history.unstarted + 1 if cause == "spawn_transient" else 0
        stderr = result.stderr or ending.text
        back = Requeue(status="queued", outcome=cause, cause=cause, exit=_exit_text(result), stderr_tail=stderr)
        choice = result.choice
        if choice is not None and len(choice.options) > 1 and cause in CAUSES and not ending.ours:
            change = ModelFailure(failed, choice, isinstance(decision, EndInstruction), throttled_seconds)
            retried = Retried(n=leased.n, left=None, text=ending.text)
            other = msgspec.structs.replace(back, throttled=True, retry=retried)
            if await commit_with_retry(self.writer, fall_back, leased.instruction, leased.epoch, change, other):
                return
        failure: ProviderFailure | None = None
        breaker = None if ending.ours or result.endpoint is None else key_for(cause, result.endpoint)
        if breaker is not None:
            failure = ProviderFailure(breaker, cause, ending.retry_after_seconds, self.jitter())
        if isinstance(decision, EndInstruction):
            await self._close(leased, ending, decision.status, result, failure)
            return
        delay_seconds = decision.delay_seconds
        back = msgspec.structs.replace(
            back,
            not_before_ms=0 if delay_seconds is None else now_ms + math.ceil(delay_seconds * 1000),
            throttled=cause in ("rate_limited", "overloaded"),
            crash_jitter=self._crash_jitter(ending),
            trip=failure,
        )
        if isinstance(decision, Again):
            left = tries_left(cause, history, result.retry, restart)
            retried = Retried(n=leased.n, left=left, text=ending.text)
            back = msgspec.structs.replace(back, charge=decision.charge, compact=decision.compact, retry=retried)
        else:
            wait_key = failure.key if failure else f"agent:{leased.agent}"
            back = msgspec.structs.replace(
                back, status="waiting", waits_for=decision.reason, wait_key=wait_key, holds=True
            )
        await self.put_back(leased, back)

    async def _close(
        self,
        leased: Leased,
        ending: AttemptOutcome,
        status: EndStatus,
        result: AttemptResult,
        failure: ProviderFailure | None = None,
    ) -> None:
        await commit_with_retry(
            self.writer,
            close,
            leased.instruction,
            leased.epoch,
            status=status,
            text=ending.text,
            cause=ending.cause,
            outcome=ending.cause or status,
            exit=_exit_text(result),
            stderr_tail=None if status == "done" else result.stderr,
            crash_jitter=self._crash_jitter(ending),
            failure=failure,
        )

    def _crash_jitter(self, ending: AttemptOutcome) -> float | None:
        """Return the jitter of the agent's restart delay if its worker crashed; None: no crash."""
        crashed = ending.ended_as == "failed" and CLASS_OF_CAUSE[ending.cause or "crash"] == "crash"
        return self.jitter() if crashed and not ending.ours else None


def _exit_text(result: AttemptResult) -> str | None:
    return describe_exit(result.exited) if result.exited else None
