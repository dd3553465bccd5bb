"""An attempt under way, as those see it who show it or want to stop it.

One worker while it lives: what it is told, what it says, until its whole tree is gone.

It decides nothing: what an entry is answered follows from the commit that wrote it and from the purse, and what an
ending means is for the books.
"""

import contextlib
import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.policy.budget import Allowance, Exhausted
from kernel.policy.scheduling import may_yield
from kernel.procs.handle import Handle
from kernel.procs.stop import stop
from kernel.rule.draft import Author
from kernel.services.budgets import BudgetEnforcer
from kernel.services.completion import Ending, commit_with_retry, of_exit
from kernel.services.start_frame import StartFrame
from kernel.services.worker_link import DeltaBatch, Link, LiveData, PathWarnings, StderrTail, WorkerNotReading
from kernel.services.worker_session import PausableDeadline, SessionHandlers, WorkerSession
from kernel.store.attempts import Beginning, started
from kernel.store.circuit_breakers import answered
from kernel.store.feed import Feed
from kernel.store.quotas import QuotaReached, tell_reached
from kernel.store.transaction import emit_log
from kernel.store.transitions.close import book_late
from kernel.store.transitions.journal import Pressing, PromptSnapshot, journal
from kernel.store.transitions.lease import Leased
from kernel.store.writer import Writer
from protocol.backends import BACKENDS, CLIS
from protocol.errors import Refused
from protocol.events import Event
from protocol.ipc import Delta, Entry, Exited, Go, Log, Progress, Ready, Start, Stop, Yield
from protocol.ndjson import LineTooLong

StopReason = Literal["cancelled", "stopped", "restarted", "made room", "shutdown"]


