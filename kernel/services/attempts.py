"""Starts, lists and stops the running attempts."""

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.gateway.access import new_placeholder
from kernel.procs.procfs import AcceptedConnection, ProcessId, caller
from kernel.rule.draft import Draft
from kernel.services.conversation import AttemptServices, StopReason
from kernel.services.handover import HandedAttempt
from kernel.services.kept_workers import KeptWorkers, WorkerPlace
from kernel.services.model_requests import ModelRequests
from kernel.services.running_attempt import RunningAttempt
from kernel.services.work_places import NodeSearch
from kernel.store.idempotency import RequestKey
from kernel.store.transitions.append import Appended, append, append_and_lease
from kernel.store.transitions.lease import Leased, lease
from protocol.names import AgentKey, group_of


def _new_token() -> tuple[str, bytes]:
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).digest()


class Attempts(msgspec.Struct, eq=False):
    """Running attempts of one kernel. Each attempt runs in the task that called ``run``."""

    services: AttemptServices
    kept: KeptWorkers = msgspec.field(default_factory=KeptWorkers)
    running: dict[str, RunningAttempt] = {}
    """Attempts by instruction id."""
    _leasing: set[trio.Event] = set()
    """Events of leases that are being committed; set after the commit."""
    _closing_grace_seconds: float | None = None
    _looking: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def lease(self, instruction: str, place: WorkerPlace) -> None:
        """Lease ``instruction`` if possible and run its attempt. Raises Refused, StorageFailed."""
        token, digest = _new_token()
        with self._committing():
            leased = await self.services.writer.commit(lease, instruction, digest, place.node, place.agent)
            attempt = None if leased is None else self._attempt(leased, token, place)
        if attempt is not None:
            await self.run(attempt)

    def node_search(self, now_ms: Callable[[], int], wake: Callable[[], None]) -> NodeSearch:
        """Create the search for machines for unplaced work; ``wake`` wakes the dispatcher."""
        services = self.services
        return NodeSearch(
            places=services.places, reader=services.reader, writer=services.writer, now_ms=now_ms, wake=wake
        )

    async def append(self, draft: Draft, request: RequestKey | None) -> Appended:
        """Append a message without a lease. Raises Refused, StorageFailed."""
        return await self.services.writer.commit(append, draft, request=request)

    async def append_and_lease(
        self, draft: Draft, request: RequestKey | None, place: WorkerPlace
    ) -> tuple[Appended, RunningAttempt | None]:
        """Append a message and lease the next instruction of the place's agent in one commit.

        Return the appended message, and the attempt, which the caller has to run; None if nothing
        was leased. Raises Refused, StorageFailed. Cancellation waits for the commit.
        """
        token, digest = _new_token()
        with self._committing():
            appended, leased = await self.services.writer.commit_shielded(
                append_and_lease, draft, place.agent, digest, request=request
            )
            return appended, None if leased is None else self._attempt(leased, token, place)

    @contextlib.contextmanager
    def _committing(self) -> Generator[None]:
        """Make ``until_gone`` wait for the lease that the block commits."""
        committed = trio.Event()
        self._leasing.add(committed)
        try:
            yield
        finally:
            self._leasing.discard(committed)
            committed.set()

    def _attempt(self, leased: Leased, token: str, place: WorkerPlace) -> RunningAttempt:
        fault_point("attempt.leased")
        services = self.services
        requests = ModelRequests(
            leased=leased,
            models=services.models,
            budgets=services.budgets,
            writer=services.writer,
            placeholder=new_placeholder(leased.attempt),
        )
        attempt = self.running[leased.instruction] = RunningAttempt(
            leased, token, services, place, self.kept, services.places.of(leased), requests
        )
        return attempt

    def adopt(self, handed: HandedAttempt, place: WorkerPlace) -> RunningAttempt:
        """Register and return an attempt of the previous kernel process; the caller must run it."""
        attempt = self._attempt(handed.leased, handed.token, place)
        attempt.take_over(handed)
        return attempt

    @property
    def leasing(self) -> bool:
        """Return whether a lease is being committed."""
        return bool(self._leasing)

    async def run(self, attempt: RunningAttempt) -> None:
        """Run ``attempt`` until its process tree has exited and its outcome is written.

        Raises StorageFailed. Cancellation kills the tree and leaves the instruction open; the next kernel requeues it.
        """
        if self._closing_grace_seconds is not None:
            attempt.stop("shutdown", self._closing_grace_seconds)
        try:
            await attempt.run()
        finally:
            del self.running[attempt.leased.instruction]
            attempt.gone.set()

    def stop_all(self, grace_seconds: float) -> None:
        """Stop all attempts, including those whose lease is being committed."""
        self._closing_grace_seconds = grace_seconds
        self.kept.close()
        for attempt in self.running.values():
            attempt.stop("shutdown", grace_seconds)

    def stop_agent(self, agent: AgentKey, reason: StopReason, grace_seconds: float) -> bool:
        """Stop the attempts of the agent and its instances and requeue their instructions; return False without one."""
        named = {one: (one.leased.agent, group_of(one.leased.agent)) for one in self.running.values()}
        found = [one for one, names in named.items() if agent in names and not one.completing]
        self.kept.dismiss(agent)
        for attempt in found:
            attempt.stop(reason, grace_seconds)
        return bool(found)

    async def until_gone(self, of: Callable[[Leased], bool]) -> None:
        """Wait until the attempts that ``of`` selects have ended, then end their idle workers."""
        for committed in tuple(self._leasing):
            await committed.wait()
        for attempt in [one for one in self.running.values() if of(one.leased)]:
            await attempt.gone.wait()
        await self.kept.end(of)

    def hold(self, instruction: str) -> AbstractContextManager[None]:
        """Pause the deadline of the attempt of ``instruction``, if any, during the block."""
        attempt = self.running.get(instruction)
        return contextlib.nullcontext() if attempt is None else attempt.deadline.hold()

    def reached_mcp(self, instruction: str) -> None:
        """Record that the attempt of ``instruction`` has connected to Daemon MCP."""
        attempt = self.running.get(instruction)
        if attempt is not None:
            attempt.reached_mcp = True

    def processes(self) -> frozenset[ProcessId]:
        """Return the keepers and workers of all attempts; safe to call from any thread."""
        return frozenset[ProcessId]().union(*(attempt.processes for attempt in tuple(self.running.values())))

    async def calling(self, wire: AcceptedConnection, cookie: str) -> bytes | None:
        """Return the token digest of the attempt whose processes hold the client end of ``wire``.

        Return None unless it is exactly one attempt and the caller has sent its ``cookie``. The
        cookie is in the environment of its programs: a program that is made to fetch an untrusted
        URL does not send it. Lookups run one at a time, because any client can cause them.
        """
        async with self._looking:
            ours = [
                one
                for one in self.running.values()
                if one.cookie and hmac.compare_digest(one.cookie.encode(), cookie.encode())
            ]
            trees = {process: attempt for attempt in ours for process in attempt.processes}
            if not trees:
                return None
            found = await trio.to_thread.run_sync(caller, wire, trees.keys(), os.getpid())
        attempt = None if found is None else trees[found]
        if attempt is None or self.running.get(attempt.leased.instruction) is not attempt:
            return None
        return attempt.digest

    def works_in(self, run: int) -> bool:
        """Return whether an attempt of ``run`` is running."""
        return any(attempt.leased.run == run for attempt in self.running.values())
