"""The house: everything the kernel consists of, made in order of dependency. It starts nothing and decides nothing."""

import logging
import os
import random
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.agents.catalog import Catalog
from kernel.agents.environment import worker_environment
from kernel.agents.trust import Kept, TrustStore
from kernel.api.context import AttemptActivity, KernelIdentity, Services
from kernel.boot.arguments import Boot
from kernel.boot.clock import Clock
from kernel.boot.discovery_record import boot_id
from kernel.policy.scheduling import Limits
from kernel.procs.command import VersionProbes
from kernel.procs.launcher import VARIABLE, Launcher, choose_launcher
from kernel.procs.peer import is_own_child
from kernel.services.admission import Admission
from kernel.services.attempts import Attempts
from kernel.services.boundary import Boundary
from kernel.services.budgets import BudgetEnforcer
from kernel.services.completion import Completer
from kernel.services.dispatcher import Dispatcher
from kernel.services.health import LoopWatchdog, MemoryPressure, notifier_from
from kernel.services.in_flight import InFlight
from kernel.services.mirror import WAKING as MIRRORED
from kernel.services.mirror import Mirror
from kernel.services.mirror_files import MirrorFiles
from kernel.services.placeholders import Placeholders
from kernel.services.reload import Reload
from kernel.services.retention import WAKING as ENDING
from kernel.services.retention import MemorySpaceCleanup, Retention
from kernel.services.runs import Runs, concerns_no_run
from kernel.services.shutdown import ShutdownRequest
from kernel.services.start_frame import StartFrameBuilder
from kernel.services.timers import WAKING, Deadlines, Schedules
from kernel.services.working_directory import AttemptPaths, CliHomes, Confinement
from kernel.services.worktrees import WAKING as STOPPED
from kernel.services.worktrees import Worktrees, WorktreeSweep
from kernel.store.database import Database
from kernel.store.feed import Feed
from kernel.store.reader import Reader
from kernel.store.transaction import rfc3339
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.lease import Leased
from kernel.store.writer import Writer
from kernel.workflows.remote import Remotes
from kernel.workflows.repository import Repository
from protocol.errors import Refused
from protocol.ipc import Start
from protocol.project import ProjectDefinition, ProjectLimits
from protocol.state_paths import IN_FLIGHT, PLACEHOLDERS, RUN, SESSIONS, WORKTREES
from protocol.text import text_environment

logger = logging.getLogger(__name__)

INTERRUPT_SECONDS: Final = 2.0
"""How long a worker may take to leave that a person restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What runs, in the order in which it is started."""

    services: Services
    runs: Runs
    retention: Retention
    mirror: Mirror
    passing: MemorySpaceCleanup
    worktrees: Worktrees
    worktree_sweep: WorktreeSweep
    purse: BudgetEnforcer
    alarms: Deadlines
    timers: Schedules
    reload: Reload
    dispatcher: Dispatcher
    stopping: ShutdownRequest
    vitals: LoopWatchdog
    safe_mode: trio.Event
    """Set where nothing is to be leased."""
    machine: HostClock
    run_dir: Path
    boundary: Boundary
    in_flight: InFlight


@dataclass(frozen=True, slots=True, kw_only=True)
class _Foundation:
    """What everything else stands on."""

    boot: Boot
    environ: Mapping[str, str]
    own_bin: frozenset[str]
    clock: Clock
    feed: Feed
    reader: Reader
    writer: Writer
    catalog: Catalog
    project: ProjectDefinition
    about: KernelIdentity
    run_dir: Path
    homes: CliHomes
    kept: Kept
    in_flight: InFlight
    saved_notice: Callable[[], str | None]


