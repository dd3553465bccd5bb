"""Supervision of a kernel: stop requests, idle exit, restarts of services, and the project folder.

A failed service is restarted after a delay and within a budget, so that its failure ends neither the kernel nor
running work. A service that keeps failing stops the kernel in order: workers are asked to leave, and the log names the
service and the error.

``InFlight`` records in a file the instructions that the kernel itself is processing, in case one of them crashes it:
while a frame of the worker is handled, while the prompt is built, and while the outcome is written. An instruction
whose worker waits for a model or a tool is not recorded, because it cannot have caused a crash. The record is in
memory pages that survive a killed process; after a power failure it may be empty, so no instruction is charged.
"""

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Final

import msgspec
import trio

from kernel.policy.retry import HOUR_MS, OF_SERVICES, Backoff, CrashRecord, StopAgent, after_crash
from kernel.source.safe_paths import root_fault
from kernel.store.checkup import kept_by, outstanding
from kernel.store.database import Reader
from kernel.store.schema import StorageFailed
from kernel.store.transaction import emit_log
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.names import InstructionId, instruction_id, number_of
from protocol.project import ProjectDefinition
from protocol.text import shown_name

logger = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
GRACE_SECONDS: Final = 10.0


class ShutdownSignal(msgspec.Struct, eq=False):
    """Request to stop, after which no new work starts; ``closing`` is set after the attempts have ended."""

    closing: trio.Event = msgspec.field(default_factory=trio.Event)
    _begun: trio.Event = msgspec.field(default_factory=trio.Event)
    _grace_seconds: float = GRACE_SECONDS
    _hurry: trio.Event = msgspec.field(default_factory=trio.Event)
    hands_over: bool = False
    """Another kernel process takes over, so waiting calls are not answered with an error."""
    by: str = "request"
    """First requester: a request, or the name of a signal."""

    def ask(self, grace_seconds: float = GRACE_SECONDS, by: str = "request") -> None:
        """Request a stop; the second call requests a fast one."""
        if self._begun.is_set():
            self._hurry.set()
            return
        self._grace_seconds = max(0.0, grace_seconds)
        self.by = by
        self._begun.set()

    def begun(self) -> bool:
        """Return whether a stop was requested."""
        return self._begun.is_set()

    async def asked(self) -> float:
        """Wait for the request, and return the grace period in seconds."""
        await self._begun.wait()
        return self._grace_seconds

    async def hurried(self) -> None:
        """Wait for the second request."""
        await self._hurry.wait()


async def stop_on_signals(shutdown: ShutdownSignal, early: Iterable[int] = ()) -> None:
    """Request a stop on SIGTERM and SIGINT; ignore SIGHUP of a closed terminal (fault PF19).

    ``early``: signals received before they could be handled.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with trio.open_signal_receiver(*SIGNALS) as received:
        for number in early:
            shutdown.ask(by=signal.Signals(number).name)
        async for number in received:
            name = signal.Signals(number).name
            logger.info("kernel.signal %s", name)
            shutdown.ask(by=name)


BY: Final = "idle_exit"
LONGEST_LOOK_SECONDS: Final = 30.0
SHORTEST_LOOK_SECONDS: Final = 0.2


class IdleExit(msgspec.Struct, eq=False):
    """Stops a kernel that had no work for ``idle_exit`` seconds.

    ``requests`` returns the number of open and of answered requests. ``now`` is a monotonic clock, in seconds.
    """

    reader: Reader
    shutdown: ShutdownSignal
    project: Callable[[], ProjectDefinition]
    requests: Callable[[], tuple[int, int]]
    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]] = trio.sleep
    _since: float = 0.0
    _seen: tuple[int, int] = (0, 0)
    """Newest event and number of answered requests at the last check."""

    def __post_init__(self) -> None:
        self._since = self.now()

    async def run(self) -> None:
        """Check until a shutdown was requested, or until cancelled."""
        while not self.shutdown.begun():
            await self.sleep(await self.look())

    async def look(self) -> float:
        """Request a shutdown if the kernel was idle for long enough, and return the seconds until the next check.

        An event or a request since the last check restarts the idle time.
        """
        project = self.project()
        allowed = project.idle_exit
        if allowed is None:
            self._since = self.now()
            return LONGEST_LOOK_SECONDS
        try:
            found = await self.reader.read(outstanding)
        except Refused as refused:
            logger.warning("kernel.idle_unknown %s", refused.text)
            return LONGEST_LOOK_SECONDS
        being_answered, answered = self.requests()
        seen = (found.event, answered)
        if seen != self._seen or kept_by(found, requests=being_answered, hooks=bool(project.hooks)) is not None:
            self._seen, self._since = seen, self.now()
        elif self.now() - self._since >= allowed:
            logger.info("kernel.idle_exit no work for %g s; the next command that needs a kernel starts one", allowed)
            self.shutdown.ask(by=BY)
        return min(max(allowed / 10, SHORTEST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)


_JITTER: Final = 0.5
"""Fixed, because each service exists only once."""
_ERROR_LIMIT: Final = 500


class Boundary(msgspec.Struct, eq=False, kw_only=True):
    """Runs services; ``gave_up`` is the reason to end the kernel after a service has used up its restart budget."""

    writer: Writer
    shutdown: ShutdownSignal
    now_ms: Callable[[], int]
    sleep: Callable[[float], Awaitable[object]] = trio.sleep
    gave_up: str | None = None

    async def keep(
        self,
        name: str,
        service: Callable[..., Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run ``service`` until it returns, and restart it after failures.

        With a ``task_status``, the service reports its start itself. Raises StorageFailed, which no
        service can survive.
        """
        reported = _Once(task_status)
        record = CrashRecord(stepped=True)
        while True:
            try:
                if task_status is trio.TASK_STATUS_IGNORED:
                    await service()
                else:
                    await service(task_status=reported)
                return
            except Exception as error:
                if _storage_failed(error):
                    raise
                now_ms = self.now_ms()
                after = after_crash(record, now_ms, _JITTER, OF_SERVICES)
                recent = tuple(at for at in (*record.recent_ms, now_ms) if at > now_ms - HOUR_MS)
                record = CrashRecord(streak=after.streak, last_ms=now_ms, stepped=True, recent_ms=recent)
                again = after.seconds if isinstance(after, Backoff) else None
                what_follows = "giving up" if again is None else f"restarting in {again:g} s"
                logger.error("service.failed %s: %s", name, what_follows, exc_info=error)
                with suppress(Refused):
                    data = {"service": name, "error": _one_line(error), "again_seconds": again}
                    await self.writer.commit(emit_log, "kernel.service_failed", data=data)
                if isinstance(after, StopAgent):
                    reported.started()
                    self.gave_up = f"{name}: {after.reason}, last error: {_one_line(error)}"
                    logger.critical("kernel.service_gave_up %s; the kernel ends", self.gave_up)
                    self.shutdown.ask(by=f"failure of {name}")
                    return
                await self.sleep(after.seconds)


