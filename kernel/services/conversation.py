"""The conversation of an attempt with its worker: each report is made durable as it comes, then answered.

It decides nothing: what an entry is answered follows from the commit that wrote it and from the budgets.
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
    """The services that every attempt of a kernel uses."""

    writer: Writer
    reader: Reader
    feed: Feed
    places: WorkPlaces
    start_frames: StartFrameBuilder
    admission: Admission
    budgets: BudgetEnforcer
    completer: Completer
    in_flight: Callable[[str], AbstractContextManager[object]] = contextlib.nullcontext
    """A block of it is around whatever the kernel itself does for an instruction."""


class WorkerConversation(msgspec.Struct, eq=False, kw_only=True):
    """The conversation with the worker of one attempt: handles what that says (SessionHandlers)."""

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
    """Why the attempt was stopped, if it was."""
    pid: int | None = None
    """Of its worker, once that is ready."""
    doing: str = ""
    """The activity that ``ps`` shows."""
    steps: int = 0
    """Replies it has made."""
    probing: tuple[str, ...] = ()
    """Circuit breakers: its first reply tells that what is behind them answers again."""
    reply: tuple[str, Entry | None] | None = None
    """The text that the worker ended with, and its last entry where that came with it: to be written."""
    preempted: bool = False
    """It was told to make room for something more urgent."""
    session: WorkerSession | None = None
    """The frames of it, while it lasts."""
    _untold: Beginning | None = None
    """Its worker runs, and the log does not know it yet."""

    async def converse(self, resumed: HandedSession | None) -> AttemptOutcome | None:
        """Talk with the worker to the end, and write its reply. None where it left without a terminal frame.

        ``resumed``: an earlier program of this kernel has begun the conversation.
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
            except SpawnTransient as error:  # its node went, and what it did there with it
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
                if seconds_left is None:
                    ending = await session.run()
                else:
                    with trio.move_on_after(max(0.0, seconds_left)) as budget:
                        ending = await session.run()
                    if budget.cancelled_caught:
                        ending = AttemptOutcome("incomplete", "its budget of time is spent", cause="budget")
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
            gone = error.__cause__ is not None  # its input is closed: mostly it has died, and its exit says of what
            return AttemptOutcome("failed", str(error), cause="protocol", leaves=gone)
        except LineTooLong as error:
            return AttemptOutcome("failed", f"the prompt is too long: {error}", cause="invalid")
        except QuotaReached as reached:
            # Told to all who watch, and to the worker.
            author = Author(self.leased.instruction, self.leased.epoch)
            with contextlib.suppress(Refused):  # somebody took the instruction away: nobody asks any more
                await self.services.writer.commit(tell_reached, author, reached.quota, reached.limit)
            with contextlib.suppress(WorkerNotReading):
                await self.worker.link.send(Stop(reason=reached.text, deadline_seconds=LEAVE_SECONDS))
            return AttemptOutcome("incomplete", reached.text, cause="resource", leaves=True)
        except Refused as refused:
            return AttemptOutcome("failed", refused.text, cause="protocol")

    async def on_ready(self, _ready: Ready, /) -> None:
        """Note that the worker runs. It is told with the first entry, or by ``on_at_work``."""
        definition = self.frame.definition
        self.pid = self.worker.handle.pid
        self._untold = Beginning(
            pid=self.worker.handle.pid,
            backend=definition.backend,
            model=definition.model,
            max_steps=definition.max_steps,
            manifest=tuple(self.frame.manifest),
            seen=self.frame.seen,
        )

    async def on_at_work(self) -> None:
        """Tell that the worker runs, unless its first entry has: that saves a commit."""
        untold, self._untold = self._untold, None
        if untold is not None:
            with contextlib.suppress(Refused):  # stale: whoever took the instruction away has told
                await self.services.writer.commit(started, self.leased.instruction, self.leased.epoch, untold)

    async def on_entry(self, entry: Entry, /) -> Go | Yield:
        """Make ``entry`` durable, the first one with the prompt it answers, and say what its worker may do next.

        Raises Refused; QuotaReached where an exec program is over its quota.
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
            if entry.usage is not None:  # what it said is not kept, what it cost is
                spent = Entry(k=entry.k, kind="session", usage=entry.usage)
                await commit_with_retry(services.writer, journal, leased.instruction, leased.epoch, spent)
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
        """Return the ending that the worker reports. A reply of our own loop is written next, with all that follows.

        Whoever waits for it is answered by that commit; that the worker leaves is booked behind it. Another program's
        word is judged once it has left. Raises Refused.
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
        """Commit what is left in the working tree, then the reply with all that follows. Raises Refused, NotHome.

        No limit of time ends it: what was said is there, and was paid for.
        """
        services, leased = self.services, self.leased
        await self.at.preparation.finish(leased)
        write: Callable[[Transaction, str, int], object] | None = None
        if last is not None:
            last, untold, self._untold = self._priced(last), self._untold, None
            write = self._writing(last, untold)
        await commit_with_retry(services.writer, reply, leased.instruction, leased.epoch, text, write)
        self.place.replied = True
        services.budgets.close(leased.instruction)
        fault_point("attempt.replied")

    def _priced(self, entry: Entry) -> Entry:
        self.deltas.flush()
        fault_point("attempt.entry")
        if entry.usage is None:
            return entry
        usage = self.services.budgets.priced(entry.usage, self.leased.instruction)
        return msgspec.structs.replace(entry, usage=usage)

    def _writing(self, entry: Entry, untold: Beginning | None) -> Callable[[Transaction, str, int], Pressing | None]:
        """Return the job that makes ``entry`` durable, the first one with the prompt that it answers."""
        return partial(
            journal,
            entry=entry,
            first=self.leased.entries,
            frozen=self.frame.snapshot,
            beginning=untold,
            metered=self.frame.start.backend == EXEC,
        )

    async def on_log(self, line: Log, /) -> None:
        """Log one line, after the notice that the worker runs."""
        await self.on_at_work()
        await log_line(self.services.writer, self.leased, line.level, line.text)

    def on_live(self, frame: Delta | Progress, /) -> None:
        """Show what is being said or done."""
        if isinstance(frame, Progress):
            self.doing = frame.what
        self.deltas.add(frame)

    def on_pause(self) -> None:
        """Show what was gathered of what is being said."""
        self.deltas.flush()

    def _answer(self, entry: Entry, pressing: Pressing | None) -> Go | Yield:
        """Decide whether the worker goes on, once ``entry`` is durable, and what its next call may take."""
        if pressing is not None and may_yield(self.leased.promoted and pressing == "urgent", self.steps):
            self.preempted = pressing == "urgent"
            return Yield(k=entry.k)
        if entry.last:
            return Go(k=entry.k)
        allowance = self.services.budgets.allowance(self.leased.instruction)
        if isinstance(allowance, Allowance):
            return Go(k=entry.k, allowance=allowance.tokens)
        if allowance.scope == "workflow":
            return Yield(k=entry.k)  # it waits for somebody to continue the workflow, and goes on from here
        return Go(k=entry.k, allowance=0)


def publish(services: AttemptServices, leased: Leased, kind: str, data: LiveData) -> None:
    """Show what happens now to whoever watches the attempt."""
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
    """Return the ending of an attempt for which nothing could be started at ``at``."""
    if isinstance(error, NodeLost) or not at.connected():
        return of_lost(at.name)
    return AttemptOutcome("failed", f"the worker could not be started: {error}", cause="spawn_transient")