@dataclass(slots=True)
class RunningAttempt:
    """An attempt under way, as those see it who may want to stop it."""

    leased: Leased
    pid: int | None = None
    doing: str = ""
    settling: bool = False
    """Its ending is being booked: nobody takes it away any more."""
    steps: int = 0
    """Replies it has made."""
    untold: Beginning | None = None
    """Its worker runs, and the log does not know it yet."""
    probing: tuple[str, ...] = ()
    """Breakers: its first reply tells that what is behind them answers again."""
    preempted: bool = False
    """It was told to make room for something more urgent."""
    reached: bool = False
    """It has come to Daemon MCP: its token was shown there."""
    standstill: PausableDeadline = field(default_factory=PausableDeadline)
    """While calls of it are kept waiting for a person."""
    stop_reason: StopReason | None = None
    grace_seconds: float = 0.0
    spawning: trio.CancelScope = field(default_factory=trio.CancelScope)
    _stop: Callable[[], None] | None = None
    """What is done about being asked to leave."""

    @contextmanager
    def obeying(self, stop: Callable[[], None]) -> Generator[None]:
        """While the block lasts, ``stop`` is called once it is asked to leave: at once, where it was before."""
        if self.stop_reason is not None:
            stop()
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def stop(self, reason: StopReason, grace_seconds: float) -> None:
        """Ask the worker to leave, and have its tree killed ``grace_seconds`` later. The first reason wins."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.grace_seconds = grace_seconds
            self.spawning.cancel()
            if self._stop is not None:
                self._stop()


LEAVE_SECONDS: Final = 2.0
"""How long a worker may take to leave after its last frame, and its stderr to end after it left."""

_TIME_IS_UP: Final = "its budget of time is spent"


class Supervision:
    """Sees workers through their lives. One instance serves the whole kernel."""

    def __init__(
        self,
        *,
        writer: Writer,
        feed: Feed,
        purse: BudgetEnforcer,
        now_text: Callable[[], str],
        working: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._working = working
        self._writer = writer
        self._feed = feed
        self._purse = purse
        self._now_text = now_text

    async def run(
        self, live: RunningAttempt, briefing: StartFrame, start: Start, handle: Handle, tail: StderrTail
    ) -> tuple[Ending, Exited]:
        """Talk with the worker behind ``handle`` to its end, and see it leave.

        Cancellation kills its tree (``handle`` does, as a context).
        """
        link = Link(handle, partial(self._working, live.leased.instruction))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tail.drain, handle.stderr)
            with live.obeying(lambda: nursery.start_soon(self._stop, live, link, handle)):
                ending = await self._talk(live, briefing, start, handle, link, nursery)
                await self._tell_started(live)
                fault_point("attempt.result")
                exited = await stop(handle, grace_seconds=LEAVE_SECONDS)
                if not tail.ended.is_set():
                    with trio.move_on_after(LEAVE_SECONDS):
                        await tail.ended.wait()
            nursery.cancel_scope.cancel()
        if live.stop_reason is not None and (ending is None or ending.ended_as == "failed"):
            return Ending("stopped", live.stop_reason), exited
        if exited.exceeded is not None and (ending is None or ending.ended_as == "failed"):
            return of_exit(exited), exited
        return _believed(ending, live, start) or of_exit(exited), exited

    async def _talk(
        self,
        live: RunningAttempt,
        briefing: StartFrame,
        start: Start,
        handle: Handle,
        link: Link,
        nursery: trio.Nursery,
    ) -> Ending | None:
        leased = live.leased

        murmur = DeltaBatch(partial(self._show, leased), nursery.start_soon)
        strays = PathWarnings(briefing.beside, start.cwd)

        async def log(line: Log) -> None:
            await self._tell_started(live)
            with contextlib.suppress(Refused):  # a line of log is not worth waiting for
                await self._note("worker.log", leased, {"level": line.level, "text": line.text})

        async def entry(entry: Entry) -> Go | Yield:
            murmur.flush()
            answer = await self._entry(live, entry, briefing.freeze, metered=start.backend == "exec")
            for text in strays.of(entry):
                await log(Log(level="warning", text=text))
            return answer

        async def ready(_: Ready) -> None:
            live.pid = handle.pid
            definition = briefing.definition
            live.untold = Beginning(
                pid=handle.pid, backend=definition.backend, model=definition.model, manifest=tuple(briefing.manifest)
            )

        def show(frame: Delta | Progress) -> None:
            if isinstance(frame, Progress):
                live.doing = frame.what
            murmur.hear(frame)

        ears = SessionHandlers(entry=entry, log=log, live=show, ready=ready, works=partial(self._tell_started, live))
        timeouts, left = briefing.definition.timeouts, self._purse.seconds_left(leased.instruction)
        try:
            dialogue = WorkerSession(link=link, start=start, timeouts=timeouts, ears=ears, standstill=live.standstill)
            ending: Ending | None = None
            with trio.move_on_after(math.inf if left is None else max(0.0, left)) as budget:
                ending = await dialogue.run()
            murmur.flush()
            out_of_time = Ending("incomplete", _TIME_IS_UP, cause="budget")
            return self._over_budget(leased, out_of_time if budget.cancelled_caught else ending)
        except WorkerNotReading as deaf:
            return Ending("failed", str(deaf), cause="protocol")
        except LineTooLong as long:
            return Ending("failed", f"the prompt is too long: {long}", cause="invalid")
        except Refused as refused:
            return await self._refused(leased, link, refused)

    async def _refused(self, leased: Leased, link: Link, refused: Refused) -> Ending:
        """The end of a worker whose entry was refused. A quota that is used up is told, to it and to all who watch."""
        if not isinstance(refused, QuotaReached):
            return Ending("failed", refused.text, cause="protocol")
        author = Author(leased.instruction, leased.epoch)
        with contextlib.suppress(Refused):  # somebody took the instruction away: nobody asks any more
            await self._writer.commit(tell_reached, author, refused.quota, refused.limit)
        with contextlib.suppress(WorkerNotReading):
            await link.send(Stop(reason=refused.text, deadline_seconds=LEAVE_SECONDS))
        return Ending("incomplete", refused.text, cause="resource")

    def _over_budget(self, leased: Leased, ending: Ending | None) -> Ending | None:
        """``ending``; where it is a budget's, of a started workflow, it waits to be continued instead."""
        if ending is None or ending.cause != "budget":
            return ending
        left = self._purse.allowance(leased.instruction)
        return Ending("yielded", "") if isinstance(left, Exhausted) and left.scope == "workflow" else ending

    async def _entry(
        self, live: RunningAttempt, entry: Entry, freeze: PromptSnapshot | None, *, metered: bool
    ) -> Go | Yield:
        """Make ``entry`` durable, the first one with the prompt it answers, and say what its worker may do next.

        Raises Refused; QuotaReached where ``metered``.
        """
        leased = live.leased
        fault_point("attempt.entry")
        if entry.usage is not None:
            usage = self._purse.priced(entry.usage, leased.instruction)
            entry = msgspec.structs.replace(entry, usage=usage)
        first = leased.entries
        if live.stop_reason == "cancelled" and entry.kind == "session" and entry.usage is not None:
            await commit_with_retry(self._writer, book_late, leased.instruction, leased.epoch, entry)
            return Yield(k=entry.k)
        untold, live.untold = live.untold, None
        write = partial(journal, first=first, frozen=freeze, beginning=untold, metered=metered)
        try:
            pressing = await commit_with_retry(self._writer, write, leased.instruction, leased.epoch, entry)
        except QuotaReached:
            live.untold = untold
            if entry.usage is not None:  # what it said is not kept, what it cost is
                spent = Entry(k=entry.k, kind="session", usage=entry.usage)
                await commit_with_retry(self._writer, journal, leased.instruction, leased.epoch, spent)
            raise
        fault_point("attempt.journalled")
        if entry.kind == "reply":
            live.steps += 1
            if live.probing:
                tried, live.probing = live.probing, ()
                await commit_with_retry(self._writer, answered, leased.agent, tried)
        fault_point("attempt.go")
        return self._answer(live, entry, pressing)

    def _answer(self, live: RunningAttempt, entry: Entry, pressing: Pressing | None) -> Go | Yield:
        leased = live.leased
        if pressing is not None and may_yield(leased.promoted and pressing == "urgent", live.steps):
            live.preempted = pressing == "urgent"
            return Yield(k=entry.k)
        allowance = None if entry.last else self._purse.allowance(leased.instruction)
        if isinstance(allowance, Exhausted) and allowance.scope == "workflow":
            return Yield(k=entry.k)  # it waits for somebody to continue the workflow, and goes on from here
        return Go(k=entry.k, allowance=_tokens(allowance))

    async def _tell_started(self, live: RunningAttempt) -> None:
        """Tell that the worker runs, unless its first entry has: that saves a commit."""
        untold, live.untold = live.untold, None
        if untold is not None:
            with contextlib.suppress(Refused):  # stale: whoever took the instruction away has told
                await self._writer.commit(started, live.leased.instruction, live.leased.epoch, untold)

    async def _note(self, event: str, leased: Leased, data: dict[str, str]) -> None:
        await self._writer.commit(
            emit_log, event, space=leased.space, agent=leased.name, instruction=leased.instruction, data=data
        )

    def _show(self, leased: Leased, kind: str, data: LiveData) -> None:
        self._feed.live(
            Event(
                type=kind,
                at=self._now_text(),
                space=leased.space,
                agent=leased.name,
                instruction=leased.instruction,
                data=dict(data),
            )
        )

    async def _stop(self, live: RunningAttempt, link: Link, handle: Handle) -> None:
        asked_at = trio.current_time()
        # One that does not read is not waited for any longer than one that reads (promise P8).
        with contextlib.suppress(WorkerNotReading), trio.move_on_after(live.grace_seconds):
            await link.send(Stop(reason=str(live.stop_reason), deadline_seconds=live.grace_seconds))
        await stop(handle, grace_seconds=asked_at + live.grace_seconds - trio.current_time())


def _believed(ending: Ending | None, live: RunningAttempt, start: Start) -> Ending | None:
    """A program that never came to Daemon MCP has not done its work, whatever it says; and some say nothing of it."""
    if ending is None or ending.ended_as != "done" or start.backend not in CLIS or live.reached:
        return ending
    title = BACKENDS[start.backend].title
    text = f"{title} never connected to Daemon MCP, so what it says is not believed"
    return Ending("failed", text, cause="network", ours=True)


def _tokens(allowance: Allowance | Exhausted | None) -> int | None:
    """What a ``go`` says: 0 where there is money for no further call."""
    if allowance is None:
        return None
    return 0 if isinstance(allowance, Exhausted) else allowance.tokens
