"""Starts the parts of the kernel in order of dependency, and stops them in reverse order.

Order: lock (boot), database and migrations, verified exit of the previous kernel's processes, requeueing of its work,
launcher, HTTP and MCP, dispatcher. No work is leased before every part is ready.
"""

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.providers import sdks_for
from kernel.agents.registration import settle_contexts
from kernel.api.server import serve
from kernel.boot.arguments import Boot, give_back_large_blocks, tune_gc
from kernel.boot.health_responder import HealthResponder, HeldConnection
from kernel.boot.replacement import keep_signals
from kernel.operations.context import Services
from kernel.policy.retry import SAFE_MODE_NOTICE
from kernel.procs.attempt_dir import sweep
from kernel.procs.launcher import LauncherUnknown
from kernel.procs.procfs import reap
from kernel.services.handover import HandedUpgrade, KernelHandover, KernelProgram
from kernel.services.supervision import ShutdownSignal, stop_on_signals
from kernel.store.database import Database
from kernel.store.schema import CannotSave, StorageFailed
from kernel.store.transitions.close import end_ephemeral
from kernel.store.transitions.recovery import asked_to_stop, recover, settle
from kernel.wiring import Kernel, build
from protocol.errors import Refused

logger = logging.getLogger(__name__)

EX_CONFIG: Final = 78
"""sysexits.h: the configuration is missing or invalid."""
EX_SOFTWARE: Final = 70
"""sysexits.h: an internal software error."""
EX_IOERR: Final = 74
"""sysexits.h: an error occurred while doing I/O."""
LADDER_SECONDS: Final = 10.0
"""Time after the grace period that suffices to kill a worker's process tree and to store its outcome."""


NOTHING_YET: Final = KernelHandover(upgrade=HandedUpgrade(id="", before="", to="", began=0.0))


class TakenOver(NamedTuple):
    """State from which a kernel continues. ``returned``: why an upgrade failed, if the old program continues."""

    kernel: Kernel
    handover: KernelHandover
    returned: str | None = None


class Leaving(NamedTuple):
    """Result of ``run`` if another program has to replace this one and continue the kernel."""

    handover: KernelHandover
    program: KernelProgram
    listener: int
    signals: Sequence[int] = ()
    """Stop signals received since the services ended; may grow."""


def run(
    boot: Boot, database: Database, responder: HealthResponder | None, taken: TakenOver | None = None
) -> int | Leaving:
    """Run the kernel on ``boot``'s listener until it is stopped, or its process has to be
    replaced. Returns the exit code. Without ``responder`` no request has been answered yet."""
    give_back_large_blocks()
    code = 0
    try:
        kernel = build(boot, database) if taken is None else taken.kernel
        leaving = trio.run(_run_kernel, kernel, boot, responder, taken)
        if leaving is not None:
            return leaving
        if kernel.boundary.gave_up is not None:
            code = EX_SOFTWARE
    except* (Refused, LauncherUnknown) as refused:
        code = _refuse(*leaves(refused))
    except* StorageFailed as failed:
        # The last writes may not be durable, so this kernel must stop (fault SF04).
        for text in dict.fromkeys(map(str, leaves(failed))):  # all writers got the same error
            logger.critical("kernel.storage_failed %s", text)
        code = EX_IOERR
        database.keep_log()
        _save(database)
    finally:
        database.close()
    return code


def _refuse(*errors: BaseException) -> int:
    """Log why the kernel did not start; clients read the reason from the end of the log."""
    for error in errors:
        logger.error("kernel.refused %s", error)
    return EX_CONFIG


def _save(database: Database) -> None:
    """Save a database whose file was deleted, because its data would be lost with this process (promise P1)."""
    try:
        copy = database.save()
    except CannotSave as error:
        logger.critical("kernel.lost the data could not be copied to %s", error)
        return
    if copy is not None:
        path = database.path
        logger.critical("kernel.saved all data is in %s; to continue with it, move it to %s", copy, path)


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the exceptions of nested groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


async def _run_kernel(
    kernel: Kernel, boot: Boot, responder: HealthResponder | None, taken: TakenOver | None
) -> Leaving | None:
    """Recover or take over the state of the previous process, then serve. Return a Leaving for an upgrade, else None.

    The store is closed after all processes have ended, and the processes end after the services."""
    services = kernel.services
    kernel.run_dir.mkdir(mode=0o700, exist_ok=True)
    going_on = () if taken is None else tuple(attempt.handle.attempt for attempt in taken.handover.attempts)
    swept = await sweep(kernel.run_dir, beside=going_on)
    if swept.attempts:
        logger.info("boot.swept %d attempts, survivors: %s", len(swept.attempts), swept.survivors or "none")
    kernel.logins.settle()
    leaving: list[Leaving] = []
    async with trio.open_nursery() as storage:
        await storage.start(kernel.writer.run)
        if taken is None:
            await _recover(kernel, boot)
        else:
            await _take_over(kernel, taken.handover)
        kernel.in_flight.begin()
        scan = await kernel.reload.start()
        await settle_contexts(services.files.contexts, services.store.reader)
        services.processes.launcher.need(
            sdks_for((one.definition for one in scan.loaded), services.files.catalog.project())
        )
        async with trio.open_nursery() as processes:
            await processes.start(kernel.boundary.keep, "launcher", services.processes.launcher.run)
            if taken is not None:
                processes.start_soon(reap, taken.handover.children)
            await _serve_until_stopped(kernel, boot, responder, taken, leaving)
            processes.cancel_scope.cancel()
        kernel.writer.close()
    return leaving[0] if leaving else None


