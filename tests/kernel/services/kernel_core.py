"""The kernel's core on a real store, with a launcher that starts nothing: the test plays the workers."""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import trio
import trio.testing

from kernel.agents.catalog import Catalog
from kernel.agents.registration import register
from kernel.agents.trust import ProjectTrust, TrustedFiles
from kernel.gateway.gateway import Gateway
from kernel.policy.scheduling import WorkerLimits
from kernel.procs.launcher import Launcher
from kernel.procs.procfs import ProcessId
from kernel.procs.spec import Spec
from kernel.rule.draft import Draft
from kernel.services.attempts import Attempts
from kernel.services.budgets import Admission, BudgetEnforcer
from kernel.services.completion import Completer
from kernel.services.conversation import AttemptServices
from kernel.services.dispatcher import Dispatcher, leads_to_nothing
from kernel.services.model_choice import ModelChooser
from kernel.services.model_requests import ModelGateway
from kernel.services.start_frame import StartFrameBuilder
from kernel.services.supervision import InFlight
from kernel.services.timers import Deadlines
from kernel.services.work_places import WorkPlace, WorkPlaces
from kernel.services.working_directory import AttemptPaths
from kernel.store import instructions
from kernel.store.database import Reader
from kernel.store.feed import Feed
from kernel.store.transitions.append import append
from kernel.store.writer import StoreLog, Writer
from protocol.ipc import Exited, KernelFrame, Ping, Ready, WorkerFrame
from protocol.ndjson import FrameReader, Noise, encode
from protocol.trust import Grant
from tests.kernel.store.migrated import open_migrated
from tests.shorthand import running


class PlayedWorker:
    """A handle without a process. The test says what the worker says, and when it is gone."""

    def __init__(self) -> None:
        self.stdin, self.inbox = trio.testing.memory_stream_one_way_pair()
        self.outbox, self.stdout = trio.testing.memory_stream_one_way_pair()
        self.complaints, self.stderr = trio.testing.memory_stream_one_way_pair()
        self.pid = 4711
        self.cookie = "c" * 32
        self.processes: frozenset[ProcessId] = frozenset()
        self.signals: list[int] = []
        self._gone = trio.Event()
        self._exited = Exited(code=0)
        self._frames: FrameReader[KernelFrame] = FrameReader(KernelFrame)
        self._heard: deque[KernelFrame | Noise] = deque()

    async def say(self, *frames: WorkerFrame) -> None:
        """Write frames, beginning with ``ready``."""
        for frame in (Ready(pid=self.pid, version="t"), *frames):
            await self.outbox.send_all(encode(frame))

    async def hear(self) -> KernelFrame:
        """The next frame it is sent, but for pings."""
        with trio.fail_after(20):
            while not self._heard:
                self._heard.extend(frame for frame in self._frames.feed(bytes(await self.inbox.receive_some())))
            frame = self._heard.popleft()
            assert not isinstance(frame, Noise)
            return await self.hear() if isinstance(frame, Ping) else frame

    async def finish(self, *frames: WorkerFrame) -> None:
        """Say ``frames``, and leave as a worker does that has said all."""
        await self.say(*frames)
        await self.leave(Exited(code=0))

    async def leave(self, exited: Exited) -> None:
        """Be gone, with the whole tree."""
        self._exited = exited
        self._gone.set()
        await self.outbox.aclose()
        await self.complaints.aclose()

    async def wait(self) -> Exited:
        await self._gone.wait()
        return self._exited

    async def kill(self, after_seconds: float = 0.0) -> None:
        """As the real one: nothing withstands it."""
        await self.leave(Exited(signal=9, killed=True))

    async def destroy(self) -> Exited:
        await self.kill()
        return self._exited

    async def signal(self, number: int) -> None:
        """As the real one; what came is kept."""
        self.signals.append(number)
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> "PlayedWorker":
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await self.kill()


@dataclass
class PlayedLauncher:
    """Hands out workers that the test plays. ``hangs``: spawn never answers."""

    hangs: bool = False
    spawned: list[PlayedWorker] = field(default_factory=list)
    arrived: trio.Event = field(default_factory=trio.Event)

    def need(self, modules: frozenset[str]) -> None:
        """Nothing is preloaded."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Nothing to run."""
        task_status.started()

    async def spawn(self, spec: Spec) -> PlayedWorker:
        if self.hangs:
            self.arrived.set()
            await trio.sleep_forever()
        worker = PlayedWorker()
        self.spawned.append(worker)
        self.arrived.set()
        return worker

    async def next(self, number: int = 1) -> PlayedWorker:
        """The worker that was started as the ``number``-th, once there is one."""
        with trio.fail_after(20):
            while len(self.spawned) < number:
                self.arrived = trio.Event()
                await self.arrived.wait()
        await trio.testing.wait_all_tasks_blocked()
        return self.spawned[number - 1]