def build(boot: Boot, database: Database) -> Kernel:
    """Make everything and start nothing."""
    ground = _ground(boot, database)
    purse = BudgetEnforcer(reader=ground.reader, now_ms=ground.clock.now_ms)
    launcher = choose_launcher(
        ground.environ.get(VARIABLE),
        platform=sys.platform,
        run_dir=ground.run_dir,
        environ=worker_environment(ground.environ, (), ground.own_bin),
    )
    placeholders = Placeholders(ground.catalog.root, Path(boot.arguments.state) / PLACEHOLDERS)
    confinement = Confinement(
        root=ground.catalog.root, environ=ground.environ, launcher=launcher, placeholders=placeholders
    )
    repository, trees = _worktrees(ground, launcher, confinement)
    attempts = _attempts(ground, purse, launcher, trees, confinement)
    dispatcher = _dispatcher(ground, attempts)
    mirror = _mirror(ground)
    stopping, safe_mode = ShutdownRequest(), trio.Event()
    clock, reader, writer, feed, catalog = ground.clock, ground.reader, ground.writer, ground.feed, ground.catalog
    return Kernel(
        services=replace(
            _services(ground, launcher, attempts, dispatcher, mirror, stopping, safe_mode),
            repository=repository,
            worktrees=trees.report,
            diff_stat=trees.stat,
        ),
        worktrees=trees,
        worktree_sweep=_worktree_sweep(ground, repository, trees, attempts),
        runs=Runs(reader=reader, writer=writer, wake=feed.new_wake(unless=concerns_no_run), now_ms=clock.now_ms),
        retention=Retention(
            reader=reader,
            writer=writer,
            now_ms=clock.now_ms,
            kept_seconds=lambda: catalog.project().retention,
            homes=ground.homes,
        ),
        mirror=mirror,
        passing=MemorySpaceCleanup(reader=reader, writer=writer, wake=feed.new_wake(ENDING), now_ms=clock.now_ms),
        purse=purse,
        alarms=Deadlines(
            reader=reader,
            writer=writer,
            wake=feed.new_wake(),
            now_ms=clock.now_ms,
            starvation_ms=int(ground.project.starvation * 1000),
        ),
        timers=_timers(ground),
        reload=Reload(catalog=catalog, reader=reader, writer=writer),
        dispatcher=dispatcher,
        stopping=stopping,
        vitals=LoopWatchdog(notifier=notifier_from(ground.environ, ground.about.pid), now=time.monotonic),
        safe_mode=safe_mode,
        machine=HostClock(boot_id(), clock.offset_ms),
        run_dir=ground.run_dir,
        boundary=Boundary(writer=writer, stopping=stopping, now_ms=clock.now_ms),
        in_flight=ground.in_flight,
    )


def _ground(boot: Boot, database: Database) -> _Foundation:
    clock, feed = Clock(), Feed()
    catalog = Catalog(Path(boot.arguments.project))
    # Ours as far as it is text. The rest is left out for everybody, and told of.
    environ, left_out = text_environment(os.environ)
    for name in left_out:
        logger.warning("environment.left_out %s is not UTF-8: no agent, tool or git of this kernel gets it", name)
    host, port = boot.listener.getsockname()[:2]
    return _Foundation(
        boot=boot,
        environ=environ,
        own_bin=frozenset({os.path.dirname(sys.executable)}),
        clock=clock,
        feed=feed,
        reader=Reader(database=database),
        writer=Writer(database=database, clock_ms=clock.now_ms, publish=feed.publish),
        catalog=catalog,
        project=catalog.project(),
        about=KernelIdentity(
            pid=os.getpid(), url=f"http://{host}:{port}", version=boot.version, project=boot.arguments.project
        ),
        run_dir=Path(boot.arguments.state) / RUN,
        homes=CliHomes(Path(boot.arguments.state) / SESSIONS),
        kept=TrustStore(boot.arguments.state, boot.arguments.project),
        in_flight=InFlight(Path(boot.arguments.state) / IN_FLIGHT),
        saved_notice=database.saved_notice,
    )


def _worktrees(ground: _Foundation, launcher: Launcher, confinement: Confinement) -> tuple[Repository, Worktrees]:
    environ, own_bin, root = ground.environ, ground.own_bin, ground.catalog.root
    place = Path(ground.boot.arguments.state) / WORKTREES
    repository = Repository(root, place, launcher=launcher, environ=environ, own_bin=own_bin)
    trees = Worktrees(
        root=root,
        repository=repository,
        reader=ground.reader,
        writer=ground.writer,
        feed=ground.feed,
        launcher=launcher,
        environ=environ,
        own_bin=own_bin,
        confine=partial(confinement.of_tree, hidden=_folders(ground).hidden),
    )
    return repository, trees


def _folders(ground: _Foundation) -> AttemptPaths:
    return AttemptPaths(state=Path(ground.boot.arguments.state), home=Path(ground.boot.arguments.home))


def _worktree_sweep(ground: _Foundation, repository: Repository, trees: Worktrees, attempts: Attempts) -> WorktreeSweep:
    return WorktreeSweep(
        repository=repository,
        trees=trees,
        reader=ground.reader,
        writer=ground.writer,
        wake=ground.feed.new_wake(STOPPED),
        works_in=lambda run: any(live.leased.run == run for live in attempts.live.values()),
    )


