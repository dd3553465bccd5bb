"""Starts the kernel's parts in order of dependency and stops them in reverse. No logic.

flock (boot) -> database and migrations -> the dead kernel's trees are proved gone -> its work is requeued ->
launcher -> HTTP and MCP -> dispatcher. Nothing is leased before all of it stands.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from kernel.agents.providers import sdks_for
from kernel.agents.registration import settle_contexts
from kernel.api.context import Services
from kernel.api.server import serve
from kernel.boot.arguments import Boot, give_back_large_blocks, tune_gc
from kernel.boot.health_responder import HealthResponder, Held
from kernel.policy.restart import WAY_OUT
from kernel.procs.launcher import LauncherUnknown
from kernel.procs.sweep import sweep
from kernel.services.shutdown import ShutdownRequest, stop_on_signals
from kernel.store.database import Database
from kernel.store.errors import CannotSave, StorageFailed
from kernel.store.transitions.close import end_ephemeral
from kernel.store.transitions.recovery import asked_to_stop, recover
from kernel.wiring import Kernel, build
from protocol.errors import Refused

logger = logging.getLogger(__name__)

EX_CONFIG: Final = 78
"""sysexits.h: something was found in an unconfigured or misconfigured state."""
EX_SOFTWARE: Final = 70
"""sysexits.h: an internal software error."""
EX_IOERR: Final = 74
"""sysexits.h: an error occurred while doing I/O."""
LADDER_SECONDS: Final = 10.0
"""From the end of its grace until a worker's tree is gone, however it behaves, and its ending is written."""


def run(boot: Boot, database: Database, responder: HealthResponder) -> int:
    """Run the kernel behind ``boot``'s listener until it is stopped. Returns the exit code."""
    give_back_large_blocks()
    code = 0
    try:
        kernel = build(boot, database)
        trio.run(_run_kernel, kernel, boot, responder)
        if kernel.boundary.gave_up is not None:
            code = EX_SOFTWARE
    except* (Refused, LauncherUnknown) as refused:
        code = _refuse(*leaves(refused))
    except* StorageFailed as failed:
        # It is not known whether the last writes last, so this kernel must not go on (fault SF04).
        for text in dict.fromkeys(map(str, leaves(failed))):  # everybody who wanted to write was told the same
            logger.critical("kernel.storage_failed %s", text)
        code = EX_IOERR
        database.keep_log()
        _save(database)
    finally:
        database.close()
    return code


def _refuse(*errors: BaseException) -> int:
    """Say on standard error why nothing was started; the words reach whoever asked through the log's tail."""
    for error in errors:
        logger.error("kernel.refused %s", error)
    return EX_CONFIG


def _save(database: Database) -> None:
    """Save a database that somebody removed: else all that was accepted would go with this process (promise P1)."""
    try:
        copy = database.save()
    except CannotSave as error:
        logger.critical("kernel.lost what was accepted could not be copied to %s", error)
        return
    if copy is not None:
        path = database.path
        logger.critical("kernel.saved all that was accepted is in %s; to go on with it, move it to %s", copy, path)


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the exceptions of a group and of the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


async def _run_kernel(kernel: Kernel, boot: Boot, responder: HealthResponder) -> None:
    """Recover what the last kernel left, then serve. The store outlives the processes, and these the services."""
    services = kernel.services
    kernel.run_dir.mkdir(mode=0o700, exist_ok=True)
    swept = await sweep(kernel.run_dir)
    if swept.attempts:
        logger.info("boot.swept %d attempts, survivors: %s", len(swept.attempts), swept.survivors or "none")
    kernel.logins.settle()
    async with trio.open_nursery() as storage:
        await storage.start(kernel.writer.run)
        recovered = await services.store.writer.commit(
            recover,
            pid=services.kernel.identity.pid,
            version=services.kernel.identity.version,
            machine=kernel.host_clock,
            in_flight=kernel.in_flight.left,
            kept_by=None if boot.kept_by is None else boot.kept_by._asdict(),
        )
        if recovered.died and boot.kept_by is not None:
            logger.warning("kernel.restarted %s", boot.kept_by.notice)
        kernel.in_flight.begin()
        if recovered.safe_mode:
            kernel.safe_mode.set()
        scan = await kernel.reload.start()
        await settle_contexts(services.files.contexts, services.store.reader)
        services.processes.launcher.need(
            sdks_for((one.definition for one in scan.loaded), services.files.catalog.project())
        )
        async with trio.open_nursery() as processes:
            await processes.start(kernel.boundary.keep, "launcher", services.processes.launcher.run)
            await _serve_until_stopped(kernel, boot, responder)
            processes.cancel_scope.cancel()
        kernel.writer.close()


