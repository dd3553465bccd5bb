"""A running attempt: prepare, spawn, converse, wait for the exit of its process tree, and complete.

The code is deliberately linear and decides nothing: commits and budgets determine the answer to an entry, the retry
policy determines what follows a failure, and each commit checks whether the attempt may still write. The outcome is
written after all processes have exited, so that the agent's next attempt never meets them.
"""

import contextlib
import hashlib
import logging
from functools import partial
from typing import Final

import msgspec
import trio

from kernel.agents.backends import check_trusted_files
from kernel.agents.providers import CauseError
from kernel.fault_injection import fault_point
from kernel.policy.budget import Allowance
from kernel.policy.circuit_breaker import ModelEndpoint, keys_of
from kernel.policy.provenance import RECORDED
from kernel.policy.scheduling import HERE
from kernel.procs.handle import TERM_SECONDS, CannotHandOver, Handle, can_be_handed_over, stop
from kernel.procs.procfs import ProcessId
from kernel.procs.spec import SpawnTransient
from kernel.services.completion import AttemptOutcome, AttemptResult, commit_with_retry, final_outcome
from kernel.services.conversation import AttemptServices, StopReason, WorkerConversation, not_started, publish
from kernel.services.handover import HandedAttempt, without_prompt
from kernel.services.kept_workers import LEAVE_SECONDS, KeptWorkers, WorkerPlace, WorkerProcess
from kernel.services.model_requests import ModelRequests
from kernel.services.preparation import NotHome
from kernel.services.start_frame import CannotStart, StartFrame
from kernel.services.work_places import WorkPlace
from kernel.services.worker_link import (
    DeltaBatch,
    Elapsed,
    PathWarnings,
    PausableDeadline,
    SessionPause,
    WorkerNotReading,
    WorkerStderr,
)
from kernel.store.attempts import narrow
from kernel.store.circuit_breakers import move_probe, probed_by
from kernel.store.schema import StorageFailed
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue
from protocol.agent import SCOPES, Restart, Retry, scopes_of
from protocol.backends import ACP
from protocol.errors import Refused
from protocol.ipc import Exited, Stop

logger = logging.getLogger(__name__)

STARTING: Final = "waiting for its worker to start"
"""Activity that ``ps`` shows for a leased attempt without a process."""

Begun = tuple[StartFrame, WorkerProcess]


