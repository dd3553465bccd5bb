"""The process of an attempt: a new one, or one that has served its agent before (``reuse`` in the agent's file).

A worker is kept when it has replied, has found nothing left in itself, and is all there is below its keeper. It serves
what is the same in all but the work: agent, file, space, working directory, environment, model, key, tools and servers.
At most one is kept for an agent, and it is gone before another one begins.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.policy.scheduling import HERE, Candidate
from kernel.procs.handle import HandedHandle, Handle
from kernel.procs.spec import Spec
from kernel.services.start_frame import StartFrame
from kernel.services.work_places import WorkPlace
from kernel.services.worker_link import WorkerLink, WorkerNotReading
from kernel.store.transitions.lease import Leased
from protocol.backends import EXEC
from protocol.ipc import Stop
from protocol.limits import PlaceNeeds
from protocol.names import AgentKey

IDLE_SECONDS: Final = 60.0
"""One that nobody wanted for so long is ended."""
MOST: Final = 32
"""So many are kept at once; each holds some MiB."""
LEAVE_SECONDS: Final = 2.0
"""Time for a worker to leave after its last frame, and for its stderr to end after it left."""
STAY_SECONDS: Final = 2.0
"""Time for a worker to see what is left in it, as long as one has to leave."""


class WorkerProcess:
    """A worker's process and the link to it. Close it (``async with``): it ends, unless it is kept."""

    def __init__(self, handle: Handle, identity: bytes) -> None:
        self.handle = handle
        self.link = WorkerLink(handle)
        self.identity = identity
        """A digest of all that has to be the same for the next attempt."""
        self.served = 0
        """Attempts before this one."""
        self.kept = False

    async def __aenter__(self) -> "WorkerProcess":
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self.kept:
            await self.handle.__aexit__(*error)

    async def stays(self) -> bool:
        """Return whether it is ready for another attempt, and alone. One that is not is told to leave."""
        with trio.move_on_after(STAY_SECONDS):
            if await self.link.ready_again() and await self.handle.count() == 1:
                return True
        with suppress(WorkerNotReading), trio.move_on_after(STAY_SECONDS):
            await self.link.send(Stop(reason="it is not used again", deadline_seconds=STAY_SECONDS))
        return False


class IdleWorker(msgspec.Struct, eq=False):
    """A worker that waits for more work of its agent. Whoever takes it out of the table decides what becomes of it.

    ``of``: how many attempts it may serve.
    """

    worker: WorkerProcess
    leased: Leased
    """The last attempt it served."""
    of: int
    waits: trio.CancelScope = msgspec.field(
        default_factory=lambda: trio.CancelScope(deadline=trio.current_time() + IDLE_SECONDS)
    )
    taken: bool = False

    @property
    def doing(self) -> str:
        """The activity that ``ps`` shows."""
        return f"kept for more work: {self.worker.served} of {self.of} done"

    def take(self) -> WorkerProcess:
        """Have it for oneself: to use it, or to close it."""
        self.taken, self.worker.kept = True, False
        self.waits.cancel()
        return self.worker


class WorkerPlace:
    """The place of an agent's one worker: taken when its work is chosen, left when none of its processes is there.

    Once a worker has replied, the next one may take its place, and begins when it has left.
    """

    def __init__(
        self,
        agent: AgentKey,
        pick: Candidate | None,
        before: "WorkerPlace | None",
        on_left: Callable[["WorkerPlace"], None],
    ) -> None:
        """``pick``: what it is for, where that was chosen; else something that may run here. ``before``: the one that
        has to be left first. ``on_left`` is called once.
        """
        self.agent = agent
        self.provider = "" if pick is None else pick.provider
        self.node = HERE if pick is None else pick.node
        self.needs = PlaceNeeds() if pick is None else pick.needs
        self.before = before
        self.replied = False
        self.kept: IdleWorker | None = None
        """Its worker, where that is kept for the next work of the agent: to be watched once the place is left."""
        self.left = trio.Event()
        self._on_left = on_left

    async def free(self) -> None:
        """Wait until who had it before has left."""
        if self.before is not None:
            await self.before.left.wait()
            self.before = None

    def leave(self) -> None:
        """Note that nothing is left of its worker."""
        if not self.left.is_set():
            self.left.set()
            self._on_left(self)


