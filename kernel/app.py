"""Starts the house in order of dependency and takes it down in reverse. No logic.

flock (boot) -> database and migrations -> the dead kernel's trees are proved gone -> its work is requeued ->
launcher -> HTTP and MCP -> dispatcher. Nothing is leased before all of it stands (promises.md 4.7).
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.agents.preload import sdks_for
from kernel.agents.registration import register
from kernel.api.context import Services
from kernel.api.server import serve
from kernel.boot.arguments import Boot, give_back_large_blocks, tune_gc
from kernel.boot.health_responder import HealthResponder
from kernel.policy.restart import WAY_OUT
from kernel.procs.launcher import LauncherUnknown
from kernel.procs.sweep import sweep
from kernel.services.shutdown import ShutdownRequest, stop_on_signals
from kernel.store.database import Database, open_database
from kernel.store.errors import CannotOpen, CannotSave, StorageFailed
from kernel.store.transitions.close import end_ephemeral
from kernel.store.transitions.recovery import asked_to_stop, recover
from kernel.wiring import Kernel, build
from protocol.errors import Refused
from protocol.state_paths import DATABASE

logger = logging.getLogger(__name__)

EX_CONFIG: Final = 78
"""sysexits.h: something was found in an unconfigured or misconfigured state."""
EX_SOFTWARE: Final = 70
"""sysexits.h: an internal software error."""
EX_IOERR: Final = 74
"""sysexits.h: an error occurred while doing I/O."""
LADDER_SECONDS: Final = 10.0
"""From the end of its grace until a worker's tree is gone, however it behaves (promises.md 4.6), and its end booked."""


def run(boot: Boot, doorstep: HealthResponder) -> int:
    """Run the kernel behind ``boot``'s door until it is stopped. Returns the exit code."""
    # SQLite does not miss its log: it would start from what was copied back, and say nothing (fault SF08).
    inner_database = Path(boot.arguments.state) / DATABASE
    log = inner_database.with_name(f"{inner_database.name}-wal")
    if boot.after_death and inner_database.exists() and not log.exists():
        logger.error("kernel.log_gone %s is not there: what the last kernel had accepted last may be lost", log)
    give_back_large_blocks()
    try:
        database = open_database(str(Path(boot.arguments.state) / DATABASE))
    except CannotOpen as error:
        return _refuse(error)
    saved = database.saved_notice()
    if saved is not None:
        logger.warning("kernel.saved_copy %s", saved)
    code = 0
    try:
        house = build(boot, database)
        trio.run(_live, house, boot, doorstep)
        if house.boundary.gave_up is not None:
            code = EX_SOFTWARE
    except* (Refused, LauncherUnknown) as refused:
        code = _refuse(*leaves(refused))
    except* StorageFailed as failed:
        code = _fail(*leaves(failed))
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


def _fail(*errors: BaseException) -> int:
    """The disk failed: whether the last writes last is not known, so this kernel must not go on (fault SF04)."""
    for text in dict.fromkeys(map(str, errors)):  # everybody who wanted to write was told the same
        logger.critical("kernel.storage_failed %s", text)
    return EX_IOERR


def _save(database: Database) -> None:
    """Where somebody removed the database, all that was accepted would go with this process (promise P1)."""
    try:
        copy = database.save()
    except CannotSave as error:
        logger.critical("kernel.lost what was accepted could not be copied to %s", error)
        return
    if copy is not None:
        path = database.path
        logger.critical("kernel.saved all that was accepted is in %s; to go on with it, move it to %s", copy, path)


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions of a group and of the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


async def _live(house: Kernel, boot: Boot, doorstep: HealthResponder) -> None:
    services = house.services
    house.run_dir.mkdir(mode=0o700, exist_ok=True)
    swept = await sweep(house.run_dir)
    if swept.attempts:
        logger.info("boot.swept %d attempts, survivors: %s", len(swept.attempts), swept.survivors or "none")
    async with trio.open_nursery() as storage:
        await storage.start(services.store.writer.run)
        recovered = await services.store.writer.commit(
            recover,
            pid=services.kernel.identity.pid,
            version=services.kernel.identity.version,
            machine=house.machine,
            in_flight=house.in_flight.left,
        )
        house.in_flight.begin()
        if recovered.safe_mode:
            house.safe_mode.set()
        survey = await register(services.files.catalog, services.store.writer, services.store.reader)
        services.processes.launcher.need(
            sdks_for((one.definition for one in survey.loaded), services.files.catalog.project())
        )
        async with trio.open_nursery() as processes:
            await processes.start(house.boundary.keep, "launcher", services.processes.launcher.run)
            await _serve_until_stopped(house, boot, doorstep)
            processes.cancel_scope.cancel()
        services.store.writer.close()


async def _serve_until_stopped(house: Kernel, boot: Boot, doorstep: HealthResponder) -> None:
    async with trio.open_nursery() as rooms:
        rooms.start_soon(stop_on_signals, house.stopping)
        await rooms.start(house.vitals.run)
        doorstep.close()
        await rooms.start(_serve_to_end, house.services, boot, rooms.cancel_scope)
        keep = house.boundary.keep
        await rooms.start(keep, "runs", house.runs.run)
        if house.safe_mode.is_set():
            logger.warning("kernel.safe_mode %s", WAY_OUT)
        else:
            rooms.start_soon(keep, "retention", house.retention.run)
            await rooms.start(keep, "mirror", house.mirror.run)
            rooms.start_soon(keep, "passing", house.passing.run)
            rooms.start_soon(keep, "worktrees", house.worktrees.run)
            rooms.start_soon(keep, "worktree_sweep", house.worktree_sweep.run)
            rooms.start_soon(keep, "purse", house.purse.run)
            await rooms.start(keep, "alarms", house.alarms.run)
            await rooms.start(keep, "timers", house.timers.run)
            rooms.start_soon(keep, "reload", house.reload.run)
            await rooms.start(keep, "dispatcher", partial(house.dispatcher.dispatch, rooms))
        logger.info("kernel.ready %s", house.services.kernel.identity.url)
        tune_gc()
        house.vitals.ready("safe mode" if house.safe_mode.is_set() else house.services.kernel.identity.url)
        grace_seconds = await house.stopping.asked()
        house.vitals.stopping()
        rooms.start_soon(leave_at_last, house.stopping, rooms.cancel_scope, grace_seconds)
        with suppress(Refused):  # a disk that is full keeps nobody from leaving
            wanted = house.boundary.gave_up is None
            await house.services.store.writer.commit(asked_to_stop, house.stopping.by, wanted=wanted)
        await house.dispatcher.drain(grace_seconds)
        with suppress(Refused):
            await house.services.store.writer.commit(end_ephemeral)
        house.stopping.closing.set()
    logger.info("kernel.stopped")


async def _serve_to_end(
    services: Services, boot: Boot, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]
) -> None:
    """The last room to be left: attempts need their MCP until they are gone."""
    await serve(services, boot.listener, task_status=task_status)
    scope.cancel()


async def leave_at_last(stopping: ShutdownRequest, scope: trio.CancelScope, grace_seconds: float) -> None:
    """Asked twice, or when every stop ladder is over: trees are killed, the next kernel takes up their work.

    What is left to wait for then, such as a disk that is full, must not keep the kernel (promise P8).
    """
    with trio.move_on_after(grace_seconds + LADDER_SECONDS):
        await stopping.hurried()
    scope.cancel()
