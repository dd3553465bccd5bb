"""Books what came of an attempt: closed, or back to its lane, or waiting, as the policies say. One commit each.

An attempt that is no longer its instruction's (cancelled, fenced by a newer epoch) books nothing.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from kernel.policy.breaker import Endpoint, key_for
from kernel.policy.retry import Again, Failure, GiveUp, History, Wait, decide, tries_left
from kernel.services.outcome import Ending, describe_exit
from kernel.services.patience import commit_patiently
from kernel.store.commits.close import EndStatus, close
from kernel.store.commits.lease import Leased
from kernel.store.commits.park import Parking, Retried, park
from kernel.store.commits.trip import Trip
from kernel.store.writer import Writer
from protocol.agent import Retry
from protocol.errors import CLASS_OF_CAUSE, Cause, Refused
from protocol.ipc import Exited

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What is known of an attempt beside its ending. ``endpoint`` None: it never learned whom to call."""

    retry: Retry = Retry()
    endpoint: Endpoint | None = None
    exited: Exited | None = None
    stderr: str = ""
    preempted: bool = False


class Books:
    """The only way from an ending to the store. ``jitter`` is uniform in [0, 1)."""

    def __init__(self, *, writer: Writer, now_ms: Callable[[], int], jitter: Callable[[], float]) -> None:
        self._writer = writer
        self._now_ms = now_ms
        self._jitter = jitter
        self._unstarted = 0
        """Spawns in a row, of whatever work, that failed for want of resources: all of them wait the longer."""

    async def settle(self, leased: Leased, ending: Ending, tried: Tried) -> None:
        """Book ``ending`` in one transaction. What was taken away meanwhile stays as it is."""
        try:
            match ending.ended_as:
                case "incomplete" if ending.cause == "context_overflow":
                    await self._after_failure(leased, ending, "context_overflow", tried)
                case "done" | "incomplete":
                    await self._close(leased, ending, ending.ended_as, tried)
                case "yielded" | "stopped":
                    await self.put_back(leased, _returned(ending, tried))
                case "failed":
                    await self._after_failure(leased, ending, ending.cause or "crash", tried)
        except Refused as refused:
            if refused.code != "stale_attempt":
                raise
            logger.info("attempt.fenced %s", leased.attempt)

    async def put_back(self, leased: Leased, parking: Parking) -> None:
        """Back to its place in its lane, or to wait. Raises Refused (stale_attempt)."""
        await commit_patiently(self._writer, park, leased.instruction, leased.epoch, parking)

    async def _after_failure(self, leased: Leased, ending: Ending, cause: Cause, tried: Tried) -> None:
        failure = Failure(cause, ending.retry_after_seconds)
        decision = decide(failure, self._history(leased), tried.retry, self._jitter())
        self._unstarted = self._unstarted + 1 if cause == "spawn_transient" else 0
        trip = None if ending.ours else self._trip(failure, tried.endpoint)
        if isinstance(decision, GiveUp):
            await self._close(leased, ending, decision.status, tried, trip)
            return
        await self.put_back(leased, self._parking(leased, ending, cause, tried, decision, trip))

    def _parking(
        self, leased: Leased, ending: Ending, cause: Cause, tried: Tried, decision: Again | Wait, trip: Trip | None
    ) -> Parking:
        delay = decision.delay_seconds
        parking = Parking(
            status="queued",
            outcome=cause,
            cause=cause,
            not_before_ms=0 if delay is None else self._now_ms() + math.ceil(delay * 1000),
            exit=_exit_text(tried),
            stderr_tail=tried.stderr or ending.text,
            throttled=cause in ("rate_limited", "overloaded"),
            crash_jitter=self._crash_jitter(ending),
            trip=trip,
        )
        if isinstance(decision, Again):
            retried = Retried(n=leased.n, left=tries_left(cause, self._history(leased), tried.retry), text=ending.text)
            return replace(parking, charge=decision.charge, compact=decision.compact, retry=retried)
        key = trip.key if trip else f"agent:{leased.agent}"
        return replace(parking, status="waiting", waits_for=decision.reason, wait_key=key, holds=True)

    async def _close(
        self, leased: Leased, ending: Ending, status: EndStatus, tried: Tried, trip: Trip | None = None
    ) -> None:
        await commit_patiently(
            self._writer,
            close,
            leased.instruction,
            leased.epoch,
            status=status,
            text=ending.text,
            cause=ending.cause,
            outcome=ending.cause or status,
            exit=_exit_text(tried),
            stderr_tail=None if status == "done" else tried.stderr,
            crash_jitter=self._crash_jitter(ending),
            failure=trip,
        )

    def _history(self, leased: Leased) -> History:
        since = leased.throttled_ms
        seconds = (self._now_ms() - since) / 1000 if since else 0.0
        return History(
            attempts=leased.attempts,
            crashes=leased.crashes,
            throttled_seconds=seconds,
            overloaded_seconds=seconds,
            compacted=leased.compacted,
            unstarted=self._unstarted,
        )

    def _trip(self, failure: Failure, endpoint: Endpoint | None) -> Trip | None:
        key = None if endpoint is None else key_for(failure.cause, endpoint)
        return None if key is None else Trip(key, failure.cause, failure.retry_after_seconds, self._jitter())

    def _crash_jitter(self, ending: Ending) -> float | None:
        """Set where the worker left without being asked to: its agent's restart budget pays for it."""
        crashed = ending.ended_as == "failed" and CLASS_OF_CAUSE[ending.cause or "crash"] == "crash"
        return self._jitter() if crashed and not ending.ours else None


def _returned(ending: Ending, tried: Tried) -> Parking:
    """Nothing went wrong: back to its place, at no charge."""
    return Parking(
        status="yielded" if ending.ended_as == "yielded" else "queued",
        outcome=ending.ended_as if ending.ended_as == "yielded" else ending.text,
        exit=_exit_text(tried),
        preempted=tried.preempted,
        stderr_tail=tried.stderr or None,
    )


def _exit_text(tried: Tried) -> str | None:
    return describe_exit(tried.exited) if tried.exited else None