def _timers(ground: _Foundation) -> Schedules:
    return Schedules(
        reader=ground.reader,
        writer=ground.writer,
        catalog=ground.catalog,
        wake=ground.feed.new_wake(WAKING),
        now_ms=ground.clock.now_ms,
        wall_ms=ground.clock.wall_ms,
        local=ground.environ.get("TZ"),
        trusted=ground.boot.arguments.trusted,
        kept=ground.kept,
        consents=Path(ground.boot.arguments.state),
    )


def _attempts(
    ground: _Foundation, purse: BudgetEnforcer, launcher: Launcher, trees: Worktrees, confinement: Confinement
) -> Attempts:
    clock = ground.clock

    async def prepare(leased: Leased, start: Start) -> None:
        if start.sandbox is not None:
            await confinement.ready(leased.attempt, start.sandbox)
        await trees.ready(leased, confined=start.sandbox is not None)

    return Attempts(
        writer=ground.writer,
        reader=ground.reader,
        feed=ground.feed,
        launcher=launcher,
        admission=Admission(reader=ground.reader, purse=purse, now_ms=clock.now_ms),
        purse=purse,
        briefings=StartFrameBuilder(
            catalog=ground.catalog,
            reader=ground.reader,
            environ=ground.environ,
            own_bin=ground.own_bin,
            url=f"{ground.about.url}/mcp",
            trusted=ground.boot.arguments.trusted,
            folders=_folders(ground),
            kept=ground.kept,
            ground=trees.ground,
            confine=confinement.of,
        ),
        prepare=prepare,
        working=ground.in_flight.working,
        over=lambda leased: confinement.over(leased.attempt),
        books=Completer(writer=ground.writer, now_ms=clock.now_ms, jitter=random.SystemRandom().random),
        now_text=lambda: rfc3339(clock.now_ms()),
    )


def _dispatcher(ground: _Foundation, attempts: Attempts) -> Dispatcher:
    limits = ground.project.limits
    return Dispatcher(
        reader=ground.reader,
        wake=ground.feed.new_wake(),
        attempts=attempts,
        limits=_limits(limits),
        pressed=partial(MemoryPressure(clock=time.monotonic).pressed, limits.memory_reserve),
        now_ms=ground.clock.now_ms,
    )


def _services(
    ground: _Foundation,
    launcher: Launcher,
    attempts: Attempts,
    dispatcher: Dispatcher,
    mirror: Mirror,
    stopping: ShutdownRequest,
    safe_mode: trio.Event,
) -> Services:
    boot = ground.boot
    return Services(
        writer=ground.writer,
        reader=ground.reader,
        feed=ground.feed,
        catalog=ground.catalog,
        launcher=launcher,
        probes=VersionProbes(launcher, ground.run_dir),
        environ=ground.environ,
        token=boot.token,
        trusted=boot.arguments.trusted,
        kept=ground.kept,
        remotes=Remotes(
            Path(ground.boot.arguments.state),
            ground.catalog.root,
            launcher=launcher,
            environ=ground.environ,
            own_bin=ground.own_bin,
        ),
        about=ground.about,
        now_ms=ground.clock.now_ms,
        salt=partial(secrets.token_hex, 16),
        uptime_seconds=partial(_since, time.monotonic()),
        activity=lambda: {
            name: AttemptActivity(pid=live.pid, doing=live.doing) for name, live in attempts.live.items()
        },
        reached=attempts.reached,
        hold=attempts.hold,
        runs_client=partial(is_own_child, server_port=boot.listener.getsockname()[1], pid=ground.about.pid),
        interrupt=lambda agent: attempts.stop_agent(agent, "restarted", INTERRUPT_SECONDS),
        ready=lambda: dispatcher.running,
        safe_mode=safe_mode.is_set,
        saved_notice=ground.saved_notice,
        closing=stopping.closing,
        shutdown=stopping.ask,
        stopping=stopping.begun,
        own_bin=ground.own_bin,
        mirror_redo=mirror.redo,
        forget_homes=ground.homes.forget,
    )


def _mirror(ground: _Foundation) -> Mirror:
    def conversations() -> bool:
        try:
            return ground.catalog.project().conversations
        except Refused:
            return ground.project.conversations

    return Mirror(
        reader=ground.reader,
        writer=ground.writer,
        wake=ground.feed.new_wake(MIRRORED),
        files=MirrorFiles(ground.about.project),
        conversations=conversations,
    )


def _limits(limits: ProjectLimits) -> Limits:
    per = limits.per_provider
    if isinstance(per, dict):
        return Limits(limits.workers, per)
    return Limits(limits.workers, each_provider=per)


def _since(start: float) -> float:
    return time.monotonic() - start
