"""Processes of attempts: new ones, and idle ones that are reused for the same agent (``reuse`` in the agent's file).

A worker stays idle after it has replied, if it has no leftover state and is the only process below its keeper. It is
reused only if everything except the work is the same: agent, file, space, working directory, environment, model, key,
tools and servers. An agent has at most one idle worker, which exits before another one starts.
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
"""Time after which an idle worker is ended."""
MOST: Final = 32
"""Maximum idle workers; each uses some MiB."""
LEAVE_SECONDS: Final = 2.0
"""Time for a worker to exit after its last frame, and for its stderr to end after its exit."""
STAY_SECONDS: Final = 2.0
"""Time for a worker to check for leftover state, or to exit if it is not reused."""


class WorkerProcess:
    """Process of a worker with its link; leaving ``async with`` ends the process unless it is kept."""

    def __init__(self, handle: Handle, identity: bytes) -> None:
        self.handle = handle
        self.link = WorkerLink(handle)
        self.identity = identity
        """Digest of everything that has to be the same for the next attempt."""
        self.served = 0
        """Number of earlier attempts."""
        self.kept = False

    async def __aenter__(self) -> "WorkerProcess":
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self.kept:
            await self.handle.__aexit__(*error)

    async def stays(self) -> bool:
        """Return whether the worker is ready again and has no child; otherwise ask it to exit."""
        with trio.move_on_after(STAY_SECONDS):
            if await self.link.ready_again() and await self.handle.count() == 1:
                return True
        with suppress(WorkerNotReading), trio.move_on_after(STAY_SECONDS):
            await self.link.send(Stop(reason="the worker is not reused", deadline_seconds=STAY_SECONDS))
        return False


class IdleWorker(msgspec.Struct, eq=False):
    """Idle worker that waits for more work of its agent.

    The code that removes it from ``KeptWorkers.waiting`` owns it. ``of``: maximum attempts of the worker.
    """

    worker: WorkerProcess
    leased: Leased
    """Last attempt that it served."""
    of: int
    waits: trio.CancelScope = msgspec.field(
        default_factory=lambda: trio.CancelScope(deadline=trio.current_time() + IDLE_SECONDS)
    )
    taken: bool = False

    @property
    def doing(self) -> str:
        """Return the activity that ``ps`` shows."""
        return f"idle, kept for reuse: {self.worker.served} of {self.of} done"

    def take(self) -> WorkerProcess:
        """Return the worker, which the caller now owns and has to use or close."""
        self.taken, self.worker.kept = True, False
        self.waits.cancel()
        return self.worker


class WorkerPlace:
    """Place of an agent's only worker, from the selection of its work until its processes have exited.

    After a worker has replied, the next one may reserve the place, and starts when the first has left.
    """

    def __init__(
        self,
        agent: AgentKey,
        pick: Candidate | None,
        before: "WorkerPlace | None",
        on_left: Callable[["WorkerPlace"], None],
    ) -> None:
        """``pick`` is the selected instruction; None for work that may run here. ``before`` is the place that has to
        be left first. ``on_left`` is called once."""
        self.agent = agent
        self.provider = "" if pick is None else pick.provider
        self.node = HERE if pick is None else pick.node
        self.needs = PlaceNeeds() if pick is None else pick.needs
        self.before = before
        self.replied = False
        self.kept: IdleWorker | None = None
        """Idle worker for the agent's next work, to be watched after the place is left."""
        self.left = trio.Event()
        self._on_left = on_left

    async def free(self) -> None:
        """Wait until the previous worker has left."""
        if self.before is not None:
            await self.before.left.wait()
            self.before = None

    def leave(self) -> None:
        """Record that the worker's processes have exited."""
        if not self.left.is_set():
            self.left.set()
            self._on_left(self)


class KeptWorkers(msgspec.Struct, eq=False):
    """Idle workers of one kernel, by agent. ``run_dir`` contains the run directories of attempts."""

    run_dir: Path = msgspec.field(default_factory=Path)
    waiting: dict[AgentKey, IdleWorker] = {}
    _closed: bool = False

    async def begin(self, leased: Leased, frame: StartFrame, place: WorkPlace) -> WorkerProcess:
        """Return a worker for the attempt: a matching idle one at ``place``, or a new one.

        Raises SpawnTransient. With the backend exec, the worker is the program named in the agent's file.
        """
        start = frame.start
        identity = _identity(frame, place.name) if frame.reuse > 1 else b""
        kept = self.waiting.pop(leased.agent, None)
        if kept is not None:
            worker = kept.take()
            if worker.identity == identity and worker.handle.is_quiet():
                with suppress(OSError):  # a file system error: start a new worker instead
                    worker.handle.assign(start.attempt)
                    return worker
            await worker.handle.aclose()
        spec = Spec(attempt=start.attempt)
        if start.backend == EXEC:
            spec = Spec(attempt=start.attempt, argv=start.command, cwd=start.cwd, env=start.env)
        return WorkerProcess(await place.launcher.spawn(spec), identity)

    def adopt(self, handed: HandedHandle, identity: bytes, served: int) -> WorkerProcess:
        """Return the worker that the previous kernel process started."""
        worker = WorkerProcess(Handle.adopted(handed, self.run_dir), identity)
        worker.served = served
        return worker

    def keep(self, worker: WorkerProcess, leased: Leased, of: int) -> IdleWorker | None:
        """Keep ``worker`` idle; the caller has to ``watch`` the result. None: it cannot be kept."""
        if self._closed or not worker.handle.is_quiet() or not worker.handle.is_bare():
            return None
        worker.served += 1
        worker.kept = True
        if len(self.waiting) >= MOST:
            self.dismiss(next(iter(self.waiting)))
        kept = self.waiting[leased.agent] = IdleWorker(worker, leased, of)
        return kept

    async def watch(self, kept: IdleWorker) -> None:
        """Wait until ``kept`` is taken; end it after a timeout, a dismissal, or its exit."""
        try:
            with kept.waits:
                await kept.worker.handle.wait()
        finally:
            if not kept.taken:
                if self.waiting.get(kept.leased.agent) is kept:
                    del self.waiting[kept.leased.agent]
                await kept.worker.handle.aclose()

    def dismiss(self, agent: AgentKey) -> None:
        """End the idle worker of ``agent``, if there is one."""
        kept = self.waiting.get(agent)
        if kept is not None:
            del self.waiting[agent]
            kept.waits.cancel()

    async def end(self, of: Callable[[Leased], bool]) -> None:
        """End the idle workers whose last attempt ``of`` selects, and wait for their exit."""
        found = [kept for kept in self.waiting.values() if of(kept.leased)]
        for kept in found:
            del self.waiting[kept.leased.agent]
        async with trio.open_nursery() as nursery:
            for kept in found:
                nursery.start_soon(kept.take().handle.aclose)

    def close(self) -> None:
        """End all idle workers, and keep none from now on."""
        self._closed = True
        for agent in tuple(self.waiting):
            self.dismiss(agent)


def _identity(frame: StartFrame, place: str) -> bytes:
    """Return a digest of everything that the attempts of a reused worker have in common.

    Fields of the work are excluded by name: a forgotten new field prevents reuse, instead of
    causing reuse with outdated data.
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
