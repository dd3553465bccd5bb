"""One worker while it lives: what it is told, what it says, until its whole tree is gone.

It decides nothing: what an entry is answered follows from the commit that wrote it and from the purse, and what an
ending means is for the books.
"""

import contextlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import msgspec
import trio

from kernel.fault import fault_hook
from kernel.policy.aging import may_yield
from kernel.policy.budget import Allowance, Exhausted
from kernel.procs.handle import Handle
from kernel.procs.stop import stop
from kernel.rule.draft import Author
from kernel.services.briefing import Briefing
from kernel.services.dialogue import Dialogue, Ears
from kernel.services.link import Link, Tail, WorkerDeaf
from kernel.services.live import Live
from kernel.services.murmur import Murmur, Told
from kernel.services.outcome import Ending, of_exit
from kernel.services.patience import commit_patiently
from kernel.services.purse import Purse
from kernel.services.straying import Strays
from kernel.store.commits.book_late import book_late
from kernel.store.commits.freeze import Freeze
from kernel.store.commits.journal import Pressing, journal
from kernel.store.commits.lease import Leased
from kernel.store.commits.note import note
from kernel.store.commits.quota import QuotaReached, tell_reached
from kernel.store.commits.started import Beginning, started
from kernel.store.commits.trip import answered
from kernel.store.feed import Feed
from kernel.store.writer import Writer
from protocol.backends import BACKENDS, CLIS
from protocol.codec import LineTooLong
from protocol.errors import Refused
from protocol.events import Event
from protocol.ipc import Delta, Entry, Exited, Go, Log, Progress, Ready, Start, Stop, Yield

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
        purse: Purse,
        now_text: Callable[[], str],
        working: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._working = working
        self._writer = writer
        self._feed = feed
        self._purse = purse
        self._now_text = now_text

    async def run(
        self, live: Live, briefing: Briefing, start: Start, handle: Handle, tail: Tail
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
                fault_hook("attempt.result")
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
        self, live: Live, briefing: Briefing, start: Start, handle: Handle, link: Link, nursery: trio.Nursery
    ) -> Ending | None:
        leased = live.leased

        murmur = Murmur(partial(self._show, leased), nursery.start_soon)
        strays = Strays(briefing.beside, start.cwd)

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

        ears = Ears(entry=entry, log=log, live=show, ready=ready, works=partial(self._tell_started, live))
        timeouts, left = briefing.definition.timeouts, self._purse.seconds_left(leased.instruction)
        try:
            dialogue = Dialogue(link=link, start=start, timeouts=timeouts, ears=ears, standstill=live.standstill)
            ending: Ending | None = None
            with trio.move_on_after(math.inf if left is None else max(0.0, left)) as budget:
                ending = await dialogue.run()
            murmur.flush()
            out_of_time = Ending("incomplete", _TIME_IS_UP, cause="budget")
            return self._over_budget(leased, out_of_time if budget.cancelled_caught else ending)
        except WorkerDeaf as deaf:
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
        with contextlib.suppress(WorkerDeaf):
            await link.send(Stop(reason=refused.text, deadline_seconds=LEAVE_SECONDS))
        return Ending("incomplete", refused.text, cause="resource")

    def _over_budget(self, leased: Leased, ending: Ending | None) -> Ending | None:
        """``ending``; where it is a budget's, of a started workflow, it waits to be continued instead."""
        if ending is None or ending.cause != "budget":
            return ending
        left = self._purse.allowance(leased.instruction)
        return Ending("yielded", "") if isinstance(left, Exhausted) and left.scope == "workflow" else ending

    async def _entry(self, live: Live, entry: Entry, freeze: Freeze | None, *, metered: bool) -> Go | Yield:
        """Make ``entry`` durable, the first one with the prompt it answers, and say what its worker may do next.

        Raises Refused; QuotaReached where ``metered``.
        """
        leased = live.leased
        fault_hook("attempt.entry")
        if entry.usage is not None:
            usage = self._purse.priced(entry.usage, leased.instruction)
            entry = msgspec.structs.replace(entry, usage=usage)
        first = leased.entries
        if live.stop_reason == "cancelled" and entry.kind == "session" and entry.usage is not None:
            await commit_patiently(self._writer, book_late, leased.instruction, leased.epoch, entry)
            return Yield(k=entry.k)
        untold, live.untold = live.untold, None
        write = partial(journal, first=first, frozen=freeze, beginning=untold, metered=metered)
        try:
            pressing = await commit_patiently(self._writer, write, leased.instruction, leased.epoch, entry)
        except QuotaReached:
            live.untold = untold
            if entry.usage is not None:  # what it said is not kept, what it cost is
                spent = Entry(k=entry.k, kind="session", usage=entry.usage)
                await commit_patiently(self._writer, journal, leased.instruction, leased.epoch, spent)
            raise
        fault_hook("attempt.journalled")
        if entry.kind == "reply":
            live.steps += 1
            if live.probing:
                tried, live.probing = live.probing, ()
                await commit_patiently(self._writer, answered, leased.agent, tried)
        fault_hook("attempt.go")
        return self._answer(live, entry, pressing)

    def _answer(self, live: Live, entry: Entry, pressing: Pressing | None) -> Go | Yield:
        leased = live.leased
        if pressing is not None and may_yield(leased.promoted and pressing == "urgent", live.steps):
            live.preempted = pressing == "urgent"
            return Yield(k=entry.k)
        allowance = None if entry.last else self._purse.allowance(leased.instruction)
        if isinstance(allowance, Exhausted) and allowance.scope == "workflow":
            return Yield(k=entry.k)  # it waits for somebody to continue the workflow, and goes on from here
        return Go(k=entry.k, allowance=_tokens(allowance))

    async def _tell_started(self, live: Live) -> None:
        """Tell that the worker runs, unless its first entry has: that saves a commit."""
        untold, live.untold = live.untold, None
        if untold is not None:
            with contextlib.suppress(Refused):  # stale: whoever took the instruction away has told
                await self._writer.commit(started, live.leased.instruction, live.leased.epoch, untold)

    async def _note(self, event: str, leased: Leased, data: dict[str, str]) -> None:
        await self._writer.commit(
            note, event, space=leased.space, agent=leased.name, instruction=leased.instruction, data=data
        )

    def _show(self, leased: Leased, kind: str, data: Told) -> None:
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

    async def _stop(self, live: Live, link: Link, handle: Handle) -> None:
        asked_at = trio.current_time()
        # One that does not read is not waited for any longer than one that reads (promise P8).
        with contextlib.suppress(WorkerDeaf), trio.move_on_after(live.grace_seconds):
            await link.send(Stop(reason=str(live.stop_reason), deadline_seconds=live.grace_seconds))
        await stop(handle, grace_seconds=asked_at + live.grace_seconds - trio.current_time())


def _believed(ending: Ending | None, live: Live, start: Start) -> Ending | None:
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