async def _recover(kernel: Kernel, boot: Boot) -> None:
    identity = kernel.services.kernel.identity
    recovered = await kernel.writer.commit(
        recover,
        pid=identity.pid,
        version=identity.version,
        machine=kernel.host_clock,
        in_flight=kernel.in_flight.left,
        kept_by=None if boot.kept_by is None else boot.kept_by._asdict(),
    )
    if recovered.died and boot.kept_by is not None:
        logger.warning("kernel.restarted %s", boot.kept_by.notice)
    if recovered.safe_mode:
        kernel.safe_mode.set()


async def _take_over(kernel: Kernel, handover: KernelHandover) -> None:
    """Take over the work of the previous process. Only attempts that were just ending have to be recovered."""
    kernel.upgrade.take_over(handover)
    going_on = [attempt.leased.instruction for attempt in handover.attempts]
    left = await kernel.writer.commit(settle, going_on, kernel.services.kernel.identity.term)
    if left:
        logger.info("upgrade.put_back %s", ", ".join(left))
    if handover.safe_mode:
        kernel.safe_mode.set()


async def _serve_until_stopped(
    kernel: Kernel, boot: Boot, responder: HealthResponder | None, taken: TakenOver | None, leaving: list[Leaving]
) -> None:
    """Start the services in order, wait for the request to stop, and end the work.

    If the process's program is replaced, attempts continue, and ``leaving`` receives the handover.
    """
    waiting = [] if responder is None else responder.close()
    if taken is not None:
        kernel.services.kernel.gateway.hold(checks=True)
        waiting += [HeldConnection(socket.socket(fileno=fd), begun) for fd, begun in taken.handover.connections]
    kept = keep_signals()  # for signals that stop_on_signals does not handle
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_on_signals, kernel.shutdown, chain(boot.early_signals, kept))
        await nursery.start(kernel.watchdog.run)
        end = partial(_end_services, kernel, nursery.cancel_scope, leaving)
        await nursery.start(_serve_to_end, kernel.services, boot, waiting, end)
        await _start_services(kernel, nursery)
        logger.info("kernel.ready %s", kernel.services.kernel.identity.url)
        if taken is not None:
            kernel.services.kernel.gateway.release()
            logger.info("kernel.took_over waited %.3f s", await kernel.upgrade.finish(taken.returned))
        tune_gc()
        kernel.watchdog.ready("safe mode" if kernel.safe_mode.is_set() else kernel.services.kernel.identity.url)
        grace_seconds = await _until_stopped(kernel)
        if grace_seconds is None:
            await kernel.upgrade.retire(kernel.standby.leave())
            kernel.shutdown.hands_over = True
            leaving.append(Leaving(NOTHING_YET, kernel.upgrade.program, os.dup(boot.listener.fileno()), kept))
            kernel.shutdown.closing.set()
            return
        kernel.watchdog.stopping()
        nursery.start_soon(cancel_at_last, kernel.shutdown, nursery.cancel_scope, grace_seconds)
        with suppress(Refused):  # a full disk must not prevent the stop
            wanted = kernel.boundary.gave_up is None
            await kernel.services.store.writer.commit(asked_to_stop, kernel.shutdown.by, wanted=wanted)
        await kernel.dispatcher.drain(grace_seconds)
        with suppress(Refused):
            await kernel.services.store.writer.commit(end_ephemeral)
        await settle_contexts(kernel.services.files.contexts, kernel.services.store.reader)
        await kernel.traces.flush()
        await kernel.standby.flush()
        kernel.shutdown.closing.set()
    if not leaving:
        logger.info("kernel.stopped")


async def _start_services(kernel: Kernel, nursery: trio.Nursery) -> None:
    for service in (*kernel.always, *(() if kernel.safe_mode.is_set() else kernel.working)):
        if service.starts:
            await nursery.start(kernel.boundary.keep, service.name, service.run)
        else:
            nursery.start_soon(kernel.boundary.keep, service.name, service.run)
    if kernel.safe_mode.is_set():
        logger.warning("kernel.safe_mode %s", SAFE_MODE_NOTICE)
        return
    await nursery.start(kernel.boundary.keep, "dispatcher", partial(kernel.dispatcher.dispatch, nursery))


async def _until_stopped(kernel: Kernel) -> float | None:
    grace: list[float] = []
    async with trio.open_nursery() as nursery:

        async def stopped() -> None:
            grace.append(await kernel.shutdown.asked())
            nursery.cancel_scope.cancel()

        nursery.start_soon(stopped)
        await kernel.upgrade.leaving.wait()
        nursery.cancel_scope.cancel()
    return grace[0] if grace else None


def _end_services(kernel: Kernel, scope: trio.CancelScope, leaving: list[Leaving]) -> None:
    """End all services after the last request was answered, and add the handover with the final
    state to ``leaving``."""
    if leaving:
        signals = (signal.SIGTERM,) if kernel.shutdown.begun() else ()
        handover = kernel.upgrade.hand_over(signals)
        waiting = tuple(kernel.services.kernel.gateway.released)
        leaving[0] = leaving[0]._replace(handover=msgspec.structs.replace(handover, connections=waiting))
    scope.cancel()


async def _serve_to_end(
    services: Services,
    boot: Boot,
    waiting: list[HeldConnection],
    end: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Serve until the last attempt has ended, because attempts need MCP; then end all other services."""
    await serve(services, boot.listener, waiting, task_status=task_status)
    end()


async def cancel_at_last(shutdown: ShutdownSignal, scope: trio.CancelScope, grace_seconds: float) -> None:
    """Kill all process trees after a second stop request or after all grace periods; the next
    kernel continues the work.

    No other condition, such as a full disk, must keep the kernel running (promise P8)."""
    with trio.move_on_after(grace_seconds + LADDER_SECONDS):
        await shutdown.hurried()
    scope.cancel()