class RunningAttempt(msgspec.Struct, eq=False):
    """Attempt of an instruction, from its lease until its outcome is written; ``run`` is its complete life."""

    __repr__ = object.__repr__  # the default shows the token
    leased: Leased
    token: str
    services: AttemptServices
    place: WorkerPlace
    kept: KeptWorkers
    at: WorkPlace
    requests: ModelRequests
    """Its model requests through the gateway."""
    stop_reason: StopReason | None = None
    processes: frozenset[ProcessId] = frozenset()
    """The worker and its keeper, once started; all other processes are below them."""
    cookie: str = ""
    """Random value in the environment of all its processes; empty while none runs here."""
    gone: trio.Event = msgspec.field(default_factory=trio.Event)
    """Set when all processes have exited and the outcome is written."""
    deadline: PausableDeadline = msgspec.field(default_factory=PausableDeadline)
    """Paused while calls of the attempt wait for a person."""
    reached_mcp: bool = False
    """The attempt has connected to Daemon MCP."""
    pause: SessionPause = msgspec.field(default_factory=SessionPause)
    _talk: WorkerConversation | None = None
    _handed: HandedAttempt | None = None
    """State from the previous kernel process that started the attempt."""
    _starts: bool = False
    _ends: bool = False
    _probing: tuple[str, ...] = ()
    _grace_seconds: float = 0.0
    _asking: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _spawning: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _nursery: trio.Nursery | None = None
    _stderr: WorkerStderr = msgspec.field(default_factory=WorkerStderr)
    _frame: StartFrame | None = None
    """Start frame, once built; its definition has the failure settings."""

    @property
    def pid(self) -> int | None:
        """Return the process id of the worker, once it is ready."""
        source = self._talk or self._handed
        return None if source is None else source.pid

    @property
    def local_pid(self) -> int | None:
        """Return the process id of the worker if it runs on this machine."""
        return self.pid if self.at.name == HERE else None

    @property
    def model(self) -> str:
        """Return its model as written; "" while it is unknown."""
        return "" if self._frame is None else self._frame.definition.first_model

    @property
    def doing(self) -> str:
        """Return the activity that ``ps`` shows."""
        source = self._talk or self._handed
        return source.doing if source is not None else STARTING if self._starts else ""

    @property
    def elapsed(self) -> Elapsed | None:
        """Return its times; None while no worker is connected."""
        return None if self._talk is None or self._talk.session is None else self._talk.session.elapsed()

    @property
    def completing(self) -> bool:
        """Return whether the outcome is being written, so that the attempt can no longer be stopped."""
        return self._ends or (self._talk is not None and self._talk.reply is not None)

    @property
    def digest(self) -> bytes:
        """Return the digest of the token, as stored."""
        return hashlib.sha256(self.token.encode()).digest()

    def stop(self, reason: StopReason, grace_seconds: float) -> None:
        """Ask the worker to leave, and kill its tree after ``grace_seconds``; the first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._grace_seconds = grace_seconds
            self._asking.cancel()
            self._spawning.cancel()
            self.pause.release()
            if self._nursery is not None and self._talk is not None:
                self._nursery.start_soon(self._end_worker, self._talk.worker)

    @property
    def talks(self) -> bool:
        """Return whether its local worker is in a conversation and was not asked to leave.

        A session with a node ends with this process: attempts there are waited for or requeued.
        """
        talked = self._talk is not None and self._talk.session is not None and self._nursery is not None
        return talked and self.stop_reason is None and self.at.name == HERE

    @property
    def hands_over(self) -> bool:
        """Return whether its worker can be handed over to the next kernel process."""
        return self.talks and self.handle is not None and can_be_handed_over(self.handle)

    @property
    def handle(self) -> Handle | None:
        """Return the handle of its worker, once started."""
        return None if self._talk is None or self._nursery is None else self._talk.worker.handle

    def export(self, *, standing: bool = True) -> HandedAttempt:
        """Return the state for the next kernel process; no side effects. Raises CannotHandOver.

        With ``standing`` False, the conversation need not be paused, and the state is only a sample.
        """
        talk = self._talk
        if talk is None or talk.session is None or (standing and not self.pause.stands) or not self.talks:
            raise CannotHandOver(f"{self.leased.attempt} is not paused between two frames")
        if not can_be_handed_over(talk.worker.handle):
            raise CannotHandOver(f"{self.leased.attempt} runs on a node, whose attempts cannot be handed over")
        told, worker = talk.session.export(), talk.worker
        return HandedAttempt(
            leased=self.leased,
            token=self.token,
            placeholder=self.requests.placeholder,
            provider=self.place.provider,
            needs=self.place.needs,
            frame=without_prompt(talk.frame) if told.ready else talk.frame,
            handle=worker.handle.export(),
            line=worker.link.export(),
            session=told,
            budget=self.services.budgets.export(self.leased.instruction),
            prepared=self.at.preparation.export(self.leased),
            identity=worker.identity,
            served=worker.served,
            stderr=self._stderr.kept,
            pid=talk.pid,
            doing=talk.doing,
            steps=talk.steps,
            probing=talk.probing,
            reached_mcp=self.reached_mcp,
            warned=talk.path_warnings.told,
        )

    def let_go(self) -> None:
        """Release the worker, which the next kernel process owns."""
        if self._talk is not None:
            self._talk.worker.handle.let_go()
        self.at.preparation.let_go(self.leased)

    def take_over(self, handed: HandedAttempt) -> None:
        """Adopt the state from the previous kernel process; ``run`` continues from there."""
        self._handed, self.requests.placeholder = handed, handed.placeholder
        self.processes, self.cookie = frozenset(handed.handle.processes), handed.handle.cookie
        self.reached_mcp = handed.reached_mcp
        self._stderr = WorkerStderr(kept=handed.stderr)
        self._probing = handed.probing
        self.services.budgets.adopt(handed.leased, handed.frame.definition, handed.budget)
        self._admit(handed.frame)
        self.at.preparation.adopt(handed.leased, handed.prepared)

    async def run(self) -> None:
        """Run the attempt until its process tree has exited and its outcome is written. Raises StorageFailed.

        Cancellation kills the tree and leaves the instruction open; the next kernel requeues it.
        """
        services, leased = self.services, self.leased
        try:
            await self._run()
        except StorageFailed:
            raise
        except Exception as error:
            logger.exception("attempt.broke %s", leased.attempt)
            self._ends = True
            text = f"the kernel failed in this attempt ({type(error).__name__}); see kernel.log"
            outcome = AttemptOutcome("failed", text, cause="crash", ours=True)
            await services.completer.complete(leased, outcome, AttemptResult())
        finally:
            services.models.gateway.dismiss(leased.attempt)
            services.budgets.close(leased.instruction)
            self.at.preparation.release(leased)

    async def _run(self) -> None:
        services, leased = self.services, self.leased
        ending: AttemptOutcome
        exited: Exited | None = None
        try:
            begun = await self._begin() if self._handed is None else self._resumed(self._handed)
            if begun is None:
                return
            if isinstance(begun, AttemptOutcome):
                ending = begun
            else:
                async with begun[1]:
                    ending, exited = await self._supervise(*begun)
                if self._frame is not None and self._frame.grants:
                    await self.requests.dismiss()
        except (CannotStart, CauseError) as error:
            ending = AttemptOutcome("failed", str(error), cause=error.cause)
        except SpawnTransient as error:
            ending = not_started(self.at, error)
        self._ends = True
        fault_point("attempt.settle")
        frame = self._frame
        result = AttemptResult(
            retry=Retry() if frame is None else frame.definition.retry,
            restart=Restart() if frame is None else frame.definition.restart,
            endpoint=None if frame is None else frame.endpoint,
            choice=None if frame is None else frame.choice,
            exited=exited,
            stderr=self._stderr.text,
            preempted=self._talk is not None and self._talk.preempted,
        )
        if self.place.replied:
            self.place.leave()
            await services.completer.end_behind_reply(leased, result)
        else:
            if ending.ended_as in ("done", "incomplete"):
                ending = await self._finished(ending)
            else:
                await self.at.preparation.abandon(leased)
            with services.in_flight(leased.instruction):
                await services.completer.complete(leased, ending, result)
        fault_point("attempt.settled")

    async def _finished(self, ending: AttemptOutcome) -> AttemptOutcome:
        try:
            await self.at.preparation.finish(self.leased)
        except SpawnTransient as error:
            return not_started(self.at, error)
        except NotHome as error:
            return AttemptOutcome("failed", str(error), cause="spawn_permanent")
        return ending

    async def _begin(self) -> Begun | AttemptOutcome | None:
        """Start a worker if admitted; return an outcome if not, None if the work was requeued."""
        services, leased = self.services, self.leased
        if self.at.preparation.follows(leased):
            await self.place.free()
            await self.at.preparation.follow(leased)
        with services.in_flight(leased.instruction):
            build = services.start_frames.build
            frame = self._frame = await build(leased, self.token, self.requests.placeholder, self._asking)
            admitted = await services.admission.admit(leased, frame)
        if isinstance(admitted, Requeue):
            self._ends = True
            with contextlib.suppress(Refused):  # stale: the instruction was ended meanwhile
                await services.completer.put_back(leased, admitted)
            return None
        if isinstance(admitted, AttemptOutcome):
            return admitted
        if admitted.tokens is not None and frame.definition.backend == ACP and not frame.grants:
            text = "token usage cannot be metered, so a token budget cannot be enforced"
            hint = "set a wall_time limit instead, or choose another backend"
            return AttemptOutcome("failed", f"{frame.start.command[0]}: {text}: {hint}", cause="invalid")
        self._admit(frame)
        await self._claim_probes(frame.endpoint)
        scopes = scopes_of(frame.definition.scopes)
        # Otherwise its first entry records the trust of the texts that it has seen.
        if scopes != SCOPES or frame.definition.backend not in RECORDED:
            await commit_with_retry(services.writer, narrow, leased.instruction, leased.epoch, scopes, frame.seen)
        self.at.launcher.need(frame.sdks)
        return await self._spawn(frame, admitted) or AttemptOutcome("stopped", str(self.stop_reason))

    def _admit(self, frame: StartFrame) -> None:
        if frame.grants:
            project = self.services.start_frames.files.catalog.kept_project()
            self.requests.admit(frame, project, self.services.completer.now_ms)

    def _resumed(self, handed: HandedAttempt) -> Begun:
        self._frame = handed.frame
        worker = self.kept.adopt(handed.handle, handed.identity, handed.served)
        worker.link.resume(handed.line)
        return handed.frame, worker

    async def _claim_probes(self, endpoint: ModelEndpoint) -> None:
        """Record which circuit breakers the first reply may close; release other probes."""
        keys = keys_of(endpoint)
        probed = self.services.reader.now(probed_by, self.leased.agent)
        self._probing = tuple(key for key in keys if key in probed)
        if len(self._probing) < len(probed):
            await commit_with_retry(self.services.writer, move_probe, self.leased.agent, keys)

    async def _spawn(self, frame: StartFrame, allowance: Allowance) -> Begun | None:
        """Spawn a worker; return None if the attempt was stopped before. Raises SpawnTransient, CauseError."""
        start = frame.start
        worker: WorkerProcess | None = None
        with self._spawning:
            if self.stop_reason is None:
                await self.place.free()
                await self.at.preparation.prepare(self.leased, start)
                if start.command:
                    await trio.to_thread.run_sync(check_trusted_files, frame.definition, start)
                frame = msgspec.structs.replace(frame, start=self.at.relocate(start, frame.definition))
                self._starts = True
                worker = await self.kept.begin(self.leased, frame, self.at)
                self._starts = False
        if worker is None:
            return None
        # The frame has the current limits.
        usd_left = self.services.budgets.usd_left(self.leased.instruction)
        reuse = worker.served + 1 < frame.reuse
        start = msgspec.structs.replace(frame.start, allowance=allowance.tokens, budget_usd=usd_left, reuse=reuse)
        return msgspec.structs.replace(frame, start=start), worker

    async def _supervise(self, frame: StartFrame, worker: WorkerProcess) -> tuple[AttemptOutcome, Exited | None]:
        """Converse with the worker, and wait for its exit unless it is kept idle."""
        limits, start, handle, handed = frame.definition.limits, frame.start, worker.handle, self._handed
        if handed is None and (limits.memory, limits.processes) != (None, None):
            await handle.bound(memory_bytes=limits.memory, processes=limits.processes)
        if self.at.name == HERE:  # process ids of another machine are not valid here
            self.processes, self.cookie = handle.processes, handle.cookie
        worker.link.working = partial(self.services.in_flight, self.leased.instruction)
        async with trio.open_nursery() as nursery:
            talk = self._talk = WorkerConversation(
                leased=self.leased,
                services=self.services,
                place=self.place,
                at=self.at,
                frame=frame,
                worker=worker,
                deltas=DeltaBatch(partial(publish, self.services, self.leased), nursery.start_soon),
                path_warnings=PathWarnings(frame.beside, start.cwd, () if handed is None else handed.warned),
                deadline=self.deadline,
                pause=self.pause,
                stop_reason=lambda: self.stop_reason,
                requests=self.requests,
                probing=self._probing,
            )
            if handed is not None:
                talk.pid, talk.doing, talk.steps = handed.pid, handed.doing, handed.steps
            nursery.start_soon(self._stderr.drain, handle.stderr)
            if frame.grants:
                nursery.start_soon(self.requests.book_late)
            self._nursery = nursery
            if self.stop_reason is not None:
                nursery.start_soon(self._end_worker, worker)
            try:
                ending = await talk.converse(None if handed is None else handed.session)
                fault_point("attempt.result")
                done = start.reuse and ending is not None and ending.ended_as == "done"
                if done and self.stop_reason is None and await worker.stays():
                    exited = None
                else:
                    leaves = ending is None or ending.leaves or self.stop_reason is not None
                    exited = await self._left(handle, LEAVE_SECONDS if leaves else 0.0)
            finally:
                self._nursery = None
            nursery.cancel_scope.cancel()
        # Only a kernel bug would reuse a worker with errors.
        if exited is None and self.stop_reason is None and not self._stderr.text:
            self.place.kept = self.kept.keep(worker, self.leased, frame.reuse)
        if exited is None and self.place.kept is None:
            exited = await stop(handle, grace_seconds=0.0)
        return final_outcome(
            ending, exited, self.stop_reason, start.backend, self.at.name, reached_mcp=self.reached_mcp
        ), exited

    async def _left(self, handle: Handle, grace_seconds: float) -> Exited:
        exited = await stop(handle, grace_seconds=grace_seconds)
        if not self._stderr.ended.is_set():
            with trio.move_on_after(LEAVE_SECONDS):
                await self._stderr.ended.wait()
        return exited

    async def _end_worker(self, worker: WorkerProcess) -> None:
        """Ask the worker to leave, and kill its tree after the grace period."""
        kill_at = trio.current_time() + self._grace_seconds
        await self.requests.book()  # its processes may take long to exit
        if self.pid is None:
            # Without ``ready``, it may not understand frames: SIGTERM saves the grace period.
            await worker.handle.kill(after_seconds=self._grace_seconds + TERM_SECONDS)
        # a worker that does not read gets no more time than others (promise P8)
        with contextlib.suppress(WorkerNotReading), trio.move_on_after(self._grace_seconds):
            await worker.link.send(Stop(reason=str(self.stop_reason), deadline_seconds=self._grace_seconds))
        await stop(worker.handle, grace_seconds=kill_at - trio.current_time())