async def _serve_until_stopped(kernel: Kernel, boot: Boot, responder: HealthResponder) -> None:
    """Start the services in order, wait for the request to stop, and end the work."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_on_signals, kernel.shutdown, boot.early_signals)
        await nursery.start(kernel.watchdog.run)
        await nursery.start(_serve_to_end, kernel.services, boot, responder.close(), nursery.cancel_scope)
        keep = kernel.boundary.keep
        await nursery.start(keep, "runs", kernel.runs.run)
        nursery.start_soon(keep, "standby", kernel.standby.run)
        if kernel.safe_mode.is_set():
            logger.warning("kernel.safe_mode %s", WAY_OUT)
        else:
            nursery.start_soon(keep, "retention", kernel.retention.run)
            await nursery.start(keep, "mirror", kernel.mirror.run)
            nursery.start_soon(keep, "recall", kernel.recall.run)
            nursery.start_soon(keep, "embeddings", kernel.embeddings.run)
            nursery.start_soon(keep, "passing", kernel.memory_spaces.run)
            nursery.start_soon(keep, "worktrees", kernel.worktrees.run)
            nursery.start_soon(keep, "worktree_sweep", kernel.worktree_sweep.run)
            nursery.start_soon(keep, "landings", kernel.landings.run)
            nursery.start_soon(keep, "guard", kernel.guard.run)
            nursery.start_soon(keep, "logins", kernel.logins.run)
            nursery.start_soon(keep, "purse", kernel.budgets.run)
            await nursery.start(keep, "webhooks", kernel.webhooks.run)
            await nursery.start(keep, "traces", kernel.traces.run)
            await nursery.start(keep, "alarms", kernel.deadlines.run)
            await nursery.start(keep, "timers", kernel.schedules.run)
            nursery.start_soon(keep, "reload", kernel.reload.run)
            nursery.start_soon(keep, "idle_exit", kernel.idle_exit.run)
            await nursery.start(keep, "dispatcher", partial(kernel.dispatcher.dispatch, nursery))
        logger.info("kernel.ready %s", kernel.services.kernel.identity.url)
        tune_gc()
        kernel.watchdog.ready("safe mode" if kernel.safe_mode.is_set() else kernel.services.kernel.identity.url)
        grace_seconds = await kernel.shutdown.asked()
        kernel.watchdog.stopping()
        nursery.start_soon(cancel_at_last, kernel.shutdown, nursery.cancel_scope, grace_seconds)
        with suppress(Refused):  # a disk that is full keeps nobody from leaving
            wanted = kernel.boundary.gave_up is None
            await kernel.services.store.writer.commit(asked_to_stop, kernel.shutdown.by, wanted=wanted)
        await kernel.dispatcher.drain(grace_seconds)
        with suppress(Refused):
            await kernel.services.store.writer.commit(end_ephemeral)
        await settle_contexts(kernel.services.files.contexts, kernel.services.store.reader)
        await kernel.traces.flush()
        await kernel.standby.flush()
        kernel.shutdown.closing.set()
    logger.info("kernel.stopped")


async def _serve_to_end(
    services: Services,
    boot: Boot,
    waiting: list[Held],
    scope: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Serve until the last attempt is gone, since attempts need their MCP; then end all other services."""
    await serve(services, boot.listener, waiting, task_status=task_status)
    scope.cancel()


async def cancel_at_last(shutdown: ShutdownRequest, scope: trio.CancelScope, grace_seconds: float) -> None:
    """Kill all trees when asked twice, or when every stop ladder is over; the next kernel takes up their work.

    What is left to wait for then, such as a disk that is full, must not keep the kernel (promise P8).
    """
    with trio.move_on_after(grace_seconds + LADDER_SECONDS):
        await shutdown.hurried()
    scope.cancel()
