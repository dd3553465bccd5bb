"""The dispatcher: rows -> choose -> lease -> attempt. One for all agents, not a loop per agent.

Level-triggered: it reads rows whenever something changed and before it sleeps, so no wake-up can be lost (fault TF09),
and polls nothing: an idle kernel sleeps until the next ``not_before``.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import trio

from kernel.policy.scheduling import Limits, choose
from kernel.services.attempts import Attempts
from kernel.services.running_attempt import RunningAttempt
from kernel.store import instructions
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from protocol.errors import Refused

logger = logging.getLogger(__name__)

LONGEST_NAP_SECONDS: Final = 60.0
CANCEL_GRACE_SECONDS: Final = 2.0
ROOM_GRACE_SECONDS: Final = 10.0
"""Time for a CLI to end what else it runs, and to keep its session."""
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Pause before an agent's next lease, where the store could not take the last one, or we went wrong with it."""
PRESSED_NAP_SECONDS: Final = 1.0
"""Memory that gets free wakes nobody: so look again."""
LOOKED_AT: Final = 1000
"""The most agents whose work is weighed at once, where providers have limits of their own."""


class Dispatcher:
    """Starts attempts under the worker limit, one per agent, and stops those whose instruction was taken away."""

    def __init__(
        self,
        *,
        reader: Reader,
        wake: Wake,
        attempts: Attempts,
        limits: Limits,
        pressed: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """``pressed`` tells that memory is so short that no worker should be added."""
        self._reader = reader
        self._wake = wake
        self._attempts = attempts
        self._limits = limits
        self._pressed = pressed
        self._now_ms = now_ms
        self._busy: dict[str, str] = {}
        """Agents with an attempt under way, from its choice until its tree is gone, and their providers."""
        self._less_busy = trio.Event()
        self._closed = False
        self._short_of_memory = False
        self.running = False
        """True while work is leased."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Dispatch until ``drain`` is called and every attempt is gone."""
        async with trio.open_nursery() as nursery:
            await self.dispatch(nursery, task_status=task_status)

    async def dispatch(
        self, nursery: trio.Nursery, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Dispatch until ``drain`` is called. The attempts run in ``nursery``, and outlive what goes wrong here."""
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
        counted = self._counted()
        if len(counted) >= self._limits.workers:
            return 0
        self._make_room()
        looked_at = LOOKED_AT if self._limits.by_provider else self._limits.workers
        ready = self._reader.now(instructions.ready, self._now_ms(), looked_at)
        if not ready:
            return 0
        self._short_of_memory = bool(self._busy) and self._pressed()
        if self._short_of_memory:  # somebody always works: what else would give memory back?
            return 0
        chosen = choose(ready, Counter(counted.values()), self._limits, frozenset(self._busy))
        for pick in chosen:
            self._busy[pick.agent] = pick.provider
            nursery.start_soon(self._attempt, pick.id, pick.agent)
        return len(chosen)

    def _counted(self) -> Mapping[str, str]:
        """Return the busy that count against a limit: not those whose call waits for a person."""
        if len(self._busy) < self._limits.workers and not self._limits.by_provider:
            return self._busy
        kept = self._reader.now(instructions.waiting)
        return {agent: provider for agent, provider in self._busy.items() if agent not in kept}

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
        """Run one attempt. Whatever goes wrong in it, the others do not notice (promise P9)."""
        try:
            await self._attempts.run(instruction)
        except Refused as refused:
            logger.warning("lease.refused %s: %s", instruction, refused.text)
            await trio.sleep(REFUSED_PAUSE_SECONDS)
        except Exception:
            logger.exception("attempt.lost %s", instruction)
            await trio.sleep(REFUSED_PAUSE_SECONDS)
        finally:
            del self._busy[agent]
            self._less_busy.set()
            self._wake.set()

    def _stop_orphaned(self) -> None:
        """Stop attempts whose instruction was ended by somebody else (a stopped workflow, a cancel)."""
        working: list[RunningAttempt] = [
            attempt for attempt in self._attempts.running.values() if not attempt.completing
        ]
        if not working:
            return
        held = self._reader.now(instructions.live)
        for attempt in working:
            state = held.get(attempt.leased.instruction)
            if state is None:
                attempt.stop("cancelled", CANCEL_GRACE_SECONDS)
            elif state == "stopped":
                attempt.stop("stopped", CANCEL_GRACE_SECONDS)

    def _make_room(self) -> None:
        """Stop attempts that only wait for a person and keep other work of their agents from being done."""
        held = [
            attempt for attempt in self._attempts.running.values() if attempt.deadline.lasts and not attempt.completing
        ]
        keeping = self._reader.now(instructions.blocking, self._now_ms()) if held else ()
        for attempt in held:
            if attempt.leased.instruction in keeping:
                attempt.stop("made room", ROOM_GRACE_SECONDS)

    def nap_seconds(self) -> float:
        """Return the time until something can become ready by itself: the next ``not_before``, at most a minute."""
        now_ms = self._now_ms()
        due_ms = self._reader.now(instructions.next_due_ms, now_ms)
        longest = PRESSED_NAP_SECONDS if self._short_of_memory else LONGEST_NAP_SECONDS
        return longest if due_ms is None else min((due_ms - now_ms) / 1000, longest)
