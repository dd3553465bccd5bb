"""Conversation of an attempt with its worker: each entry is committed before it is answered.

This module decides nothing: the answer to an entry follows from its commit and from the budgets.
"""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Literal

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.policy.budget import Allowance, Exhausted
from kernel.policy.scheduling import may_yield
from kernel.procs.spec import NodeLost, SpawnTransient
from kernel.rule.draft import Author
from kernel.services.budgets import Admission, BudgetEnforcer
from kernel.services.completion import AttemptOutcome, Completer, commit_with_retry, log_line, of_lost, of_result
from kernel.services.kept_workers import LEAVE_SECONDS, WorkerPlace, WorkerProcess
from kernel.services.model_requests import ModelGateway, ModelRequests
from kernel.services.preparation import NotHome
from kernel.services.start_frame import StartFrame, StartFrameBuilder
from kernel.services.work_places import WorkPlace, WorkPlaces
from kernel.services.worker_link import (
    DeltaBatch,
    HandedSession,
    LiveData,
    PathWarnings,
    PausableDeadline,
    SessionPause,
    WorkerNotReading,
)
from kernel.services.worker_session import WorkerSession
from kernel.store import entries
from kernel.store.attempts import Beginning, QuotaReached, started, tell_reached
from kernel.store.circuit_breakers import record_answer
from kernel.store.database import Reader
from kernel.store.feed import Feed
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.transitions.close import book_late, reply
from kernel.store.transitions.journal import Pressing, journal
from kernel.store.transitions.lease import Leased
from kernel.store.writer import Writer
from protocol.backends import CLIS, EXEC
from protocol.errors import Refused
from protocol.ipc import Delta, Entry, Go, Log, Progress, Ready, Result, Stop, Yield
from protocol.message import Event
from protocol.names import place_of
from protocol.ndjson import LineTooLong

StopReason = Literal["cancelled", "stopped", "restarted", "made room", "upgrade", "shutdown"]


class AttemptServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services shared by all attempts of a kernel."""

    writer: Writer
    reader: Reader
    feed: Feed
    places: WorkPlaces
    start_frames: StartFrameBuilder
    admission: Admission
    budgets: BudgetEnforcer
    completer: Completer
    models: ModelGateway
    in_flight: Callable[[str], AbstractContextManager[object]] = contextlib.nullcontext
    """Records the instruction as in flight during a block (``InFlight``)."""


class WorkerConversation(msgspec.Struct, eq=False, kw_only=True):
    """Conversation with the worker of one attempt; handles its frames (SessionHandlers)."""

    __repr__ = object.__repr__  # the default shows the token
    leased: Leased
    services: AttemptServices
    place: WorkerPlace
    at: WorkPlace
    frame: StartFrame
    worker: WorkerProcess
    deltas: DeltaBatch
    path_warnings: PathWarnings
    deadline: PausableDeadline
    pause: SessionPause
    stop_reason: Callable[[], StopReason | None]
    """Returns why the attempt was stopped, or None."""
    pid: int | None = None
    """Process id of the worker, once it is ready."""
    doing: str = ""
    """Activity that ``ps`` shows."""
    steps: int = 0
    """Number of replies so far."""
    probing: tuple[str, ...] = ()
    """Circuit breakers to close after the first reply."""
    requests: ModelRequests
    """Its model requests through the gateway."""
    reply: tuple[str, Entry | None] | None = None
    """Final text of the worker, and its last entry if it came with the text; still to be written."""
    preempted: bool = False
    """The worker was asked to yield to more urgent work."""
    session: WorkerSession | None = None
    """Session with the worker while it lasts."""
    _untold: Beginning | None = None
    """Start of the worker, while its event is not yet committed."""

    async def converse(self, resumed: HandedSession | None) -> AttemptOutcome | None:
        """Run the conversation and write the reply; return None if the worker exited without a terminal frame.

        ``resumed``: the state of a conversation that the previous kernel process started.
        """
        ending = await self._converse(resumed)
        if self.reply is not None:
            try:
                await self._write_reply(*self.reply)
            except NotHome as error:
                if (last := self.reply[1]) is not None:
                    await self.on_entry(last)
                ending = AttemptOutcome("failed", str(error), cause="spawn_permanent")
            except Refused as refused:
                ending = AttemptOutcome("failed", refused.text, cause="protocol")
            except SpawnTransient as error:  # the node was lost together with its uncommitted changes
                ending = not_started(self.at, error)
        await self.on_at_work()
        return ending

    async def _converse(self, resumed: HandedSession | None) -> AttemptOutcome | None:
        instruction = self.leased.instruction
        seconds_left = self.services.budgets.seconds_left(instruction)
        ending: AttemptOutcome | None = None
        try:
            session = self.session = WorkerSession(
                link=self.worker.link,
                start=self.frame.start,
                timeouts=self.frame.definition.timeouts,
                handlers=self,
                deadline=self.deadline,
                pause=self.pause,
                resumed=resumed or HandedSession(),
            )
            try:
                scope = self.requests.session
                if seconds_left is not None:
                    scope.deadline = trio.current_time() + max(0.0, seconds_left)
                with scope:
                    ending = await session.run()
                if (
                    scope.cancelled_caught and self.requests.exceeded
                ):  # a request of its program would exceed the budget
                    with contextlib.suppress(WorkerNotReading):
                        await self.worker.link.send(Stop(reason="budget", deadline_seconds=LEAVE_SECONDS))
                    text = self.services.reader.now(entries.last_text, instruction)
                    ending = AttemptOutcome("incomplete", text, cause="budget", leaves=True)
                elif scope.cancelled_caught:
                    ending = AttemptOutcome("incomplete", "time budget exhausted", cause="budget")
            finally:
                self.session = None
            self.deltas.flush()
            if ending is not None and ending.cause == "budget":
                # A started workflow waits to be continued when its budget is spent.
                left = self.services.budgets.allowance(instruction)
                if isinstance(left, Exhausted) and left.scope == "workflow":
                    return AttemptOutcome("yielded", "")
            return ending
        except WorkerNotReading as error:
            gone = error.__cause__ is not None  # its input is closed: usually it has died, and its exit has the cause
            return AttemptOutcome("failed", str(error), cause="protocol", leaves=gone)
        except LineTooLong as error:
            return AttemptOutcome("failed", f"prompt too long: {error}", cause="invalid")
        except QuotaReached as reached:
            # Notify all watchers and the worker.
            author = Author(self.leased.instruction, self.leased.epoch)
            with contextlib.suppress(Refused):  # the instruction was taken away, so no notification is needed
                await self.services.writer.commit(tell_reached, author, reached.quota, reached.limit)
            with contextlib.suppress(WorkerNotReading):
                await self.worker.link.send(Stop(reason=reached.text, deadline_seconds=LEAVE_SECONDS))
            return AttemptOutcome("incomplete", reached.text, cause="resource", leaves=True)
        except Refused as refused:
            return AttemptOutcome("failed", refused.text, cause="protocol")

    async def on_ready(self, _ready: Ready, /) -> None:
        """Record that the worker runs; the event is logged with the first entry or by ``on_at_work``."""
        definition = self.frame.definition
        self.pid = self.worker.handle.pid
        self._untold = Beginning(
            pid=self.worker.handle.pid,
            backend=definition.backend,
            model=definition.first_model,
            max_steps=definition.max_steps,
            manifest=tuple(self.frame.manifest),
            seen=self.frame.seen,
        )

    async def on_at_work(self) -> None:
        """Log the start of the worker, unless the commit of its first entry has logged it."""
        untold, self._untold = self._untold, None
        if untold is not None:
            with contextlib.suppress(Refused):  # stale: the commit that took the instruction away has logged it
                await self.services.writer.commit(started, self.leased.instruction, self.leased.epoch, untold)

    async def on_entry(self, entry: Entry, /) -> Go | Yield:
        """Store ``entry``, and return what the worker may do next.

        The first entry is stored together with the prompt. Raises Refused; QuotaReached if an exec
        program exceeds its quota.
        """
        services, leased = self.services, self.leased
        entry = self._priced(entry)
        if self.stop_reason() == "cancelled" and entry.kind == "session" and entry.usage is not None:
            await commit_with_retry(services.writer, book_late, leased.instruction, leased.epoch, entry)
            return Yield(k=entry.k)
        untold, self._untold = self._untold, None
        write = self._writing(entry, untold)
        try:
            pressing = await commit_with_retry(services.writer, write, leased.instruction, leased.epoch)
        except QuotaReached:
            self._untold = untold
            if entry.usage is not None:  # the text is discarded, but its cost is recorded
                spent = Entry(k=entry.k, kind="session", usage=entry.usage)
                await commit_with_retry(services.writer, journal, leased.instruction, leased.epoch, spent)
            raise
        except Refused:
            services.budgets.give_back(leased.instruction, entry.usage)
            raise
        fault_point("attempt.journalled")
        if entry.kind == "reply":
            self.steps += 1
            if self.probing:
                probed, self.probing = self.probing, ()
                await commit_with_retry(services.writer, record_answer, leased.agent, probed)
        fault_point("attempt.go")
        answer = self._answer(entry, pressing)
        for text in self.path_warnings.of(entry):
            await self.on_log(Log(level="warning", text=text))
        return answer

    async def on_result(self, result: Result, last: Entry | None = None, /) -> AttemptOutcome:
        """Return the outcome that the worker reports. Raises Refused.

        The reply of the built-in loop is written when the conversation ends, before the worker exits. The result of
        another program (a CLI, exec) is evaluated after the program has exited.
        """
        judged = result.status != "done" or self.frame.start.backend in {*CLIS, EXEC}
        if judged or self.stop_reason() is not None or self.probing:
            if last is not None:
                await self.on_entry(last)
            return of_result(result)
        if last is None:
            await self.on_at_work()
        self.reply = result.text, last
        return of_result(result)

    async def _write_reply(self, text: str, last: Entry | None) -> None:
        """Store the work in the working tree, then commit the reply with its effects.

        No time limit interrupts this, because the reply exists and was paid for. Raises Refused, NotHome.
        """
        services, leased = self.services, self.leased
        await self.at.preparation.finish(leased)
        write: Callable[[Transaction, str, int], object] | None = None
        if last is not None:
            last, untold, self._untold = self._priced(last), self._untold, None
            write = self._writing(last, untold)
        await self.requests.book()  # of its MCP servers
        await commit_with_retry(services.writer, reply, leased.instruction, leased.epoch, text, write)
        self.place.replied = True
        services.models.gateway.dismiss(leased.attempt)
        services.budgets.close(leased.instruction)
        fault_point("attempt.replied")

    def _priced(self, entry: Entry) -> Entry:
        self.deltas.flush()
        fault_point("attempt.entry")
        if entry.usage is None and entry.kind != "reply":
            return entry
        usage = self.services.budgets.priced(entry.usage, self.leased.instruction)
        return msgspec.structs.replace(entry, usage=usage)

    def _writing(self, entry: Entry, untold: Beginning | None) -> Callable[[Transaction, str, int], Pressing | None]:
        return partial(
            journal,
            entry=entry,
            first=self.leased.entries,
            frozen=self.frame.snapshot,
            beginning=untold,
            metered=self.frame.start.backend == EXEC,
        )

    async def on_log(self, line: Log, /) -> None:
        """Log a line of the worker; the start of the worker is logged first."""
        await self.on_at_work()
        await log_line(self.services.writer, self.leased, line.level, line.text)

    def on_live(self, frame: Delta | Progress, /) -> None:
        """Publish live output or progress."""
        if isinstance(frame, Progress):
            self.doing = frame.what
        self.deltas.add(frame)

    def on_pause(self) -> None:
        """Publish the collected live output."""
        self.deltas.flush()

    def _answer(self, entry: Entry, pressing: Pressing | None) -> Go | Yield:
        """Return the answer to the stored ``entry``: continue with an allowance, or yield."""
        if pressing is not None and may_yield(self.leased.promoted and pressing == "urgent", self.steps):
            self.preempted = pressing == "urgent"
            return Yield(k=entry.k)
        if entry.last:
            return Go(k=entry.k)
        allowance = self.services.budgets.allowance(self.leased.instruction)
        if isinstance(allowance, Allowance):
            return Go(k=entry.k, allowance=allowance.tokens)
        if allowance.scope == "workflow":
            return Yield(k=entry.k)  # wait until the workflow is continued, then resume here
        return Go(k=entry.k, allowance=0)


def publish(services: AttemptServices, leased: Leased, kind: str, data: LiveData) -> None:
    """Publish a live event to watchers of the attempt."""
    services.feed.live(
        Event(
            type=kind,
            at=rfc3339(services.completer.now_ms()),
            space=place_of(leased.space),
            agent=leased.name,
            instruction=leased.instruction,
            data=dict(data),
        )
    )


def not_started(at: WorkPlace, error: SpawnTransient) -> AttemptOutcome:
    """Return the outcome of an attempt whose worker could not be started at ``at``."""
    if isinstance(error, NodeLost) or not at.connected():
        return of_lost(at.name)
    return AttemptOutcome("failed", f"worker could not be started: {error}", cause="spawn_transient")
