"""Composition root: creates all parts of a kernel in order of dependency, without starting any."""

import hashlib
import logging
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.boot.arguments import Boot
from kernel.boot.discovery_record import boot_id
from kernel.boot.replacement import patience
from kernel.foundation import Foundation, foundation_of
from kernel.git.branches import Branches
from kernel.git.runner import ProjectGit
from kernel.operations.context import (
    AttemptActivity,
    AttemptControl,
    KernelControl,
    KernelNumbers,
    KernelState,
    Keys,
    MemoryAccess,
    NodeAccess,
    ProcessControl,
    ProjectFiles,
    Services,
    StoreAccess,
    TreeServices,
)
from kernel.operations.node_door import NodeDoor
from kernel.operations.workflows import start_for_rules
from kernel.procs.command import VersionProbes
from kernel.procs.procfs import is_own_child
from kernel.services import landings, mirror, node_cleanup, recall, telemetry, timers, webhooks, worktrees
from kernel.services.attempts import Attempts
from kernel.services.budgets import Admission, BudgetEnforcer
from kernel.services.completion import Completer
from kernel.services.conversation import AttemptServices
from kernel.services.dispatcher import Dispatcher, leads_to_nothing, limits_of
from kernel.services.embeddings import EmbeddingClient, EmbeddingProcess
from kernel.services.handover import KernelProgram, try_version
from kernel.services.health import LoopWatchdog, MemoryPressure, notifier_from
from kernel.services.kept_workers import KeptWorkers
from kernel.services.landings import Landings
from kernel.services.logins import Logins
from kernel.services.mirror import Mirror
from kernel.services.mirror_files import DocumentFiles, MirrorFiles
from kernel.services.model_choice import ModelChooser
from kernel.services.model_requests import ModelGateway
from kernel.services.node_cleanup import NodeCleanup
from kernel.services.node_connection import session_with
from kernel.services.node_trees import FilesOnNodes, NodeTrees
from kernel.services.nodes import Nodes, NodeScaling
from kernel.services.prune import Prune
from kernel.services.recall import Recall
from kernel.services.reload import Reload
from kernel.services.runs import Retention, Runs, concerns_no_run
from kernel.services.standby import Standby
from kernel.services.start_frame import FOLDER, CallCommand, StartFrameBuilder
from kernel.services.supervision import Boundary, IdleExit, InFlight, ShutdownSignal, watch_root
from kernel.services.telemetry import EventCounters, Traces
from kernel.services.timers import Deadlines, Schedules
from kernel.services.tree_work import AttemptPreparation, TreeWork, WorkChecks
from kernel.services.upgrade import Upgrade
from kernel.services.webhooks import Webhooks
from kernel.services.work_places import WorkPlace, WorkPlaces
from kernel.services.working_directory import AttemptPaths, Confinement, Placeholders
from kernel.services.worktrees import Worktrees, WorktreeSweep
from kernel.source.safe_paths import keep_root, root_fault
from kernel.store.database import Database
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.writer import Writer
from kernel.workflows.remote import Remotes
from protocol.discovery import PLACEHOLDERS, RUN, WORKTREES
from protocol.errors import Refused

logger = logging.getLogger(__name__)

INTERRUPT_SECONDS: Final = 2.0
"""Time that a worker has to exit when a person restarts its agent."""


