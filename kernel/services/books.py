"""Books what came of an attempt: close, or back to the lane, as the retry policy says.

An attempt that is no longer its instruction's (cancelled, fenced by a newer epoch) books nothing.
"""

import logging
from collections.abc import Callable

from kernel.policy.retry import Again, decide
from kernel.services.outcome import Ending, describe_exit
from kernel.store.commits.close import close
from kernel.store.commits.lease import Leased
from kernel.store.commits.note import note_exit
from kernel.store.commits.park import park
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.ipc import Exited

logger = logging.getLogger(__name__)


class Books:
    """The only way from an ending to the store."""

    def __init__(self, *, writer: Writer, now_ms: Callable[[], int], jitter: Callable[[], float]) -> None:
        self._writer = writer
        self._now_ms = now_ms
        self._jitter = jitter

    async def settle(self, leased: Leased, ending: Ending, exited: Exited | None = None, stderr: str = "") -> None:
        """Book ``ending`` once and for all. Must not be cancelled half-way: the commit is one transaction."""
        exit_text = describe_exit(exited) if exited else None
        try:
            match ending.ended_as:
                case "done" | "incomplete":
                    await self._close(leased, ending.ended_as, ending, exit_text, stderr)
                case "yielded":
                    await self._park(leased, "yielded", ending, exit_text, stderr, delay_seconds=0, charge=False)
                case "stopped":
                    await self._park(leased, "queued", ending, exit_text, stderr, delay_seconds=0, charge=False)
                case "failed":
                    await self._after_failure(leased, ending, exit_text, stderr)
        except Refused as refused:
            if refused.code != "stale_attempt":
                raise
            logger.info("attempt.fenced %s", leased.attempt)

    async def exited(self, leased: Leased, exited: Exited) -> None:
        """Book how the tree of an attempt left that was settled before."""
        await self._writer.commit(note_exit, leased.instruction, leased.epoch, describe_exit(exited))

    async def _after_failure(self, leased: Leased, ending: Ending, exit_text: str | None, stderr: str) -> None:
        cause = ending.cause or "crash"
        decision = decide(
            cause,
            attempts_used=leased.n,
            retry=leased.retry,
            retry_after_seconds=ending.retry_after_seconds,
            jitter=self._jitter(),
        )
        match decision:
            case Again(delay_seconds=delay):
                await self._park(leased, "queued", ending, exit_text, stderr, delay_seconds=delay, charge=True)
            case _:
                await self._close(leased, decision.status, ending, exit_text, stderr)