class KeptWorkers(msgspec.Struct, eq=False):
    """The workers of one kernel that are kept, by agent.

    ``run_dir`` is where the run directories of attempts are.
    """

    run_dir: Path = msgspec.field(default_factory=Path)
    waiting: dict[AgentKey, IdleWorker] = {}
    _closed: bool = False

    async def begin(self, leased: Leased, frame: StartFrame, place: WorkPlace) -> WorkerProcess:
        """Return a worker for the attempt: the one that is kept for such at ``place``, or a new one.

        Raises SpawnTransient. With backend exec it is the program that the agent's file names.
        """
        start = frame.start
        identity = _identity(frame, place.name) if frame.definition.reuse > 1 else b""
        kept = self.waiting.pop(leased.agent, None)
        if kept is not None:
            worker = kept.take()
            if worker.identity == identity and worker.handle.is_quiet():
                with suppress(OSError):  # the file system's: then it is as good as none
                    worker.handle.assign(start.attempt)
                    return worker
            await worker.handle.aclose()
        spec = Spec(attempt=start.attempt)
        if start.backend == EXEC:
            spec = Spec(attempt=start.attempt, argv=start.command, cwd=start.cwd, env=start.env)
        return WorkerProcess(await place.launcher.spawn(spec), identity)

    def adopt(self, handed: HandedHandle, identity: bytes, served: int) -> WorkerProcess:
        """Return the worker that an earlier program of this kernel has started."""
        worker = WorkerProcess(Handle.adopted(handed, self.run_dir), identity)
        worker.served = served
        return worker

    def keep(self, worker: WorkerProcess, leased: Leased, of: int) -> IdleWorker | None:
        """Keep ``worker``, which stays, for ``of`` attempts in all: ``watch`` it. None where none is kept any more."""
        if self._closed or not worker.handle.is_quiet() or not worker.handle.is_bare():
            return None
        worker.served += 1
        worker.kept = True
        if len(self.waiting) >= MOST:
            self.dismiss(next(iter(self.waiting)))
        kept = self.waiting[leased.agent] = IdleWorker(worker, leased, of)
        return kept

    async def watch(self, kept: IdleWorker) -> None:
        """Return when somebody took ``kept``; end it when it is idle for too long, is dismissed, or has died."""
        try:
            with kept.waits:
                await kept.worker.handle.wait()
        finally:
            if not kept.taken:
                if self.waiting.get(kept.leased.agent) is kept:
                    del self.waiting[kept.leased.agent]
                await kept.worker.handle.aclose()

    def dismiss(self, agent: AgentKey) -> None:
        """Have the worker that is kept for ``agent`` end, if there is one."""
        kept = self.waiting.get(agent)
        if kept is not None:
            del self.waiting[agent]
            kept.waits.cancel()

    async def end(self, of: Callable[[Leased], bool]) -> None:
        """End those whose last attempt ``of`` names, and return when they are gone."""
        found = [kept for kept in self.waiting.values() if of(kept.leased)]
        for kept in found:
            del self.waiting[kept.leased.agent]
        async with trio.open_nursery() as nursery:
            for kept in found:
                nursery.start_soon(kept.take().handle.aclose)

    def close(self) -> None:
        """Keep none from now on, and have those end that there are."""
        self._closed = True
        for agent in tuple(self.waiting):
            self.dismiss(agent)


def _identity(frame: StartFrame, place: str) -> bytes:
    """Return a digest of the agent's file as it is now, the place, and all that it is told but the work itself.

    What is not named here counts: a field that is added later makes one worker more, never one that knows too much.
    """
    same = msgspec.structs.replace(
        frame.start,
        instruction="",
        attempt="",
        epoch=0,
        system="",
        messages=(),
        message="",
        entries=(),
        token="",
        idempotency_key="",
        mock_counts={},
        source_text="",
        earlier_steps=0,
        first_k=0,
        compact=False,
        interrupted=False,
        granted=(),
        attempt_dir="",
        approval="ask",
    )
    return hashlib.sha256(msgspec.json.encode((frame.definition, same, place))).digest()
