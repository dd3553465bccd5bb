"""The attempts under way: starts one for an instruction, lists them, stops them."""

import contextlib
import hashlib
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager

import trio

from kernel.fault_injection import fault_point
from kernel.services.running_attempt import AttemptServices, RunningAttempt, StopReason
from kernel.store.transitions.lease import Leased, lease


class Attempts:
    """The attempts of one kernel. Each call of ``run`` is one task."""

    def __init__(self, services: AttemptServices) -> None:
        self._services = services
        self.running: dict[str, RunningAttempt] = {}
        """By instruction id."""
        self._leasing: dict[str, trio.Event] = {}
        """Instructions whose lease is being committed."""
        self._closing_grace_seconds: float | None = None

    async def run(self, instruction: str) -> None:
        """Lease ``instruction`` and run one attempt until its tree is gone and its ending is written.

        Returns at once where the instruction is no longer free. Raises Refused, StorageFailed. Cancellation kills the
        tree and leaves the instruction open; the next kernel requeues it.
        """
        token = secrets.token_urlsafe(32)
        digest = hashlib.sha256(token.encode()).digest()
        self._leasing[instruction] = trio.Event()
        try:
            leased = await self._services.writer.commit(lease, instruction, digest)
            if leased is None:
                return
            fault_point("attempt.leased")
            attempt = self.running[leased.instruction] = RunningAttempt(leased, token, self._services)
        finally:
            self._leasing.pop(instruction).set()
        if self._closing_grace_seconds is not None:
            attempt.stop("shutdown", self._closing_grace_seconds)
        try:
            await attempt.run()
        finally:
            del self.running[leased.instruction]
            attempt.gone.set()

    def stop_all(self, grace_seconds: float) -> None:
        """Stop every attempt, also those whose lease is being committed."""
        self._closing_grace_seconds = grace_seconds
        for attempt in self.running.values():
            attempt.stop("shutdown", grace_seconds)

    def stop_agent(self, agent: str, reason: StopReason, grace_seconds: float) -> bool:
        """Stop the attempt of ``agent`` (its key); its instruction goes back to its lane. Returns False without one."""
        found = [one for one in self.running.values() if one.leased.agent == agent and not one.completing]
        for attempt in found:
            attempt.stop(reason, grace_seconds)
        return bool(found)

    async def until_gone(self, of: Callable[[Leased], bool]) -> None:
        """Return when nothing is left of the attempts ``of`` names: of those there are, or are just being leased."""
        for leased in tuple(self._leasing.values()):
            await leased.wait()
        for attempt in [one for one in self.running.values() if of(one.leased)]:
            await attempt.gone.wait()

    def hold(self, instruction: str) -> AbstractContextManager[None]:
        """Let the deadline of ``instruction``'s attempt, if it has one, stand still while the block lasts."""
        attempt = self.running.get(instruction)
        return contextlib.nullcontext() if attempt is None else attempt.deadline.hold()

    def reached_mcp(self, instruction: str) -> None:
        """Note that the attempt of ``instruction`` has come to Daemon MCP."""
        attempt = self.running.get(instruction)
        if attempt is not None:
            attempt.reached_mcp = True

    def works_in(self, run: int) -> bool:
        """Return whether an attempt of ``run`` is under way."""
        return any(attempt.leased.run == run for attempt in self.running.values())