class KernelService(NamedTuple):
    """Service that runs until the kernel ends; ``starts``: the kernel waits until the service reports its start."""

    name: str
    run: Callable[..., Awaitable[None]]
    starts: bool = False


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Running parts of a kernel."""

    services: Services
    writer: Writer
    """Writer of the store, which runs as long as any other part."""
    run_dir: Path
    in_flight: InFlight
    host_clock: HostClock
    safe_mode: trio.Event
    """Set in safe mode, in which no work is leased."""
    shutdown: ShutdownSignal
    boundary: Boundary
    watchdog: LoopWatchdog
    always: tuple[KernelService, ...]
    """Services that also run in safe mode, in the order of their start."""
    working: tuple[KernelService, ...]
    """Other services; the dispatcher starts after them."""
    logins: Logins
    reload: Reload
    dispatcher: Dispatcher
    traces: Traces
    standby: Standby
    upgrade: Upgrade


def build(boot: Boot, database: Database) -> Kernel:
    """Create all parts without starting any."""
    base = foundation_of(boot, database)
    log, feed, clock, catalog, writer = base.log, base.feed, base.clock, base.catalog, base.log.writer
    keep_root(str(catalog.root))
    budgets, door, identity = BudgetEnforcer(reader=log.reader, now_ms=clock.now_ms), NodeDoor(), base.identity
    nodes, trees, tree_work, checks, attempts, cleanup = _attempts(base, budgets, door)
    queue, wake = _landings(base, trees), feed.new_wake(worktrees.WAKING)
    dispatcher, files_mirror = _dispatcher(base, attempts), _mirror(base)
    asking, found_again, memory = _memory(base)
    sweep = WorktreeSweep(repository=base.repository, trees=trees, log=log, wake=wake, works_in=attempts.works_in)
    standby = Standby(log=log, files=base.files, database=database.path, state_dir=base.state_dir, term=identity.term)
    watchdog = LoopWatchdog(notifier=notifier_from(base.environ, identity.pid), now=time.monotonic)
    reload, shutdown, safe_mode = Reload(catalog=catalog, log=log), ShutdownSignal(), trio.Event()
    upgrade = Upgrade(
        attempts=attempts,
        dispatcher=dispatcher,
        spawns=base.launcher,
        gateway=base.gateway,
        writer=writer,
        version=boot.version,
        safe_mode=safe_mode,
        trial=partial(try_version, patience_seconds=patience(), environ=base.trial_env),
        installed=KernelProgram(sys.executable, boot.arguments.words),
    )
    tree_services = TreeServices(diffs=trees, work=tree_work, removal=sweep, checks=checks, repository=base.repository)
    traces_out = Traces(log=log, files=base.files, wake=feed.new_wake(telemetry.WAKING), project=identity.project)
    control = KernelControl(
        identity=identity,
        keys=Keys(boot.token, boot.record_token),
        state=_state(boot, database, dispatcher, safe_mode, standby),
        rules=base.rules,
        numbers=_numbers(base, watchdog, os.path.dirname(database.path)),
        shutdown=shutdown,
        upgrade=upgrade,
        gateway=base.gateway,
    )
    services = Services(
        store=StoreAccess(
            writer=writer,
            append=dispatcher.append,
            reader=log.reader,
            feed=feed,
            mirror=files_mirror,
            homes=base.homes,
            now_ms=clock.now_ms,
            salt=partial(secrets.token_hex, 16),
        ),
        files=_project_files(base, tree_services, reload),
        processes=_process_control(base, attempts, queue, sweep),
        kernel=control,
        memory=memory,
        nodes=NodeAccess(nodes, door),
    )
    followers, alarms = _followers(base, files_mirror, services)
    return Kernel(
        writer=writer,
        services=services,
        run_dir=base.state_dir / RUN,
        in_flight=base.in_flight,
        host_clock=HostClock(boot_id(), clock.offset_ms),
        safe_mode=safe_mode,
        shutdown=shutdown,
        boundary=Boundary(writer=writer, shutdown=shutdown, now_ms=clock.now_ms),
        watchdog=watchdog,
        always=(
            KernelService("runs", Runs(log=log, wake=feed.new_wake(unless=concerns_no_run)).run, starts=True),
            KernelService("standby", standby.run),
            KernelService("project root", partial(watch_root, str(catalog.root))),
            KernelService("upgrade", upgrade.run),
        ),
        working=(
            KernelService("mirror", files_mirror.run, starts=True),
            KernelService("recall", found_again.run),
            KernelService("embeddings", asking.run),
            KernelService("worktrees", trees.run),
            KernelService("worktree_sweep", sweep.run),
            KernelService("landings", queue.run),
            KernelService("guard", base.guard.run),
            KernelService("logins", base.logins.run),
            KernelService("budgets", budgets.run),
            *followers,  # before nodes: webhooks report events of nodes
            KernelService("nodes", nodes.run, starts=True),
            KernelService("node_cleanup", cleanup.run),
            KernelService("traces", traces_out.run, starts=True),
            *alarms,
            KernelService(
                "idle_exit",
                IdleExit(log.reader, shutdown, catalog.kept_project, control.numbers.requests.told, time.monotonic).run,
            ),
            KernelService("reload", reload.run),
        ),
        logins=base.logins,
        reload=reload,
        dispatcher=dispatcher,
        traces=traces_out,
        standby=standby,
        upgrade=upgrade,
    )


def _followers(
    base: Foundation, files_mirror: Mirror, services: Services
) -> tuple[tuple[KernelService, ...], tuple[KernelService, ...]]:
    log, files, feed = base.log, base.files, base.feed
    hooks = Webhooks(
        log=log,
        files=files,
        wake=feed.new_wake(webhooks.WAKING),
        url=base.identity.url,
        project=hashlib.sha256(base.identity.project.encode()).hexdigest()[:8],
    )
    deadlines = Deadlines(
        log=log, wake=feed.new_wake(unless=leads_to_nothing), starvation_ms=int(base.project.starvation * 1000)
    )
    schedules = Schedules(
        log=log, files=files, wake=feed.new_wake(timers.WAKING), wall_ms=base.clock.wall_ms, trust_dir=base.state_dir
    )
    retained = Retention(
        log=log, kept_seconds=lambda: base.catalog.project().retention, homes=base.homes, redo=files_mirror.redo
    )
    planned = feed.new_wake(frozenset({"workflow.changed"}))
    return (
        KernelService("rule_starts", partial(timers.reconcile, planned, partial(start_for_rules, services))),
        KernelService("retention", retained.run),
        KernelService("webhooks", hooks.run, starts=True),
    ), (KernelService("deadlines", deadlines.run, starts=True), KernelService("schedules", schedules.run, starts=True))


def _memory(base: Foundation) -> tuple[EmbeddingProcess, Recall, MemoryAccess]:
    asking = EmbeddingProcess(base.launcher, base.worker_env.copy)
    vectors = EmbeddingClient(
        files=base.files, asking=asking, gateway=base.gateway, state_dir=base.state_dir, now=time.monotonic
    )
    history = Recall(
        path=str(base.state_dir / recall.FILE), log=base.log, wake=base.feed.new_wake(recall.WAKING), embeddings=vectors
    )
    access = MemoryAccess(
        history=history,
        vectors=vectors,
        derived=(history,),
        prompts=base.memories,
        souls=base.guard.souls,
        trays=base.guard,
        guard=base.guard,
    )
    return asking, history, access


def _state(
    boot: Boot, database: Database, dispatcher: Dispatcher, safe_mode: trio.Event, standby: Standby
) -> KernelState:
    began = time.monotonic()
    return KernelState(
        uptime_seconds=lambda: time.monotonic() - began,
        ready=lambda: dispatcher.running,
        safe_mode=safe_mode.is_set,
        saved_notice=database.saved_notice,
        restart_notice=None if boot.kept_by is None else boot.kept_by.notice,
        standby=standby.state,
    )


def _numbers(base: Foundation, watchdog: LoopWatchdog, folder: str) -> KernelNumbers:
    def free_bytes() -> int:
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize

    return KernelNumbers(
        counters=EventCounters(base.log),
        commits=base.log.writer.commits,
        turns=watchdog.ticks.turns,
        retention_seconds=lambda: base.catalog.kept_project().retention,
        free_bytes=free_bytes,
    )


def _attempts(
    base: Foundation, budgets: BudgetEnforcer, door: NodeDoor
) -> tuple[Nodes, Worktrees, TreeWork, WorkChecks, Attempts, NodeCleanup]:
    clock, catalog, reader, writer = base.clock, base.catalog, base.log.reader, base.log.writer
    paths = AttemptPaths(state=base.state_dir, home=Path(base.boot.arguments.home))
    command = CallCommand(str(base.state_dir / FOLDER), base.identity.url)
    command.install()
    confinement = Confinement(
        root=catalog.root,
        environ=base.environ,
        launcher=base.launcher,
        placeholders=Placeholders(catalog.root, base.state_dir / PLACEHOLDERS),
        commands=(command.folder,),
        contexts=catalog.outside_contexts,
    )
    trees = Worktrees(
        root=catalog.root,
        repository=base.repository,
        log=base.log,
        feed=base.feed,
        launcher=base.launcher,
        confine=partial(confinement.of_tree, hidden=paths.hidden),
    )
    work = TreeWork(trees=trees, branches=Branches(base.repository), reader=reader, writer=writer)
    checks = WorkChecks(
        root=catalog.root,
        trees=trees,
        reader=reader,
        confinement=confinement,
        hidden=paths.hidden,
        launcher=base.launcher,
        env=base.worker_env,
        away=work.away,
    )
    start_frames = StartFrameBuilder(
        files=base.files,
        reader=reader,
        own_bin=base.own_bin,
        url=f"{base.identity.url}/mcp",
        paths=paths,
        memories=base.memories,
        relevant=lambda leased, stopped, guard: partial(
            base.guard.relevant, leased, base.in_flight.rest(leased.instruction, stopped), guard
        ),
        working_directory=trees.working_directory,
        confine=confinement.of,
        call_command=command,
        choose=ModelChooser(reader=reader, writer=writer, environ=base.files.environ, now_ms=clock.now_ms).choose,
    )
    nodes = Nodes(
        log=base.log,
        files=base.files,
        state_dir=base.state_dir,
        new_session=partial(session_with, base.identity.term, door.enter),
        chance=random.SystemRandom().random,
        scaling=NodeScaling(reader, clock.now_ms),
    )
    node_trees = NodeTrees(
        root=catalog.root, repository=base.repository, trees=trees, work=work, reader=reader, writer=writer
    )
    services = AttemptServices(
        writer=writer,
        reader=reader,
        feed=base.feed,
        places=WorkPlaces(
            WorkPlace(
                launcher=base.launcher,
                preparation=AttemptPreparation(trees=trees, work=work, confinement=confinement, logins=base.logins),
            ),
            nodes,
            FilesOnNodes(node_trees, nodes),
        ),
        start_frames=start_frames,
        admission=Admission(reader=reader, budgets=budgets, now_ms=clock.now_ms),
        budgets=budgets,
        completer=Completer(writer=writer, now_ms=clock.now_ms, jitter=random.SystemRandom().random),
        models=ModelGateway(gateway=base.gateway, environ=base.environ),
        in_flight=base.in_flight.working,
    )
    attempts = Attempts(services, KeptWorkers(base.state_dir / RUN))
    nodes.running = lambda: Counter(attempt.leased.node for attempt in attempts.running.values())
    wake = base.feed.new_wake(node_cleanup.WAKING)
    nodes.watch(wake.set)
    return nodes, trees, work, checks, attempts, NodeCleanup(node_trees, nodes, wake, attempts.works_in)


def _landings(base: Foundation, trees: Worktrees) -> Landings:
    return Landings(
        root=base.catalog.root,
        git=ProjectGit(
            base.state_dir / WORKTREES / landings.PLACE,
            launcher=base.launcher,
            environ=base.environ,
            own_bin=base.own_bin,
        ),
        repository=base.repository,
        box=partial(trees.box, gone=True),
        log=base.log,
        wake=base.feed.new_wake(landings.WAKING),
        launcher=base.launcher,
    )


def _dispatcher(base: Foundation, attempts: Attempts) -> Dispatcher:
    limits = base.project.limits
    wake = base.feed.new_wake(unless=leads_to_nothing)
    return Dispatcher(
        reader=base.log.reader,
        wake=wake,
        attempts=attempts,
        search=attempts.node_search(base.clock.now_ms, wake.set),
        limits=limits_of(limits),
        pressed=partial(MemoryPressure(clock=time.monotonic).pressed, limits.memory_reserve),
        now_ms=base.clock.now_ms,
        asking=base.guard.asking,
        project_fault=partial(root_fault, str(base.catalog.root)),
    )


def _mirror(base: Foundation) -> Mirror:
    def conversations() -> bool:
        try:
            return base.catalog.project().conversations
        except Refused:
            return base.project.conversations

    return Mirror(
        log=base.log,
        wake=base.feed.new_wake(mirror.WAKING),
        files=MirrorFiles(base.identity.project),
        conversations=conversations,
        document_files=DocumentFiles(base.identity.project),
    )


def _project_files(base: Foundation, worktrees: TreeServices, reload: Reload) -> ProjectFiles:
    return ProjectFiles(
        catalog=base.catalog,
        contexts=base.contexts,
        definitions=reload.current,
        trust=base.files.trust,
        remotes=Remotes(
            base.state_dir, base.catalog.root, launcher=base.launcher, environ=base.environ, own_bin=base.own_bin
        ),
        worktrees=worktrees,
        environ=base.environ,
        own_bin=base.own_bin,
    )


def _process_control(base: Foundation, attempts: Attempts, queue: Landings, sweep: WorktreeSweep) -> ProcessControl:
    port = base.boot.listener.getsockname()[1]
    prune = Prune(
        base.state_dir, base.log.reader, base.log.writer, sweep, lambda: bool(attempts.running), base.clock.wall_ms
    )
    return ProcessControl(
        launcher=base.launcher,
        probes=VersionProbes(base.launcher, base.state_dir / RUN),
        attempts=AttemptControl(
            activity=lambda: {
                instruction: AttemptActivity(
                    pid=attempt.local_pid,
                    doing=attempt.doing,
                    model=attempt.model,
                    elapsed=attempt.elapsed,
                    leased=attempt.leased,
                )
                for instruction, attempt in attempts.running.items()
            },
            interrupt=lambda agent: attempts.stop_agent(agent, "restarted", INTERRUPT_SECONDS),
            hold=attempts.hold,
            until_gone=attempts.until_gone,
            reached=attempts.reached_mcp,
            calling=attempts.calling,
            kept=lambda: {
                agent: AttemptActivity(pid=kept.worker.handle.pid, doing=kept.doing)
                for agent, kept in attempts.kept.waiting.items()
            },
        ),
        runs_client=partial(is_own_child, server_port=port, pid=base.identity.pid, beside=attempts.processes),
        landings=queue,
        prune=prune.prune,
    )
