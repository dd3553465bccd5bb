"""One attempt while it runs: prepared, spawned, talked with, seen gone with its whole tree, and completed.

Straight-line on purpose. It decides nothing: what an entry is answered follows from the commit that wrote it and from
the budgets, what follows a failure from the retry policy, and the commits say whether the attempt may still write. Its
ending is written when nothing of it is left, so the next attempt of the agent never meets the last one's processes.
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
from kernel.policy.budget import Allowance, Exhausted
from kernel.policy.circuit_breaker import Endpoint, keys_of
from kernel.policy.provenance import RECORDED
from kernel.policy.scheduling import HERE
from kernel.procs.handle import TERM_SECONDS, CannotHandOver, Handle, can_be_handed_over, stop
from kernel.procs.procfs import ProcessId
from kernel.procs.spec import NodeLost, SpawnTransient
from kernel.rule.draft import Author
from kernel.services.attempt_services import AttemptServices, Conversation, StopReason
from kernel.services.completion import AttemptResult, Ending, commit_with_retry, judged, of_bug, of_lost
from kernel.services.handover import HandedAttempt, without_prompt
from kernel.services.kept_workers import KeptWorkers, Place, Worker
from kernel.services.preparation import NotHome
from kernel.services.session_pause import PausableDeadline, SessionPause
from kernel.services.start_frame import CannotStart, StartFrame
from kernel.services.worker_link import DeltaBatch, Link, PathWarnings, StderrTail, WorkerNotReading
from kernel.services.worker_reports import WorkerReports
from kernel.services.worker_session import WorkerSession
from kernel.store.attempts import narrow
from kernel.store.circuit_breakers import move_probe, probed_by
from kernel.store.errors import StorageFailed
from kernel.store.quotas import QuotaReached, tell_reached
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue
from protocol.agent import SCOPES, Restart, Retry, scopes_of
from protocol.errors import Refused
from protocol.ipc import Exited, Stop
from protocol.ndjson import LineTooLong

logger = logging.getLogger(__name__)

STARTING: Final = "waiting for its worker to start"
"""The activity that ``ps`` shows of an attempt that is leased and has no process yet."""
LEAVE_SECONDS: Final = 2.0
"""Time for a worker to leave after its last frame, and for its stderr to end after it left."""


class RunningAttempt(WorkerReports):
    """One attempt of one instruction, from its lease until its ending is written. ``run`` is its whole life.

    What its worker says is handled as ``WorkerReports`` do.
    """

    _link: Link
    _worker: Worker
    """These two, and those of ``WorkerReports``, are set once the worker is spawned, before it is heard."""

    def __init__(self, leased: Leased, token: str, services: AttemptServices, place: Place, kept: KeptWorkers) -> None:
        super().__init__(leased, services, place)
        self.processes: frozenset[ProcessId] = frozenset()
        """Of its worker's keeper and its worker, once they are there: all that it runs is below these."""
        self.cookie = ""
        """In the environment of all that it runs; empty while nothing runs here."""
        self.gone = trio.Event()
        """Nothing of it is left, and its ending is written."""
        self.deadline = PausableDeadline()
        """Stands still while calls of it are kept waiting for a person."""
        self.reached_mcp = False
        """Its token was shown at Daemon MCP."""
        self.pause = SessionPause()
        """Of its conversation, while the kernel's program is replaced."""
        self._session: WorkerSession | None = None
        """The conversation, while it lasts."""
        self._handed: HandedAttempt | None = None
        """An earlier program of this kernel has begun it."""
        self._token = token
        self._kept = kept
        self._grace_seconds = 0.0
        self._spawning = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        """Open while there is a worker that can be asked to leave."""
        self._stderr = StderrTail()
        self._retry, self._restart = Retry(), Restart()
        self._endpoint: Endpoint | None = None
        """What its agent's file says of failures, and whom it calls, once that was read."""

    @property
    def local_pid(self) -> int | None:
        """Of its worker, where that runs on this machine."""
        return self.pid if self.at.name == HERE else None

    @property
    def digest(self) -> bytes:
        """Of its token, as the store keeps it."""
        return hashlib.sha256(self._token.encode()).digest()

    # -- what others do with it --------------------------------------------------------------------------

    def stop(self, reason: StopReason, grace_seconds: float) -> None:
        """Ask the worker to leave, and have its tree killed ``grace_seconds`` later. The first reason wins."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self._grace_seconds = grace_seconds
            self._spawning.cancel()
            self.pause.release()
            if self._nursery is not None:
                self._nursery.start_soon(self._end_worker)

    @property
    def talks(self) -> bool:
        """Return whether its worker, which runs here, is talked with, and nobody has asked it to leave.

        A session with a node ends with this program: what runs there is waited for, or put back.
        """
        talked = self._session is not None and self._nursery is not None
        return talked and self.stop_reason is None and self.at.name == HERE

    @property
    def hands_over(self) -> bool:
        """Return whether it talks with a worker that another program of the kernel could go on with."""
        return self.talks and can_be_handed_over(self._handle)

    @property
    def handle(self) -> Handle | None:
        """Its worker's, once that is there."""
        return self._handle if self._nursery is not None else None

    # -- another program of the kernel goes on with it -----------------------------------------------------

    def export(self, *, standing: bool = True) -> HandedAttempt:
        """Return what the next program of the kernel needs to go on. Raises CannotHandOver. Changes nothing.

        Not ``standing`` it is a sample: how it would look about now.
        """
        session = self._session
        if session is None or (standing and not self.pause.stands) or not self.talks:
            raise CannotHandOver(f"{self.leased.attempt} is not between two frames")
        if not can_be_handed_over(self._handle):
            raise CannotHandOver(f"{self.leased.attempt} runs where nothing can be handed over")
        told = session.export()
        return HandedAttempt(
            leased=self.leased,
            token=self._token,
            provider=self._place.provider,
            needs=self._place.needs,
            frame=without_prompt(self._frame) if told.ready else self._frame,
            handle=self._handle.export(),
            line=self._link.export(),
            session=told,
            budget=self._services.budgets.export(self.leased.instruction),
            prepared=self.at.preparation.export(self.leased),
            identity=self._worker.identity,
            served=self._worker.served,
            stderr=self._stderr.kept,
            pid=self.pid,
            doing=self.doing,
            steps=self._steps,
            probing=self._probing,
            reached_mcp=self.reached_mcp,
            warned=self._path_warnings.told,
        )

    def let_go(self) -> None:
        """Touch its worker no more: the next program of the kernel has it."""
        self._handle.let_go()
        self.at.preparation.let_go(self.leased)

    def take_over(self, handed: HandedAttempt) -> None:
        """Have ``run`` go on where an earlier program of this kernel has stopped."""
        self._handed = handed
        self.processes, self.cookie = frozenset(handed.handle.processes), handed.handle.cookie
        self.pid, self.doing, self.reached_mcp = handed.pid, handed.doing, handed.reached_mcp
        self._stderr = StderrTail(kept=handed.stderr)
        self._steps, self._probing = handed.steps, handed.probing
        self._services.budgets.adopt(handed.leased, handed.frame.definition, handed.budget)
        self.at.preparation.adopt(handed.leased, handed.prepared)

    # -- its life ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the attempt until its whole tree is gone and its ending is written. Raises StorageFailed.

        Cancellation kills the tree and leaves the instruction open; the next kernel requeues it.
        """
        services, leased = self._services, self.leased
        try:
            await self._run()
        except StorageFailed:
            raise
        except Exception as error:
            logger.exception("attempt.broke %s", leased.attempt)
            self.completing = True
            await services.completer.complete(leased, of_bug(error), AttemptResult())
        finally:
            services.budgets.close(leased.instruction)
            self.at.preparation.release(leased)

    async def _run(self) -> None:
        services, leased = self._services, self.leased
        ending: Ending
        exited: Exited | None = None
        try:
            begun = await self._begin() if self._handed is None else self._resumed(self._handed)
            if begun is None:
                return
            if isinstance(begun, Ending):
                ending = begun
            else:
                async with begun.worker:
                    ending, exited = await self._supervise(begun)
        except (CannotStart, CauseError) as error:
            ending = Ending("failed", str(error), cause=error.cause)
        except SpawnTransient as error:
            ending = self._not_started(error)
        self.completing = True
        fault_point("attempt.settle")
        result = AttemptResult(
            retry=self._retry,
            restart=self._restart,
            endpoint=self._endpoint,
            exited=exited,
            stderr=self._stderr.text,
            preempted=self._preempted,
        )
        if self._place.replied:
            self._place.leave()
            await services.completer.end_behind_reply(leased, result)
        else:
            if ending.ended_as in ("done", "incomplete"):
                ending = await self._finished(ending)
            else:
                await self.at.preparation.abandon(leased)
            with services.in_flight(leased.instruction):
                await services.completer.complete(leased, ending, result)
        fault_point("attempt.settled")

    def _not_started(self, error: SpawnTransient) -> Ending:
        if isinstance(error, NodeLost) or not self.at.connected():
            return of_lost(self.at.name)
        return Ending("failed", f"the worker could not be started: {error}", cause="spawn_transient")

    async def _finished(self, ending: Ending) -> Ending:
        try:
            await self.at.preparation.finish(self.leased)
        except SpawnTransient as error:
            return self._not_started(error)
        except NotHome as error:
            return Ending("failed", str(error), cause="spawn_permanent")
        return ending

    async def _begin(self) -> Conversation | Ending | None:
        """Have a worker for it, where it may begin; None where it was put back. Raises as its steps do."""
        services, leased = self._services, self.leased
        if self.at.preparation.follows(leased):
            await self._place.free()
            await self.at.preparation.follow(leased)
        with services.in_flight(leased.instruction):
            frame = await services.start_frames.build(leased, self._token)
            self._note_policies(frame)
            admitted = await services.admission.admit(leased, frame)
        if isinstance(admitted, Requeue):
            self.completing = True
            with contextlib.suppress(Refused):  # stale: somebody ended it meanwhile
                await services.completer.put_back(leased, admitted)
            return None
        if isinstance(admitted, Ending):
            return admitted
        await self._claim_probes(frame.endpoint)
        scopes = scopes_of(frame.definition.scopes)
        if scopes != SCOPES or frame.definition.backend not in RECORDED:  # else its first entry says what it has seen
            await commit_with_retry(services.writer, narrow, leased.instruction, leased.epoch, scopes, frame.seen)
        self.at.launcher.need(frame.sdks)
        spawned = await self._spawn(frame)
        return Ending("stopped", str(self.stop_reason)) if spawned is None else self._told(*spawned, admitted)

    def _note_policies(self, frame: StartFrame) -> None:
        self._retry, self._restart = frame.definition.retry, frame.definition.restart
        self._endpoint = frame.endpoint

    def _told(self, frame: StartFrame, worker: Worker, allowance: Allowance) -> Conversation:
        """Return the conversation with a new worker: what it is told of its limits as they are now."""
        usd_left = self._services.budgets.usd_left(self.leased.instruction)
        reuse = worker.served + 1 < frame.definition.reuse
        start = msgspec.structs.replace(frame.start, allowance=allowance.tokens, budget_usd=usd_left, reuse=reuse)
        return Conversation(msgspec.structs.replace(frame, start=start), worker)

    def _resumed(self, handed: HandedAttempt) -> Conversation:
        self._note_policies(handed.frame)
        worker = self._kept.adopt(handed.handle, handed.identity, handed.served)
        worker.link.resume(handed.line)
        return Conversation(handed.frame, worker, handed.session)

    async def _claim_probes(self, endpoint: Endpoint) -> None:
        """Note which circuit breakers the first reply may close; leave to others what it was to probe and will not."""
        keys = keys_of(endpoint)
        probed = self._services.reader.now(probed_by, self.leased.agent)
        self._probing = tuple(key for key in keys if key in probed)
        if len(self._probing) < len(probed):
            await commit_with_retry(self._services.writer, move_probe, self.leased.agent, keys)

    async def _spawn(self, frame: StartFrame) -> tuple[StartFrame, Worker] | None:
        """Have a worker's process, and the frame as its place is told it; None where the attempt was stopped before.

        Raises SpawnTransient; CauseError where the working directory cannot be prepared.
        """
        start = frame.start
        worker: Worker | None = None
        with self._spawning:
            if self.stop_reason is None:
                await self._place.free()
                await self.at.preparation.prepare(self.leased, start)
                if start.command:
                    await trio.to_thread.run_sync(check_trusted_files, frame.definition, start)
                frame = msgspec.structs.replace(frame, start=self.at.relocate(start, frame.definition))
                self.doing = STARTING
                worker = await self._kept.begin(self.leased, frame, self.at)
                self.doing = ""
        return None if worker is None else (frame, worker)

    async def _supervise(self, begun: Conversation) -> tuple[Ending, Exited | None]:
        """Talk with the worker to its end, and see it leave, unless it is kept: then nothing has exited.

        Cancellation kills its tree (the worker, as a context).
        """
        instruction, frame, worker = self.leased.instruction, begun.frame, begun.worker
        limits, start, handle = frame.definition.limits, frame.start, worker.handle
        if begun.session is None and (limits.memory, limits.processes) != (None, None):
            await handle.bound(memory_bytes=limits.memory, processes=limits.processes)
        self._frame, self._handle, self._link, self._worker = frame, handle, worker.link, worker
        if self.at.name == HERE:  # another machine's numbers say nothing of processes here
            self.processes, self.cookie = handle.processes, handle.cookie
        warned = () if self._handed is None else self._handed.warned
        self._path_warnings = PathWarnings(frame.beside, start.cwd, warned)
        self._link.working = partial(self._services.in_flight, instruction)
        async with trio.open_nursery() as nursery:
            self._deltas = DeltaBatch(self._publish, nursery.start_soon)
            nursery.start_soon(self._stderr.drain, handle.stderr)
            self._nursery = nursery
            if self.stop_reason is not None:
                nursery.start_soon(self._end_worker)
            try:
                ending = await self._converse(begun)
                if self._reply is not None:
                    try:
                        await self._write_reply(*self._reply)
                    except NotHome as error:
                        if (last := self._reply[1]) is not None:
                            await self.on_entry(last)
                        ending = Ending("failed", str(error), cause="spawn_permanent")
                    except Refused as refused:
                        ending = Ending("failed", refused.text, cause="protocol")
                    except SpawnTransient as error:  # its node went, and what it did there with it
                        ending = self._not_started(error)
                await self.on_at_work()
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
        if exited is None and self.stop_reason is None and not self._stderr.text:  # nothing but bugs of ours is there
            self._place.kept = self._kept.keep(worker, self.leased, frame.definition.reuse)
        if exited is None and self._place.kept is None:
            exited = await stop(handle, grace_seconds=0.0)
        return judged(
            ending, exited, self.stop_reason, start.backend, self.at.name, reached_mcp=self.reached_mcp
        ), exited

    async def _left(self, handle: Handle, grace_seconds: float) -> Exited:
        exited = await stop(handle, grace_seconds=grace_seconds)
        if not self._stderr.ended.is_set():
            with trio.move_on_after(LEAVE_SECONDS):
                await self._stderr.ended.wait()
        return exited

    async def _converse(self, begun: Conversation) -> Ending | None:
        instruction = self.leased.instruction
        seconds_left = self._services.budgets.seconds_left(instruction)
        ending: Ending | None = None
        try:
            session = self._session = WorkerSession(
                link=self._link,
                start=begun.frame.start,
                timeouts=begun.frame.definition.timeouts,
                handlers=self,
                deadline=self.deadline,
                pause=self.pause,
                resumed=begun.session,
            )
            try:
                if seconds_left is None:
                    ending = await session.run()
                else:
                    with trio.move_on_after(max(0.0, seconds_left)) as budget:
                        ending = await session.run()
                    if budget.cancelled_caught:
                        ending = Ending("incomplete", "its budget of time is spent", cause="budget")
            finally:
                self._session = None
            self._deltas.flush()
            if ending is not None and ending.cause == "budget":
                # A started workflow waits to be continued when its budget is spent.
                left = self._services.budgets.allowance(instruction)
                if isinstance(left, Exhausted) and left.scope == "workflow":
                    return Ending("yielded", "")
            return ending
        except WorkerNotReading as error:
            gone = error.__cause__ is not None  # its input is closed: mostly it has died, and its exit says of what
            return Ending("failed", str(error), cause="protocol", leaves=gone)
        except LineTooLong as error:
            return Ending("failed", f"the prompt is too long: {error}", cause="invalid")
        except QuotaReached as reached:
            # Told to all who watch, and to the worker.
            author = Author(self.leased.instruction, self.leased.epoch)
            with contextlib.suppress(Refused):  # somebody took the instruction away: nobody asks any more
                await self._services.writer.commit(tell_reached, author, reached.quota, reached.limit)
            with contextlib.suppress(WorkerNotReading):
                await self._link.send(Stop(reason=reached.text, deadline_seconds=LEAVE_SECONDS))
            return Ending("incomplete", reached.text, cause="resource", leaves=True)
        except Refused as refused:
            return Ending("failed", refused.text, cause="protocol")

    async def _end_worker(self) -> None:
        """Ask the worker to leave, and kill its tree when its grace is over.

        One that never said ``ready`` may not speak frames at all: it is asked by SIGTERM too, so that the grace is not
        spent on a program that cannot know of it.
        """
        kill_at = trio.current_time() + self._grace_seconds
        if self.pid is None:
            await self._handle.kill(after_seconds=self._grace_seconds + TERM_SECONDS)
        # One that does not read is not waited for any longer than one that reads (promise P8).
        with contextlib.suppress(WorkerNotReading), trio.move_on_after(self._grace_seconds):
            await self._link.send(Stop(reason=str(self.stop_reason), deadline_seconds=self._grace_seconds))
        await stop(self._handle, grace_seconds=kill_at - trio.current_time())
