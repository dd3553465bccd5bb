"""A kernel without its machine: composed as kernel.app composes it, of the same services in the same order.

What it does not have: HTTP, signals, processes and a disk.
"""

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import trio

from kernel.agents.registration import register
from kernel.agents.trust import ProjectTrust, TrustedFiles
from kernel.gateway.gateway import Gateway
from kernel.operations.context import Services
from kernel.policy.scheduling import STARVATION_MS, WorkerLimits
from kernel.procs.launcher import Launcher
from kernel.services.attempts import Attempts
from kernel.services.budgets import Admission, BudgetEnforcer
from kernel.services.completion import Completer
from kernel.services.conversation import AttemptServices
from kernel.services.dispatcher import Dispatcher, leads_to_nothing
from kernel.services.model_requests import ModelGateway
from kernel.services.runs import Retention, Runs, concerns_no_run
from kernel.services.start_frame import StartFrameBuilder
from kernel.services.timers import WAKING, Deadlines, Schedules
from kernel.services.work_places import WorkPlace, WorkPlaces
from kernel.services.working_directory import AttemptPaths
from kernel.store.database import Reader
from kernel.store.feed import Feed
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.close import end_ephemeral
from kernel.store.transitions.recovery import asked_to_stop, recover
from kernel.store.writer import StoreLog
from protocol.message import Event
from tests.sim.inline import InlineWriter
from tests.sim.project_folder import ProjectFolder

if TYPE_CHECKING:
    from tests.sim.world import World


def _services(kernel: "Kernel", project_folder: ProjectFolder) -> Services:
    found = SimpleNamespace(
        store=SimpleNamespace(reader=kernel.reader, writer=kernel.writer, feed=kernel.feed, now_ms=kernel.now_ms),
        files=SimpleNamespace(catalog=project_folder.catalog),
        processes=SimpleNamespace(attempts=SimpleNamespace(hold=kernel.attempts.hold)),
    )
    return cast("Services", found)


class Kernel:
    """One life. ``run`` ends by ``stop``, or with StorageFailed where the world kills it."""

    def __init__(self, world: "World") -> None:
        """The world gives it what the product asks the machine for."""
        project_folder, feed = world.project_folder, Feed()
        chance = random.Random(world.chance.random())
        self._offset_ms = world.wall_ms() - int(trio.current_time() * 1000)

        def publish(events: Sequence[Event]) -> None:
            world.heard(events)
            feed.publish(events)

        self.feed = feed
        self.machine = HostClock("sim", self._offset_ms)
        self.reader = Reader(database=world.database)
        self.writer = InlineWriter(
            database=world.database, clock_ms=self.now_ms, publish=publish, doomed=world.doomed, inspect=world.inspector
        )
        self._launcher = world.launcher
        self._catalog = project_folder.catalog
        budgets = BudgetEnforcer(reader=self.reader, now_ms=self.now_ms)
        services = AttemptServices(
            writer=self.writer,
            reader=self.reader,
            feed=feed,
            places=WorkPlaces(WorkPlace(launcher=cast("Launcher", world.launcher))),
            admission=Admission(reader=self.reader, budgets=budgets, now_ms=self.now_ms),
            budgets=budgets,
            start_frames=StartFrameBuilder(
                files=TrustedFiles(project_folder.catalog, project_folder.environ, ProjectTrust(everything=True)),
                reader=self.reader,
                own_bin=frozenset(),
                url="http://kernel/mcp",
                paths=AttemptPaths(state=project_folder.root / ".state", home=project_folder.root / ".state"),
            ),
            completer=Completer(writer=self.writer, now_ms=self.now_ms, jitter=chance.random),
            models=ModelGateway(gateway=Gateway("http://kernel", {}, str(project_folder.root)), environ={}),
        )
        self.attempts = Attempts(services)
        self.dispatcher = Dispatcher(
            reader=self.reader,
            wake=feed.new_wake(unless=leads_to_nothing),
            attempts=self.attempts,
            limits=WorkerLimits(world.plan.workers),
            pressed=lambda: False,
            now_ms=self.now_ms,
        )
        log = StoreLog(self.reader, self.writer, self.now_ms)
        self.deadlines = Deadlines(log=log, wake=feed.new_wake(unless=leads_to_nothing), starvation_ms=STARVATION_MS)
        self.schedules = Schedules(
            log=log,
            files=TrustedFiles(project_folder.catalog, {"TZ": "UTC"}, ProjectTrust(everything=True)),
            wake=feed.new_wake(WAKING),
            wall_ms=world.wall_ms,
        )
        self.retention = Retention(log=log, kept_seconds=lambda: project_folder.catalog.project().retention)
        self.runs = Runs(log=log, wake=feed.new_wake(unless=concerns_no_run))
        self.services = _services(self, project_folder)
        self.safe_mode = False
        self._stop = trio.Event()
        self._grace_seconds = 0.0

    def now_ms(self) -> int:
        return self._offset_ms + int(trio.current_time() * 1000)

    def stop(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._stop.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Live: as kernel.app does it. Raises StorageFailed."""
        async with trio.open_nursery() as storage:
            await storage.start(self.writer.run)
            recovered = await self.writer.commit(recover, pid=1, version="sim", machine=self.machine)
            self.safe_mode = recovered.safe_mode
            await register(self._catalog, self.writer, self.reader)
            async with trio.open_nursery() as processes:
                await processes.start(self._launcher.run)
                await self._work(task_status)
                processes.cancel_scope.cancel()
            self.writer.close()

    async def _work(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as rooms:
            if not self.safe_mode:
                await rooms.start(self.runs.run)
                rooms.start_soon(self.retention.run)
                await rooms.start(self.deadlines.run)
                await rooms.start(self.schedules.run)
                await rooms.start(self.dispatcher.run)
            task_status.started()
            await self._stop.wait()
            await self.writer.commit(asked_to_stop)
            await self.dispatcher.drain(self._grace_seconds)
            await self.writer.commit(end_ephemeral)
            rooms.cancel_scope.cancel()
