"""Books what came of an attempt: closed, or back to its lane, as the retry policy says.

An attempt that is no longer its instruction's (cancelled, fenced by a newer epoch) books nothing.
"""

import logging
from collections.abc import Callable

from kernel.policy.retry import Again, decide
from kernel.services.outcome import Ending, describe_exit
from kernel.services.patience import commit_patiently
from kernel.store.commits.close import EndStatus, close
from kernel.store.commits.lease import Leased
from kernel.store.commits.park import park
from kernel.store.writer import Writer
from protocol.agent import Retry
from protocol.errors import Refused
from protocol.ipc import Exited

logger = logging.getLogger(__name__)


class Books:
    """The only way from an ending to the store. ``jitter`` is uniform in [0, 1)."""

    def __init__(self, *, writer: Writer, now_ms: Callable[[], int], jitter: Callable[[], float]) -> None:
        self._writer = writer
        self._now_ms = now_ms
        self._jitter = jitter

    async def settle(self, leased: Leased, ending: Ending, retry: Retry, exited: Exited | None, stderr: str) -> None:
        """Book ``ending`` in one transaction. What was taken away meanwhile stays as it is."""
        exit_text = describe_exit(exited) if exited else None
        try:
            match ending.ended_as:
                case "done":
                    await self._close(leased, ending, "done", exit_text, None)
                case "incomplete":
                    await self._close(leased, ending, "incomplete", exit_text, stderr)
                case "yielded":
                    await self._back(leased, ending, exit_text, None)
                case "stopped":
                    await self._back(leased, ending, exit_text, stderr)
                case "failed":
                    await self._after_failure(leased, ending, retry, exit_text, stderr)
        except Refused as refused:
            if refused.code != "stale_attempt":
                raise
            logger.info("attempt.fenced %s", leased.attempt)

    async def _after_failure(
        self, leased: Leased, ending: Ending, retry: Retry, exit_text: str | None, stderr: str
    ) -> None:
        decision = decide(
            ending.cause or "crash",
            attempts_used=leased.attempts,
            crash_attempts=leased.crashes,
            retry=retry,
            retry_after=ending.retry_after_seconds,
            jitter=self._jitter(),
        )
        if not isinstance(decision, Again):
            await self._close(leased, ending, decision.status, exit_text, stderr)
            return
        await commit_patiently(
            self._writer,
            park,
            leased.instruction,
            leased.epoch,
            status="queued",
            not_before_ms=self._now_ms() + int(decision.delay_seconds * 1000),
            outcome=ending.cause or "crash",
            exit=exit_text,
            stderr_tail=stderr or ending.text,
            cause=ending.cause,
            charge=True,
        )

    async def _back(self, leased: Leased, ending: Ending, exit_text: str | None, stderr: str | None) -> None:
        """Back to its place in its lane, at no charge: the attempt did nothing wrong."""
        await commit_patiently(
            self._writer,
            park,
            leased.instruction,
            leased.epoch,
            status="yielded" if ending.ended_as == "yielded" else "queued",
            outcome=ending.ended_as if ending.ended_as == "yielded" else ending.text,
            exit=exit_text,
            stderr_tail=stderr,
            charge=False,
        )

    async def _close(
        self, leased: Leased, ending: Ending, status: EndStatus, exit_text: str | None, stderr: str | None
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
            exit=exit_text,
            stderr_tail=stderr,
        )
