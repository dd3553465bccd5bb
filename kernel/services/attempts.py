"""The attempts under way: starts one for an instruction, lists them, stops them."""

import contextlib
import hashlib
import secrets
from contextlib import AbstractContextManager

import trio

from kernel.fault_injection import fault_point
from kernel.rule.draft import Draft
from kernel.services.running_attempt import AttemptServices, Place, RunningAttempt, StopReason
from kernel.store.idempotency import RequestKey
from kernel.store.transitions.append import Appended, append, append_and_lease
from kernel.store.transitions.lease import lease


def _new_token() -> tuple[str, bytes]:
    """Return a secret that an attempt shows to Daemon MCP, and what the store keeps of it."""
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).digest()


class Attempts:
    """The attempts of one kernel. Each call of ``run`` is one task."""

    def __init__(self, services: AttemptServices) -> None:
        self._services = services
        self.running: dict[str, RunningAttempt] = {}
        """By instruction id."""
        self._closing_grace_seconds: float | None = None

    async def lease(self, instruction: str, place: Place) -> None:
        """Lease ``instruction`` and run one attempt of it; nothing, where it is no longer free.

        Raises Refused, and as ``run``.
        """
        token, digest = _new_token()
        leased = await self._services.writer.commit(lease, instruction, digest)
        if leased is not None:
            await self.run(RunningAttempt(leased, token, self._services, place))

    async def append(self, draft: Draft, request: RequestKey | None) -> Appended:
        """Append a message and lease nothing. Raises Refused, StorageFailed."""
        return await self._services.writer.commit(append, draft, request=request)

    async def append_and_lease(
        self, draft: Draft, request: RequestKey | None, place: Place
    ) -> tuple[Appended, RunningAttempt | None]:
        """Append a message, and lease in the same commit what the agent of ``place`` does next. That has to be run.

        Raises Refused, StorageFailed. Cancellation waits for the commit.
        """
        token, digest = _new_token()
        with trio.CancelScope(shield=True):
            appended, leased = await self._services.writer.commit(
                append_and_lease, draft, place.agent, digest, request=request
            )
            return appended, None if leased is None else RunningAttempt(leased, token, self._services, place)
        raise AssertionError("a shield of its own is cancelled by nobody")

    async def run(self, attempt: RunningAttempt) -> None:
        """Run ``attempt`` until its tree is gone and its ending is written.

        Raises StorageFailed. Cancellation kills the tree and leaves the instruction open; the next kernel requeues it.
        """
        leased = attempt.leased
        fault_point("attempt.leased")
        self.running[leased.instruction] = attempt
        if self._closing_grace_seconds is not None:
            attempt.stop("shutdown", self._closing_grace_seconds)
        try:
            await attempt.run()
        finally:
            del self.running[leased.instruction]

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
