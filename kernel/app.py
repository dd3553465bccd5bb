"""The composition root: builds the house in order of dependency and takes it down in reverse. No logic.

flock (boot) -> database and migrations -> the dead kernel's trees are proved gone -> its work is requeued ->
launcher -> HTTP and MCP -> dispatcher. Nothing is leased before all of it stands (promises.md 4.7).
"""

import logging
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.agents.catalog import Catalog
from kernel.agents.environment import worker_environment
from kernel.agents.preload import sdks_for
from kernel.agents.registry import register
from kernel.api.context import About, Activity, Services
from kernel.api.serve import serve
from kernel.boot.arguments import Boot
from kernel.boot.clock import Clock
from kernel.boot.doorstep import Doorstep
from kernel.policy.boots import WAY_OUT
from kernel.policy.choose import Limits
from kernel.procs.launcher import VARIABLE, LauncherUnknown, choose_launcher
from kernel.procs.sweep import sweep
from kernel.services.admission import Admission
from kernel.services.alarms import Alarms
from kernel.services.attempt import Attempts
from kernel.services.books import Books
from kernel.services.briefing import Briefings
from kernel.services.dispatcher import Dispatcher
from kernel.services.memory import Memory
from kernel.services.notify import notifier_of
from kernel.services.purse import Purse
from kernel.services.retention import Retention
from kernel.services.runs import Runs
from kernel.services.stopping import Stopping, stop_on_signals
from kernel.services.timers import WAKING, Timers
from kernel.services.vitals import Vitals
from kernel.store.clock_text import rfc3339
from kernel.store.commits.boots import asked_to_stop
from kernel.store.commits.end_ephemeral import end_ephemeral
from kernel.store.commits.recover import recover
from kernel.store.database import Database, open_database
from kernel.store.errors import CannotOpen, StorageFailed
from kernel.store.feed import Feed
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.project import ProjectLimits
from protocol.state_paths import DATABASE, RUN

logger = logging.getLogger(__name__)

EX_CONFIG: Final = 78
"""sysexits.h: something was found in an unconfigured or misconfigured state."""
EX_IOERR: Final = 74
"""sysexits.h: an error occurred while doing I/O."""
LADDER_SECONDS: Final = 10.0
"""From the end of its grace until a worker's tree is gone, however it behaves (promises.md 4.6), and its end booked."""
INTERRUPT_SECONDS: Final = 2.0
"""How long a worker may take to leave that a person restarts."""


def run(boot: Boot, doorstep: Doorstep) -> int:
    """Run the kernel behind ``boot``'s door until it is stopped. Returns the exit code."""
    _warn_if_the_log_is_gone(boot)
    try:
        database = open_database(str(Path(boot.arguments.state) / DATABASE))
    except CannotOpen as error:
        return _refuse(error)
    code = 0
    try:
        trio.run(_live, build(boot, database), boot, doorstep)
    except* (Refused, LauncherUnknown) as refused:
        code = _refuse(*leaves(refused))
    except* StorageFailed as failed:
        code = _fail(*leaves(failed))
        database.keep_log()
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
    for error in errors:
        logger.critical("kernel.storage_failed %s", error)
    return EX_IOERR