class Core:
    """What a test holds in its hands."""

    def __init__(self, root: Path, launcher: PlayedLauncher, places: WorkPlaces | None = None) -> None:
        self.now_ms = 1_000_000
        self.launcher = launcher
        self.kept: list[Grant] = []
        self.database = open_migrated(str(root / "agent-worker.db"))
        feed = Feed()
        self.feed = feed
        self.gateway = Gateway("http://x", {}, str(root))
        self.reader = Reader(database=self.database)
        self.writer = Writer(database=self.database, clock_ms=lambda: self.now_ms, publish=feed.publish)
        self.catalog = Catalog(root)
        self.in_flight = InFlight(root / "in-flight")
        budgets = BudgetEnforcer(reader=self.reader, now_ms=lambda: self.now_ms)
        services = AttemptServices(
            writer=self.writer,
            reader=self.reader,
            feed=feed,
            admission=Admission(reader=self.reader, budgets=budgets, now_ms=lambda: self.now_ms),
            budgets=budgets,
            places=places or WorkPlaces(WorkPlace(launcher=cast("Launcher", launcher))),
            start_frames=StartFrameBuilder(
                files=TrustedFiles(self.catalog, {}, ProjectTrust(kept=lambda: self.kept)),
                reader=self.reader,
                own_bin=frozenset(),
                url="http://x",
                paths=AttemptPaths(state=root / ".state", home=root / ".state"),
                choose=ModelChooser(
                    reader=self.reader, writer=self.writer, environ={}, now_ms=lambda: self.now_ms
                ).choose,
            ),
            completer=Completer(writer=self.writer, now_ms=lambda: self.now_ms, jitter=lambda: 0.0),
            models=ModelGateway(gateway=self.gateway, environ={}),
            in_flight=self.in_flight.working,
        )
        self.attempts = Attempts(services)
        wake = feed.new_wake(unless=leads_to_nothing)
        self.dispatcher = Dispatcher(
            reader=self.reader,
            wake=wake,
            attempts=self.attempts,
            search=self.attempts.node_search(lambda: self.now_ms, wake.set),
            limits=WorkerLimits(4),
            pressed=lambda: False,
            now_ms=lambda: self.now_ms,
        )
        self.deadlines = Deadlines(
            log=StoreLog(self.reader, self.writer, lambda: self.now_ms),
            wake=feed.new_wake(unless=leads_to_nothing),
            starvation_ms=300_000,
        )

    @staticmethod
    def draft(text: str = "x") -> Draft:
        return Draft(kind="said", space="dm:alice", sender="user", text=text, to=("alice",))

    @staticmethod
    def draft_to(name: str, text: str = "x") -> Draft:
        return Draft(kind="said", space=f"dm:{name}", sender="user", text=text, to=(name,))

    async def send(self, text: str = "x") -> str:
        appended = await self.writer.commit(append, self.draft(text))
        return appended.instruction_ids[0]

    def status(self, instruction: str) -> str:
        return self.reader.now(instructions.results, [instruction])[0].status

    async def until(self, instruction: str, holds: Callable[[str], bool]) -> str:
        """Wait for a status; read again after every event."""
        with trio.fail_after(20), self.feed.subscribe() as events:
            while not holds(status := self.status(instruction)):
                await anext(events)
        return status


@asynccontextmanager
async def core(root: Path, launcher: PlayedLauncher, places: WorkPlaces | None = None) -> AsyncGenerator[Core]:
    (root / ".agents").mkdir()
    (root / ".agents/alice.yaml").write_text("backend: mock\nmock:\n  - text: hi\n")
    made = Core(root, launcher, places)
    async with trio.open_nursery() as storage:
        await storage.start(made.writer.run)
        await register(made.catalog, made.writer, made.reader)
        async with running(made.dispatcher.run, made.deadlines.run):
            yield made
        made.writer.close()
    made.database.close()
