"""The reports of an attempt's worker: each made durable as it comes, and answered by what that commit found.

It decides nothing: what an entry is answered follows from the commit that wrote it and from the budgets.
"""

import contextlib
from collections.abc import Callable
from functools import partial

import msgspec

from kernel.fault_injection import fault_point
from kernel.policy.budget import Allowance
from kernel.policy.scheduling import may_yield
from kernel.procs.handle import Handle
from kernel.services.attempt_services import AttemptServices, StopReason
from kernel.services.completion import Ending, commit_with_retry, of_result
from kernel.services.kept_workers import Place
from kernel.services.start_frame import StartFrame
from kernel.services.worker_link import DeltaBatch, LiveData, PathWarnings
from kernel.store.attempts import Beginning, started
from kernel.store.circuit_breakers import record_answer
from kernel.store.quotas import QuotaReached
from kernel.store.transaction import Transaction, emit_log
from kernel.store.transitions.close import book_late, reply
from kernel.store.transitions.journal import Pressing, journal
from kernel.store.transitions.lease import Leased
from protocol.backends import CLIS, EXEC
from protocol.errors import Refused
from protocol.events import Event
from protocol.ipc import Delta, Entry, Go, Log, Progress, Ready, Result, Yield
from protocol.names import place_of


class WorkerReports:
    """Handles what the worker of one attempt says (SessionHandlers)."""

    _frame: StartFrame
    _handle: Handle
    _deltas: DeltaBatch
    _path_warnings: PathWarnings
    """These four are set once the worker is spawned, before anything it says is handled."""

    def __init__(self, leased: Leased, services: AttemptServices, place: Place) -> None:
        self.leased = leased
        self.pid: int | None = None
        """Of its worker, once that is ready."""
        self.doing = ""
        """The activity that ``ps`` shows."""
        self.completing = False
        """Its ending is being written: nobody takes it away any more."""
        self.stop_reason: StopReason | None = None
        self.at = services.places.of(leased)
        self._services = services
        self._place = place
        self._steps = 0
        """Replies it has made."""
        self._reply: tuple[str, Entry | None] | None = None
        """The text that the worker ended with, and its last entry where that came with it: to be written."""
        self._untold: Beginning | None = None
        """Its worker runs, and the log does not know it yet."""
        self._probing: tuple[str, ...] = ()
        """Circuit breakers: its first reply tells that what is behind them answers again."""
        self._preempted = False
        """It was told to make room for something more urgent."""

    async def on_ready(self, _ready: Ready, /) -> None:
        """Note that the worker runs. It is told with the first entry, or by ``on_at_work``."""
        definition = self._frame.definition
        self.pid = self._handle.pid
        self._untold = Beginning(
            pid=self._handle.pid,
            backend=definition.backend,
            model=definition.model,
            max_steps=definition.max_steps,
            manifest=tuple(self._frame.manifest),
            seen=self._frame.seen,
        )

    async def on_at_work(self) -> None:
        """Tell that the worker runs, unless its first entry has: that saves a commit."""
        untold, self._untold = self._untold, None
        if untold is not None:
            with contextlib.suppress(Refused):  # stale: whoever took the instruction away has told
                await self._services.writer.commit(started, self.leased.instruction, self.leased.epoch, untold)

    async def on_entry(self, entry: Entry, /) -> Go | Yield:
        """Make ``entry`` durable, the first one with the prompt it answers, and say what its worker may do next.

        Raises Refused; QuotaReached where an exec program is over its quota.
        """
        services, leased = self._services, self.leased
        entry = self._priced(entry)
        if self.stop_reason == "cancelled" and entry.kind == "session" and entry.usage is not None:
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
            self._steps += 1
            if self._probing:
                probed, self._probing = self._probing, ()
                await commit_with_retry(services.writer, record_answer, leased.agent, probed)
        fault_point("attempt.go")
        answer = self._answer(entry, pressing)
        for text in self._path_warnings.of(entry):
            await self.on_log(Log(level="warning", text=text))
        return answer

    async def on_result(self, result: Result, last: Entry | None = None, /) -> Ending:
        """Return the ending that the worker reports. A reply of our own loop is written next, with all that follows.

        Whoever waits for it is answered by that commit; that the worker leaves is booked behind it. Another program's
        word is judged once it has left. Raises Refused.
        """
        judged = result.status != "done" or self._frame.start.backend in {*CLIS, EXEC}
        if judged or self.stop_reason is not None or self._probing:
            if last is not None:
                await self.on_entry(last)
            return of_result(result)
        if last is None:
            await self.on_at_work()
        self.completing = True
        self._reply = result.text, last
        return of_result(result)

    async def _write_reply(self, text: str, last: Entry | None) -> None:
        """Commit what is left in the working tree, then the reply with all that follows. Raises Refused, NotHome.

        No limit of time ends it: what was said is there, and was paid for.
        """
        services, leased = self._services, self.leased
        await self.at.preparation.finish(leased)
        write: Callable[[Transaction, str, int], object] | None = None
        if last is not None:
            last, untold, self._untold = self._priced(last), self._untold, None
            write = self._writing(last, untold)
        await commit_with_retry(services.writer, reply, leased.instruction, leased.epoch, text, write)
        self._place.replied = True
        services.budgets.close(leased.instruction)
        fault_point("attempt.replied")

    def _priced(self, entry: Entry) -> Entry:
        self._deltas.flush()
        fault_point("attempt.entry")
        if entry.usage is None:
            return entry
        usage = self._services.budgets.priced(entry.usage, self.leased.instruction)
        return msgspec.structs.replace(entry, usage=usage)

    def _writing(self, entry: Entry, untold: Beginning | None) -> Callable[[Transaction, str, int], Pressing | None]:
        """Return the job that makes ``entry`` durable, the first one with the prompt that it answers."""
        return partial(
            journal,
            entry=entry,
            first=self.leased.entries,
            frozen=self._frame.snapshot,
            beginning=untold,
            metered=self._frame.start.backend == EXEC,
        )

    async def on_log(self, line: Log, /) -> None:
        """Log one line, after the notice that the worker runs."""
        await self.on_at_work()
        leased = self.leased
        with contextlib.suppress(Refused):  # a line of log is not worth waiting for
            await self._services.writer.commit(
                emit_log,
                "worker.log",
                space=leased.space,
                agent=leased.name,
                instruction=leased.instruction,
                data={"level": line.level, "text": line.text},
            )

    def on_live(self, frame: Delta | Progress, /) -> None:
        """Show what is being said or done."""
        if isinstance(frame, Progress):
            self.doing = frame.what
        self._deltas.add(frame)

    def on_pause(self) -> None:
        """Show what was gathered of what is being said."""
        self._deltas.flush()

    def _answer(self, entry: Entry, pressing: Pressing | None) -> Go | Yield:
        """Decide whether the worker goes on, once ``entry`` is durable, and what its next call may take."""
        if pressing is not None and may_yield(self.leased.promoted and pressing == "urgent", self._steps):
            self._preempted = pressing == "urgent"
            return Yield(k=entry.k)
        if entry.last:
            return Go(k=entry.k)
        allowance = self._services.budgets.allowance(self.leased.instruction)
        if isinstance(allowance, Allowance):
            return Go(k=entry.k, allowance=allowance.tokens)
        if allowance.scope == "workflow":
            return Yield(k=entry.k)  # it waits for somebody to continue the workflow, and goes on from here
        return Go(k=entry.k, allowance=0)

    def _publish(self, kind: str, data: LiveData) -> None:
        leased = self.leased
        self._services.feed.live(
            Event(
                type=kind,
                at=self._services.now_text(),
                space=place_of(leased.space),
                agent=leased.name,
                instruction=leased.instruction,
                data=dict(data),
            )
        )