def _warn_if_the_log_is_gone(boot: Boot) -> None:
    """SQLite does not miss its log: it would start from what was copied back, and say nothing (fault SF08)."""
    database = Path(boot.arguments.state) / DATABASE
    log = database.with_name(f"{database.name}-wal")
    if boot.after_death and database.exists() and not log.exists():
        logger.error("kernel.log_gone %s is not there: what the last kernel had accepted last may be lost", log)


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions of a group and of the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What runs, in the order in which it is started."""

    services: Services
    dispatcher: Dispatcher
    alarms: Alarms
    timers: Timers
    runs: Runs
    purse: Purse
    retention: Retention
    stopping: Stopping
    vitals: Vitals
    safe_mode: trio.Event
    """Set where nothing is to be leased."""
    run_dir: Path


def build(boot: Boot, database: Database) -> House:
    """Make everything and start nothing."""
    environ = dict(os.environ)
    clock = Clock()
    own_bin = frozenset({os.path.dirname(sys.executable)})
    run_dir = Path(boot.arguments.state) / RUN
    about = About(pid=os.getpid(), url=_url(boot), version=boot.version, project=boot.arguments.project)
    feed = Feed()
    reader = Reader(database=database)
    writer = Writer(database=database, clock_ms=clock.now_ms, publish=feed.publish)
    catalog = Catalog(Path(about.project))
    launcher = choose_launcher(
        environ.get(VARIABLE), platform=sys.platform, run_dir=run_dir, environ=worker_environment(environ, (), own_bin)
    )
    project = catalog.project()
    purse = Purse(reader=reader, now_ms=clock.now_ms)
    attempts = Attempts(
        writer=writer,
        reader=reader,
        feed=feed,
        launcher=launcher,
        admission=Admission(reader=reader, purse=purse, now_ms=clock.now_ms),
        purse=purse,
        briefings=Briefings(
            catalog=catalog,
            reader=reader,
            environ=environ,
            own_bin=own_bin,
            url=f"{about.url}/mcp",
            trusted=boot.arguments.trusted,
        ),
        books=Books(writer=writer, now_ms=clock.now_ms, jitter=random.SystemRandom().random),
        now_text=lambda: rfc3339(clock.now_ms()),
    )
    dispatcher = Dispatcher(
        reader=reader,
        wake=feed.new_wake(),
        attempts=attempts,
        limits=_limits(project.limits),
        pressed=partial(Memory(clock=time.monotonic).pressed, project.limits.memory_reserve),
        now_ms=clock.now_ms,
    )
    alarms = Alarms(
        reader=reader,
        writer=writer,
        wake=feed.new_wake(),
        now_ms=clock.now_ms,
        starvation_ms=int(project.starvation * 1000),
    )
    timers = Timers(
        reader=reader,
        writer=writer,
        catalog=catalog,
        wake=feed.new_wake(WAKING),
        now_ms=clock.now_ms,
        wall_ms=clock.wall_ms,
        local=environ.get("TZ"),
    )
    stopping = Stopping()
    safe_mode = trio.Event()
    services = Services(
        writer=writer,
        reader=reader,
        feed=feed,
        catalog=catalog,
        launcher=launcher,
        environ=environ,
        token=boot.token,
        trusted=boot.arguments.trusted,
        about=about,
        now_ms=clock.now_ms,
        uptime_seconds=partial(_since, time.monotonic()),
        activity=lambda: {name: Activity(pid=live.pid, doing=live.doing) for name, live in attempts.live.items()},
        interrupt=lambda agent: attempts.stop_agent(agent, "restarted", INTERRUPT_SECONDS),
        ready=lambda: dispatcher.running,
        safe_mode=safe_mode.is_set,
        closing=stopping.closing,
        shutdown=stopping.ask,
        stopping=stopping.begun,
        own_bin=own_bin,
    )
    runs = Runs(reader=reader, writer=writer, wake=feed.new_wake(), now_ms=clock.now_ms)
    return House(
        services=services,
        dispatcher=dispatcher,
        alarms=alarms,
        timers=timers,
        runs=runs,
        purse=purse,
        retention=Retention(
            reader=reader, writer=writer, now_ms=clock.now_ms, kept_seconds=lambda: catalog.project().retention
        ),
        stopping=stopping,
        vitals=Vitals(notifier=notifier_of(environ, about.pid), now=time.monotonic),
        safe_mode=safe_mode,
        run_dir=run_dir,
    )


def _limits(limits: ProjectLimits) -> Limits:
    per = limits.per_provider
    if isinstance(per, dict):
        return Limits(limits.workers, per)
    return Limits(limits.workers, each_provider=per)


async def _live(house: House, boot: Boot, doorstep: Doorstep) -> None:
    services = house.services
    house.run_dir.mkdir(mode=0o700, exist_ok=True)
    swept = await sweep(house.run_dir)
    if swept.attempts:
        logger.info("boot.swept %d attempts, survivors: %s", len(swept.attempts), swept.survivors or "none")
    async with trio.open_nursery() as storage:
        await storage.start(services.writer.run)
        recovered = await services.writer.commit(recover, pid=services.about.pid, version=services.about.version)
        if recovered.safe_mode:
            house.safe_mode.set()
        survey = await register(services.catalog, services.writer, services.reader)
        services.launcher.need(sdks_for((one.definition for one in survey.loaded), services.catalog.project()))
        async with trio.open_nursery() as processes:
            await processes.start(services.launcher.run)
            await _serve_until_stopped(house, boot, doorstep)
            processes.cancel_scope.cancel()
        services.writer.close()


async def _serve_until_stopped(house: House, boot: Boot, doorstep: Doorstep) -> None:
    async with trio.open_nursery() as rooms:
        rooms.start_soon(stop_on_signals, house.stopping)
        await rooms.start(house.vitals.run)
        doorstep.close()
        await rooms.start(_serve_to_end, house.services, boot, rooms.cancel_scope)
        if house.safe_mode.is_set():
            logger.warning("kernel.safe_mode %s", WAY_OUT)
        else:
            await rooms.start(house.runs.run)
            rooms.start_soon(house.retention.run)
            rooms.start_soon(house.purse.run)
            await rooms.start(house.alarms.run)
            await rooms.start(house.timers.run)
            await rooms.start(house.dispatcher.run)
        logger.info("kernel.ready %s", house.services.about.url)
        house.vitals.ready("safe mode" if house.safe_mode.is_set() else house.services.about.url)
        grace_seconds = await house.stopping.asked()
        house.vitals.stopping()
        rooms.start_soon(leave_at_last, house.stopping, rooms.cancel_scope, grace_seconds)
        with suppress(Refused):  # a disk that is full keeps nobody from leaving
            await house.services.writer.commit(asked_to_stop)
        await house.dispatcher.drain(grace_seconds)
        await house.services.writer.commit(end_ephemeral)
        house.stopping.closing.set()
    logger.info("kernel.stopped")


async def _serve_to_end(
    services: Services, boot: Boot, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]
) -> None:
    """The last room to be left: attempts need their MCP until they are gone."""
    await serve(services, boot.listener, task_status=task_status)
    scope.cancel()


async def leave_at_last(stopping: Stopping, scope: trio.CancelScope, grace_seconds: float) -> None:
    """Asked twice, or when every stop ladder is over: trees are killed, the next kernel takes up their work.

    What is left to wait for then, such as a disk that is full, must not keep the kernel (promise P8).
    """
    with trio.move_on_after(grace_seconds + LADDER_SECONDS):
        await stopping.hurried()
    scope.cancel()


def _since(start: float) -> float:
    return time.monotonic() - start


def _url(boot: Boot) -> str:
    host, port = boot.listener.getsockname()[:2]
    return f"http://{host}:{port}"
