"""One attempt of one instruction: lease, spawn, talk, settle, see its tree gone.

Straight-line on purpose. It decides nothing: the retry policy says what follows a failure, and the
commits say whether this attempt may still write.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import trio

from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.spec import Spec
from kernel.services.books import Books
from kernel.services.briefing import Briefing, Briefings
from kernel.services.dialogue import Dialogue, Ears
from kernel.services.link import Link, Tail, WorkerDeaf
from kernel.services.outcome import Ending, of_exit
from kernel.store.commits.journal import journal
from kernel.store.commits.lease import Leased, lease
from kernel.store.commits.note import note
from kernel.store.feed import Feed
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.events import Event
from protocol.ipc import Delta, Entry, Exited, Go, Log, Progress, Ready, Stop

logger = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 5.0
"""How long a worker may take to leave after its terminal frame before it is killed."""

StopReason = Literal["cancelled", "shutdown"]


@dataclass(slots=True)
class Live:
    """An attempt under way, as those see it who may want to stop it."""

    leased: Leased
    stop_reason: StopReason | None = None
    grace_seconds: float = 0.0
    pid: int | None = None
    stopping: trio.Event = field(default_factory=trio.Event)
    settling: bool = False
    """Its ending is being booked: from here on nobody may take it away."""
    gone: trio.Event = field(default_factory=trio.Event)

    def stop(self, reason: StopReason, grace_seconds: float) -> None:
        """Ask the worker to leave, and have its tree killed ``grace_seconds`` later. The first reason wins."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.grace_seconds = grace_seconds
            self.stopping.set()


class Attempts:
    """Runs attempts. One instance serves the whole kernel; each ``run`` is one task."""

    def __init__(
        self,
        *,
        writer: Writer,
        feed: Feed,
        launcher: Launcher,
        briefings: Briefings,
        books: Books,
        now_text: Callable[[], str],
    ) -> None:
        self._writer = writer
        self._feed = feed
        self._launcher = launcher
        self._briefings = briefings
        self._books = books
        self._now_text = now_text
        self.live: dict[str, Live] = {}
        """By instruction id."""

    async def run(self, instruction: str) -> None:
        """Make one attempt, from its lease until its whole tree is gone.

        Returns at once where the instruction is no longer free. Cancellation kills the tree and leaves the
        instruction open; the next kernel requeues it.
        """
        token = secrets.token_urlsafe(32)
        leased = await self._writer.commit(lease, instruction, hashlib.sha256(token.encode()).digest())
        if leased is None:
            return
        live = self.live[leased.instruction] = Live(leased)
        try:
            await self._attempt(live, token)
        finally:
            del self.live[leased.instruction]
            live.gone.set()

    async def _attempt(self, live: Live, token: str) -> None:
        try:
            briefing = self._briefings.prepare(live.leased, token)
        except Refused as refused:
            hint = f" ({refused.hint})" if refused.hint else ""
            cause = "auth" if refused.code == "unauthorized" else "definition_missing"
            await self._books.settle(live.leased, Ending("failed", f"{refused.text}{hint}", cause=cause))
            return
        handle = await self._launcher.spawn(Spec(attempt=live.leased.attempt))
        try:
            await self._supervise(live, briefing, handle)
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(LEAVE_SECONDS):
                await handle.aclose()

    async def _supervise(self, live: Live, briefing: Briefing, handle: Handle) -> None:
        tail = Tail()
        async with trio.open_nursery() as nursery:
            link = Link(handle)
            nursery.start_soon(tail.drain, handle.stderr)
            nursery.start_soon(self._stop_when_asked, live, link, handle)
            ending = await self._talk(live, briefing, handle, link)
            if ending is not None and ending.ended_as != "failed":
                await self._books.settle(live.leased, ending)
                exited = await self._see_off(handle)
                await self._books.exited(live.leased, exited)
            else:
                exited = await self._see_off(handle)
                with trio.move_on_after(1.0):
                    await tail.ended.wait()
                await self._books.settle(live.leased, self._judge(live, ending, exited), exited, tail.text)
            nursery.cancel_scope.cancel()

    def _judge(self, live: Live, ending: Ending | None, exited: Exited) -> Ending:
        if live.stop_reason is not None:
            return Ending("stopped", live.stop_reason)
        return ending or of_exit(exited)

    async def _talk(self, live: Live, briefing: Briefing, handle: Handle, link: Link) -> Ending | None:
        leased = live.leased

        async def entry(entry: Entry) -> Go | Stop:
            await self._writer.commit(journal, leased.instruction, leased.epoch, entry)
            return Go(k=entry.k)

        async def log(line: Log) -> None:
            await self._writer.commit(
                note,
                "worker.log",
                space=leased.space,
                agent=leased.agent,
                instruction=leased.instruction,
                data={"level": line.level, "text": line.text},
            )

        async def ready(_: Ready) -> None:
            live.pid = handle.pid

        ears = Ears(entry=entry, log=log, live=lambda frame: self._show(leased, frame), ready=ready)
        dialogue = Dialogue(link=link, start=briefing.start, timeouts=briefing.timeouts, ears=ears)
        try:
            return await dialogue.run()
        except WorkerDeaf as deaf:
            return Ending("failed", str(deaf), cause="protocol")
        except Refused as refused:
            return Ending("failed", refused.text, cause="cancelled")

    def _show(self, leased: Leased, frame: Delta | Progress) -> None:
        match frame:
            case Delta(text=text):
                kind, data = "delta", {"text": text}
            case Progress(what=what):
                kind, data = "progress", {"what": what}
        self._feed.live(
            Event(
                type=kind,
                at=self._now_text(),
                space=leased.space,
                agent=leased.agent,
                instruction=leased.instruction,
                data=data,
            )
        )

    async def _see_off(self, handle: Handle) -> Exited:
        """Wait for the tree to be gone; after LEAVE_SECONDS help it along."""
        with trio.move_on_after(LEAVE_SECONDS):
            return await handle.wait()
        await handle.kill(after_seconds=LEAVE_SECONDS)
        return await handle.wait()

    async def _stop_when_asked(self, live: Live, link: Link, handle: Handle) -> None:
        await live.stopping.wait()
        with trio.move_on_after(max(live.grace_seconds, 0.0)):
            try:
                await link.send(Stop(reason=str(live.stop_reason), deadline_seconds=live.grace_seconds))
                await handle.wait()
            except WorkerDeaf:
                pass
        await handle.kill(after_seconds=min(LEAVE_SECONDS, live.grace_seconds))