class _Once(msgspec.Struct, eq=False):
    task_status: trio.TaskStatus[None] | None

    def started(self, _value: None = None) -> None:
        task_status, self.task_status = self.task_status, None
        if task_status is not None:
            task_status.started()


def _storage_failed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_storage_failed(inner) for inner in error.exceptions)
    return isinstance(error, StorageFailed)


def _one_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return shown_name(f"{type(error).__name__}: {error}".rstrip(": "))[:_ERROR_LIMIT]


LOOK_SECONDS: Final = 5.0


async def watch_root(root: str) -> None:
    """Log when the project folder is lost and when it returns, until cancelled."""
    logged: str | None = None
    while True:
        fault = root_fault(root)
        if fault != logged:
            logger.warning("project.%s %s", "back" if fault is None else "lost", fault or root)
            logged = fault
        await trio.sleep(LOOK_SECONDS)


PLACES: Final = 512
"""Maximum recorded instructions; further ones are not charged for a crash."""
_PLACE: Final = Struct("<q")
_NOBODY: Final = 0


class InFlight:
    """In-flight record of one kernel; recovery reads the previous record before ``begin`` clears it."""

    def __init__(self, path: Path) -> None:
        self._fd: int | None = None
        self.left: frozenset[InstructionId] | None = None
        """Instructions that the previous kernel was processing when it ended; None if unknown."""
        self._free = list(range(PLACES - 1, -1, -1))
        self._at_work: dict[str, _InFlightWork] = {}
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            data = os.pread(self._fd, PLACES * _PLACE.size, 0)
            whole = data[: len(data) // _PLACE.size * _PLACE.size]
            self.left = frozenset(instruction_id(number) for (number,) in _PLACE.iter_unpack(whole) if number > _NOBODY)
        except OSError as error:
            logger.warning("in_flight.off %s: %s", path, error.strerror)

    def begin(self) -> None:
        """Clear the previous record after it was evaluated."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)

    def working(self, instruction: str) -> "_InFlightWork":
        """Return a context manager during which ``instruction`` is recorded; it may be nested."""
        return self._at_work.get(instruction) or _InFlightWork(self, instruction)

    @contextmanager
    def rest(self, instruction: str, stopped: trio.CancelScope) -> Generator[None]:
        """Enter ``stopped`` for a block in which ``instruction`` only waits, and is not recorded."""
        work = self._at_work.get(instruction)
        if work is not None:
            self.leave(work)
        try:
            with stopped:
                yield
        finally:
            if work is not None:
                self.enter(work)

    def enter(self, work: "_InFlightWork") -> None:
        """Record ``work`` if there is a free slot."""
        self._at_work[work.instruction] = work
        if self._free:
            work.place = self._free.pop()
            self._write(work.place, number_of(work.instruction, "i") or _NOBODY)

    def leave(self, work: "_InFlightWork") -> None:
        """Remove ``work`` from the record."""
        del self._at_work[work.instruction]
        if work.place is not None:
            self._write(work.place, _NOBODY)
            self._free.append(work.place)
            work.place = None

    def _write(self, place: int, number: int) -> None:
        if self._fd is None:
            return
        try:
            os.pwrite(self._fd, _PLACE.pack(number), place * _PLACE.size)
        except OSError as error:  # full disk: nothing is recorded from now on
            logger.warning("in_flight.off %s", error.strerror)
            os.close(self._fd)
            self._fd = None


class _InFlightWork(msgspec.Struct, eq=False):
    record: InFlight
    instruction: str
    _depth: int = 0
    place: int | None = None

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self.record.enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.record.leave(self)
