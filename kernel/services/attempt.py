"""One attempt of one instruction: lease, spawn, talk, see the tree gone, settle.

Straight-line on purpose. It decides nothing: the retry policy says what follows a failure, and the commits say
whether this attempt may still write. The ending is booked when nothing of the attempt is left, so the next attempt
of the agent never meets the last one's processes.
"""

import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import trio

from kernel.procs.errors import SpawnTransient
from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.spec import Spec
from kernel.procs.stop import stop
from kernel.services.books import Books
from kernel.services.briefing import Briefing, Briefings, CannotStart
from kernel.services.dialogue import Dialogue, Ears
from kernel.services.link import Link, Tail, WorkerDeaf
from kernel.services.outcome import Ending, of_bug, of_exit
from kernel.services.patience import commit_patiently
from kernel.store.commits.journal import journal
from kernel.store.commits.lease import Leased, lease
from kernel.store.commits.note import note
from kernel.store.commits.started import started
from kernel.store.errors import StorageFailed
from kernel.store.feed import Feed
from kernel.store.writer import Writer
from protocol.agent import Retry
from protocol.codec import LineTooLong
from protocol.errors import Refused
from protocol.events import Event
from protocol.ipc import Delta, Entry, Exited, Go, Log, Progress, Ready, Stop

logger = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 2.0
"""How long a worker may take to leave after its last frame, and its stderr to end after it left."""

StopReason = Literal["cancelled", "shutdown"]


@dataclass(slots=True)
class Live:
    """An attempt under way, as those see it who may want to stop it."""

    leased: Leased
    pid: int | None = None
    doing: str = ""
    settling: bool = False
    """Its ending is being booked: nobody takes it away any more."""
    stop_reason: StopReason | None = None
    grace_seconds: float = 0.0
    spawning: trio.CancelScope = field(default_factory=trio.CancelScope)
    stopping: trio.Event = field(default_factory=trio.Event)

    def stop(self, reason: StopReason, grace_seconds: float) -> None:
        """Ask the worker to leave, and have its tree killed ``grace_seconds`` later. The first reason wins."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.grace_seconds = grace_seconds
            self.stopping.set()
            self.spawning.cancel()


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
        self._closing_grace_seconds: float | None = None

    async def run(self, instruction: str) -> None:
        """Make one attempt, from its lease until its whole tree is gone and its ending is booked.

        Returns at once where the instruction is no longer free. Cancellation kills the tree and leaves the
        instruction open; the next kernel requeues it.
        """
        token = secrets.token_urlsafe(32)
        leased = await self._writer.commit(lease, instruction, hashlib.sha256(token.encode()).digest())
        if leased is None:
            return
        live = self.live[leased.instruction] = Live(leased)
        if self._closing_grace_seconds is not None:
            live.stop("shutdown", self._closing_grace_seconds)
        try:
            await self._attempt(live, token)
        except StorageFailed:
            raise
        except Exception as error:
            logger.exception("attempt.broke %s", leased.attempt)
            live.settling = True
            await self._books.settle(leased, of_bug(error), Retry(), None, "")
        finally:
            del self.live[leased.instruction]

    def stop_all(self, grace_seconds: float) -> None:
        """Stop every attempt, also those whose lease is being committed."""
        self._closing_grace_seconds = grace_seconds
        for live in self.live.values():
            live.stop("shutdown", grace_seconds)

    async def _attempt(self, live: Live, token: str) -> None:
        leased = live.leased
        retry = Retry()
        exited: Exited | None = None
        tail = Tail()
        try:
            briefing = self._briefings.prepare(leased, token)
            retry = briefing.definition.retry
            self._launcher.need(briefing.sdks)
            handle = await self._spawn(live)
            if handle is None:
                ending = Ending("stopped", str(live.stop_reason))
            else:
                async with handle:
                    ending, exited = await self._supervise(live, briefing, handle, tail)
        except CannotStart as error:
            ending = Ending("failed", str(error), cause=error.cause)
        except SpawnTransient as error:
            ending = Ending("failed", f"the worker could not be started: {error}", cause="spawn_transient")
        live.settling = True
        await self._books.settle(leased, ending, retry, exited, tail.text)

    async def _spawn(self, live: Live) -> Handle | None:
        """The worker's process; None where the attempt was stopped before it was there. Raises SpawnTransient."""
        handle: Handle | None = None
        with live.spawning:
            if live.stop_reason is None:
                handle = await self._launcher.spawn(Spec(attempt=live.leased.attempt))
        return handle

    async def _supervise(self, live: Live, briefing: Briefing, handle: Handle, tail: Tail) -> tuple[Ending, Exited]:
        link = Link(handle)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tail.drain, handle.stderr)
            nursery.start_soon(self._stop_when_asked, live, link, handle)
            ending = await self._talk(live, briefing, handle, link, nursery)
            exited = await stop(handle, grace_seconds=LEAVE_SECONDS)
            with trio.move_on_after(LEAVE_SECONDS):
                await tail.ended.wait()
            nursery.cancel_scope.cancel()
        if live.stop_reason is not None and (ending is None or ending.ended_as == "failed"):
            return Ending("stopped", live.stop_reason), exited
        return ending or of_exit(exited), exited

    async def _talk(
        self, live: Live, briefing: Briefing, handle: Handle, link: Link, nursery: trio.Nursery
    ) -> Ending | None:
        leased = live.leased

        async def entry(entry: Entry) -> Go | Stop:
            await commit_patiently(self._writer, journal, leased.instruction, leased.epoch, entry)
            return Go(k=entry.k)

        async def log(line: Log) -> None:
            with contextlib.suppress(Refused):  # a line of log is not worth waiting for
                await self._note("worker.log", leased, {"level": line.level, "text": line.text})

        async def ready(_: Ready) -> None:
            live.pid = handle.pid
            # Nothing the worker does next depends on it, and the writer keeps the order.
            nursery.start_soon(self._tell_started, leased, briefing, handle.pid)

        def show(frame: Delta | Progress) -> None:
            if isinstance(frame, Progress):
                live.doing = frame.what
            self._show(leased, frame)

        ears = Ears(entry=entry, log=log, live=show, ready=ready)
        try:
            return await Dialogue(
                link=link, start=briefing.start, timeouts=briefing.definition.timeouts, ears=ears
            ).run()
        except WorkerDeaf as deaf:
            return Ending("failed", str(deaf), cause="protocol")
        except LineTooLong as long:
            return Ending("failed", f"the prompt is too long: {long}", cause="invalid")
        except Refused as refused:
            return Ending("failed", refused.text, cause="protocol")

    async def _tell_started(self, leased: Leased, briefing: Briefing, pid: int) -> None:
        with contextlib.suppress(Refused):  # stale: whoever took the instruction away has told
            await self._writer.commit(
                started,
                leased.instruction,
                leased.epoch,
                pid=pid,
                backend=briefing.definition.backend,
                model=briefing.definition.model,
                manifest=briefing.manifest,
            )

    async def _note(self, event: str, leased: Leased, data: dict[str, str]) -> None:
        await self._writer.commit(
            note, event, space=leased.space, agent=leased.name, instruction=leased.instruction, data=data
        )

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
                agent=leased.name,
                instruction=leased.instruction,
                data=data,
            )
        )

    async def _stop_when_asked(self, live: Live, link: Link, handle: Handle) -> None:
        await live.stopping.wait()
        with contextlib.suppress(WorkerDeaf):
            await link.send(Stop(reason=str(live.stop_reason), deadline_seconds=live.grace_seconds))
        await stop(handle, grace_seconds=live.grace_seconds)
