"""Decides who runs next, and runs it: rows -> choose -> lease -> attempt. One dispatcher, not a loop per agent.

Level-triggered: it reads rows whenever something changed and before it sleeps, so no wake-up can be lost
(fault TF09), and polls nothing: an idle kernel sleeps until the next ``not_before``.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from kernel.policy.choose import choose
from kernel.services.attempt import Attempts, Live
from kernel.store import instructions
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from protocol.errors import Refused

logger = logging.getLogger(__name__)

LONGEST_NAP_SECONDS: Final = 60.0
CANCEL_GRACE_SECONDS: Final = 2.0
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Before an agent's next lease, where the store could not take the last one."""


class Dispatcher:
    """Starts attempts under the worker limit, one per agent, and stops those whose instruction was taken away."""

    def __init__(
        self, *, reader: Reader, wake: Wake, attempts: Attempts, workers: int, now_ms: Callable[[], int]
    ) -> None:
        self._reader = reader
        self._wake = wake
        self._attempts = attempts
        self._workers = workers
        self._now_ms = now_ms
        self._busy: set[str] = set()
        """Agents with an attempt under way: from its choice until its tree is gone."""
        self._less_busy = trio.Event()
        self._closed = False
        self.running = False
        """Whether work is leased."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Dispatch until ``drain`` is called and every attempt is gone."""
        async with trio.open_nursery() as nursery:
            self.running = True
            task_status.started()
            while not self._closed:
                self._wake.clear()
                self.run_once(nursery)
                with trio.move_on_after(self.nap_seconds()):
                    await self._wake.wait()

    def run_once(self, nursery: trio.Nursery) -> int:
        """Start what may start now; the attempts run in ``nursery``. Returns how many were started."""
        self._stop_orphaned()
        free = self._workers - len(self._busy)
        if free <= 0:
            return 0
        ready = self._reader.now(instructions.ready, self._now_ms(), free + len(self._busy))
        chosen = choose(ready, free, frozenset(self._busy))
        for pick in chosen:
            self._busy.add(pick.agent)
            nursery.start_soon(self._attempt, pick.id, pick.agent)
        return len(chosen)

    async def drain(self, grace_seconds: float) -> None:
        """Lease nothing more, ask every worker to leave, and return when all trees are gone."""
        self._closed = True
        self.running = False
        self._wake.set()
        self._attempts.stop_all(grace_seconds)
        while self._busy:
            self._less_busy = trio.Event()
            await self._less_busy.wait()

    async def _attempt(self, instruction: str, agent: str) -> None:
        """The boundary: whatever goes wrong in one attempt, the others do not notice (promise P9)."""
        try:
            await self._attempts.run(instruction)
        except Refused as refused:
            logger.warning("lease.refused %s: %s", instruction, refused.text)
            await trio.sleep(REFUSED_PAUSE_SECONDS)
        except Exception:
            logger.exception("attempt.lost %s", instruction)
        finally:
            self._busy.discard(agent)
            self._less_busy.set()
            self._wake.set()

    def _stop_orphaned(self) -> None:
        """Stop attempts whose instruction was ended by somebody else (a stopped workflow, a cancel)."""
        working: list[Live] = [live for live in self._attempts.live.values() if not live.settling]
        if not working:
            return
        held = self._reader.now(instructions.live)
        for live in working:
            if live.leased.instruction not in held:
                live.stop("cancelled", CANCEL_GRACE_SECONDS)

    def nap_seconds(self) -> float:
        """How long nothing can become ready by itself: until the next ``not_before``, at most a minute."""
        now_ms = self._now_ms()
        due_ms = self._reader.now(instructions.next_due_ms, now_ms)
        return LONGEST_NAP_SECONDS if due_ms is None else min((due_ms - now_ms) / 1000, LONGEST_NAP_SECONDS)
