"""A kernel without attempts: the real store, feed and server on a real socket, with a project in a temporary folder."""

import hashlib
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import trio
import trio.testing

from kernel.agents.catalog import Catalog
from kernel.agents.memory_prompt import Memories
from kernel.agents.personal_context import PersonalContexts
from kernel.agents.registration import register
from kernel.agents.trust import ProjectTrust, TrustedFiles
from kernel.api.server import serve
from kernel.gateway.gateway import Gateway
from kernel.git.branches import BranchStatus, TakeMode, Tip
from kernel.git.repository import Repository
from kernel.operations.context import (
    AttemptActivity,
    AttemptControl,
    KernelControl,
    KernelIdentity,
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
from kernel.policy.metrics import Durations
from kernel.policy.node_states import NodeState
from kernel.procs.command import VersionProbes
from kernel.procs.launcher import ExecLauncher
from kernel.procs.procfs import AcceptedConnection, ProcessId, caller
from kernel.rule.evaluate import InstalledRules
from kernel.services.embeddings import EmbeddingClient, EmbeddingProcess
from kernel.services.guard import ANSWER_SECONDS, WAKING, MemoryGuard, concerns_no_guard
from kernel.services.landings import Landings
from kernel.services.mirror import Mirror
from kernel.services.nodes import Nodes
from kernel.services.recall import Recall
from kernel.services.reload import Reload
from kernel.services.souls import Souls
from kernel.services.supervision import ShutdownSignal
from kernel.services.telemetry import EventCounters
from kernel.services.tree_work import TreeWork, WorkChecks
from kernel.services.upgrade import Upgrade
from kernel.services.working_directory import CliHomes
from kernel.services.worktrees import Worktrees, WorktreeSweep
from kernel.store.attempts import Identity
from kernel.store.database import MEMORY, Reader
from kernel.store.feed import Feed, Wake
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.landings import MergePlan
from kernel.store.transitions.lease import Leased, lease
from kernel.store.transitions.worktrees import Worktree
from kernel.store.workflows import WorkflowRecord
from kernel.store.writer import CommitWriter, StoreLog, Writer
from kernel.workflows.instruction_prompt import settings_of
from kernel.workflows.remote import Remotes
from kernel.workflows.setup import CheckOutcome
from protocol.agent import AgentLimits
from protocol.api.kernel import PruneReport, PruneRequest, UpgradeReport
from protocol.api.runs import DiffStat, MergeInfo, WorktreeDiff
from protocol.errors import Refused
from protocol.node import NodeFacts
from protocol.project import NodeSettings
from protocol.trust import Grant, TrustUnit
from tests.kernel.api.client import Answer, Headers, connected
from tests.kernel.store.migrated import open_migrated

TOKEN = "admin-token-of-the-tests"
RECORD_TOKEN = "token-of-the-record-of-the-tests"
COOKIE = "cookie-of-the-tests"
SALT = "salt-of-the-tests"
"""What lots are drawn from."""
ALICE = "model: mock/x\nmock:\n  - text: done\n"
REVIEW = "agents:\n  alice: { ref: alice }\n  bob:\n    model: mock/x\n    mock: [{ text: hi }]\n"
RUNNABLE = REVIEW + 'kickoff: "@alice begin"\n'


TREES = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder)
VALUES (1, 'alice', 'alice', 'review:main#1', 'made', '/r', 'c0', 'awk/review/main/alice', '/t', '')
"""


class NoMirror:
    """Nothing is written from the log."""

    async def redo(self) -> None:
        """Nothing to remove."""


class NoHomes:
    """No CLI keeps anything."""

    async def forget(self, agent: str | None, space: str | None) -> None:
        """Nothing to remove."""


class NoTreeWork:
    """Nobody has a working tree."""

    async def standing(self, identity: Identity) -> tuple[Worktree, BranchStatus]:
        raise Refused("not_found", f"{identity.name} has no working tree")

    async def commit(self, identity: Identity, message: str) -> tuple[Worktree, Tip]:
        raise Refused("not_found", f"{identity.name} has no working tree for {message}")

    async def take(self, identity: Identity, source: str, mode: TakeMode) -> tuple[Worktree, Tip]:
        raise Refused("not_found", f"{identity.name} has no working tree to {mode} {source} into")

    async def seen(self, identity: Identity) -> str:
        assert identity.name
        return ""

    async def remove(
        self, trees: Iterable[Worktree], *, force: bool
    ) -> tuple[tuple[Worktree, ...], tuple[Worktree, ...]]:
        assert not force
        return (), tuple(trees)


class NoChecks:
    """Every check is green but ``false``."""

    async def check(
        self, identity: Identity, command: str, limits: AgentLimits, *, task: str, confined: bool
    ) -> CheckOutcome:
        assert identity.name
        assert limits is not None
        assert task
        return CheckOutcome("the check failed: exit code 1", "red") if command == "false" else CheckOutcome(None)

    async def check_run(
        self, record: WorkflowRecord, command: str, limits: Iterable[AgentLimits], *, confined: bool
    ) -> CheckOutcome:
        assert tuple(limits)
        told = f"{record.place} {'confined' if confined else 'free'}"
        return CheckOutcome("the check failed: exit code 1", told) if command == "false" else CheckOutcome(None)


async def pruned(asked: PruneRequest) -> PruneReport:
    return PruneReport(dry_run=asked.dry_run, removed=(), kept=(), total_bytes=0)


class NoWorktrees:
    """Everybody works in the project."""

    async def report(self, run: int, name: str | None, *, patch: bool) -> tuple[WorktreeDiff, ...]:
        return ()

    def stat(self, space: str | None, name: str) -> DiffStat | None:
        return None


class NoLandings:
    """Nothing is merged."""

    async def preview(self, record: WorkflowRecord, plan: MergePlan) -> MergeInfo:
        return MergeInfo(id="", run=f"r{record.id}", state="possible", into=plan.branch)


class NoNodes:
    """Everything runs on the kernel's own machine; what is asked for is kept in mind."""

    def __init__(self) -> None:
        self.running: Callable[[], Mapping[str, int]] = dict
        self.known: dict[str, NodeState] = {}

    def states(self) -> tuple[NodeState, ...]:
        return tuple(self.known.values())

    def facts(self, name: str) -> NodeFacts | None:
        return NodeFacts(cpus=2) if name in self.known else None

    def look_again(self) -> None:
        """Nothing to look at."""

    def added_by_hand(self, name: str) -> bool:
        return name in self.known

    async def add(self, name: str, settings: NodeSettings, host: str | None) -> str | None:
        self.known[name] = NodeState(name=name, settings=settings, state="connecting", since_ms=0)
        return f"awk1.{host}" if settings.via == "join" else None

    async def drain(self, name: str, *, draining: bool) -> None:
        if name not in self.known:
            raise Refused("not_found", f"there is no node {name}")
        state = "draining" if draining else "up"
        self.known[name] = msgspec.structs.replace(self.known[name], state=state)

    async def remove(self, name: str, *, force: bool) -> None:
        if self.known.pop(name, None) is None:
            raise Refused("not_found", f"there is no node {name}, {force}")


class NoUpgrade:
    """Nothing is upgraded."""

    def ask(self, to: str | None) -> UpgradeReport:
        return UpgradeReport(id="u1", state="checking", before="0.0.0", to=to or "0.0.1")

    def tell(self) -> UpgradeReport:
        return UpgradeReport(id="", state="none", before="0.0.0", to="")


@dataclass
class RecordedShutdown:
    """A shutdown that is asked for, written down and not begun; ``closing`` is the test's to set."""

    closing: trio.Event = field(default_factory=trio.Event)
    hands_over: bool = False
    asked: list[float] = field(default_factory=list)
    """Seconds of grace, once for each time."""

    def ask(self, grace_seconds: float) -> None:
        self.asked.append(grace_seconds)

    def begun(self) -> bool:
        return bool(self.asked)


@dataclass
class ServedKernel:
    """A kernel that is served, and what it was asked to do."""

    port: int
    asked_to_stop: list[float]
    services: Services = field(init=False)
    live: dict[str, AttemptActivity] = field(default_factory=dict)
    interrupted: list[str] = field(default_factory=list)
    """Agents whose work was to be begun anew."""
    below: list[bool] = field(default_factory=list)
    """Not empty: whoever asks is a process of the kernel's."""
    awaited: list[trio.Event] = field(default_factory=list)
    """The ends of trees that who stops something has to wait for."""
    grants: list[TrustUnit] = field(default_factory=list)
    """What the user trusts the project's files to do."""
    trees: dict[ProcessId, bytes] = field(default_factory=dict)
    """The processes of attempts, with the digests of their tokens."""
    served: trio.Event = field(default_factory=trio.Event)

    async def until_gone(self, _of: Callable[[Leased], bool]) -> None:
        for event in self.awaited:
            await event.wait()

    async def calling(self, wire: AcceptedConnection, cookie: str) -> bytes | None:
        if cookie != COOKIE:
            return None
        process = await trio.to_thread.run_sync(caller, wire, self.trees.keys(), os.getpid())
        return None if process is None else self.trees[process]

    def interrupt(self, agent: str) -> bool:
        self.interrupted.append(agent)
        return True

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def root(self) -> Path:
        """The folder of the project."""
        return self.services.files.catalog.root

    @property
    def feed(self) -> Feed:
        return self.services.store.feed

    @property
    def reader(self) -> Reader:
        return self.services.store.reader

    @property
    def writer(self) -> CommitWriter:
        return self.services.store.writer

    def headers(self, token: str | None = TOKEN, **more: str) -> Headers:
        fields = {"Host": self.host}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        return fields | {name.replace("_", "-"): value for name, value in more.items()}

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        fields = dict(self.headers() if headers is None else headers)
        data = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        if data:
            fields.setdefault("Content-Type", "application/json")
            fields["Content-Length"] = str(len(data))
        with trio.fail_after(10):
            async with connected(self.port) as wire:
                await wire.send(method, path, fields.items(), data)
                return await wire.answer()

    async def get(self, path: str) -> Any:
        """The document that a GET is answered with."""
        return (await self.ask("GET", path)).json

    async def pages(self, path: str, parameter: str) -> AsyncGenerator[Any, None]:
        """Each page of a list, from the first to the last."""
        page = await self.get(path)
        yield page
        while page["next"] is not None:
            page = await self.get(f"{path}&{parameter}={page['next']}")
            yield page

    async def until_watched(self, *, watched: bool = True) -> None:
        """Wait until a client waits for events, or until none does."""
        with trio.fail_after(5):
            while bool(self.feed._subscriptions) is not watched:  # pyright: ignore[reportPrivateUsage]
                await trio.testing.wait_all_tasks_blocked(0.01)

    async def send(self, to: str = "alice", text: str = "work") -> str:
        """The instruction that a message becomes; the workflow of the member ``to`` is started if it does not run."""
        body = {"to": to, "text": text}
        sent = await self.ask("POST", "/messages", body)
        if sent.status == 404:
            assert (await self.ask("POST", "/workflows", {"workflow": to.partition("@")[2]})).status == 201
            sent = await self.ask("POST", "/messages", body)
        (instruction,) = sent.json["instruction_ids"]
        return str(instruction)

    async def attempt(self, to: str = "alice", text: str = "work", token: str = "worker-token") -> str:
        """Send a message and lease what came of it. Returns the instruction; ``token`` is its attempt's."""
        instruction = await self.send(to, text)
        await self.lease(instruction, token)
        return instruction

    async def lease(self, instruction: str, token: str) -> None:
        leased = await self.writer.commit(lease, instruction, hashlib.sha256(token.encode()).digest())
        assert leased is not None

    async def plan_trees(self) -> None:
        """Have the agent alice of the first run a working tree, as far as rows tell."""
        await self.writer.commit(lambda tx: tx.write(TREES, ()))

    async def end(self, instruction: str, epoch: int = 1, text: str = "the reply") -> None:
        await self.writer.commit(close, instruction, epoch, status="done", text=text)


def kept(units: Iterable[TrustUnit]) -> tuple[Grant, ...]:
    """Grants for ``units``, as ``awk trust`` keeps them."""
    at = "2026-01-01T00:00:00Z"
    return tuple(Grant(subject=one.subject, demands=one.demands, digest=one.digest, at=at) for one in units)


def write_project(root: Path) -> None:
    for folder in (".agents", ".workflows"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / ".agents/alice.yaml").write_text(ALICE)
    (root / ".workflows/review.yaml").write_text(REVIEW)
    (root / ".workflows/task.yaml").write_text(RUNNABLE)


@asynccontextmanager
async def serve_kernel(
    root: Path,
    environ: Mapping[str, str] | None = None,
    *,
    on_disk: bool = False,
    answer_seconds: float = ANSWER_SECONDS,
    now_ms: int = 1_700_000_000_000,
    listener: socket.socket | None = None,
    waiting: Iterable[tuple[socket.socket, bytes]] = (),
) -> AsyncGenerator[ServedKernel, None]:
    """A served kernel for the length of the block; leaving it stops it as a kernel stops.

    Its database is ``kernel.db`` in ``root`` where the test is about the file, and in memory otherwise.
    """
    write_project(root / "project")
    database = open_migrated(str(root / "kernel.db") if on_disk else MEMORY)
    feed = Feed()
    writer = Writer(database=database, clock_ms=lambda: now_ms, publish=feed.publish)
    reader = Reader(database=database)
    catalog = Catalog(root / "project")
    contexts = PersonalContexts(catalog, root / "state/contexts")
    listener = listener or socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    shutdown = RecordedShutdown()
    built = ServedKernel(port, shutdown.asked)
    launcher = ExecLauncher(run_dir=root / "run", environ={})
    project = root / "project"
    log = StoreLog(reader, writer, lambda: now_ms)
    recall = Recall(path=str(root / "recall-index.db"), log=log, wake=Wake())
    guard = MemoryGuard(
        contexts=contexts,
        log=log,
        wake=feed.new_wake(WAKING, unless=concerns_no_guard),
        souls=Souls(catalog=catalog, contexts=contexts, reader=reader, writer=writer),
        settings=partial(settings_of, catalog=catalog, reader=reader),
        answer_seconds=answer_seconds,
    )
    built.services = services = Services(
        store=StoreAccess(
            writer=writer,
            append=lambda draft, request: writer.commit(append, draft, request=request),
            reader=reader,
            feed=feed,
            mirror=cast(Mirror, NoMirror()),
            homes=cast(CliHomes, NoHomes()),
            now_ms=lambda: now_ms,
            salt=lambda: SALT,
        ),
        files=ProjectFiles(
            catalog=catalog,
            contexts=contexts,
            definitions=Reload(catalog=catalog, log=log).current,
            trust=ProjectTrust(everything=False, kept=lambda: kept(built.grants)),
            remotes=Remotes(root / "state", project, launcher=launcher, environ={}, own_bin=frozenset()),
            worktrees=TreeServices(
                diffs=cast(Worktrees, NoWorktrees()),
                work=cast(TreeWork, NoTreeWork()),
                removal=cast(WorktreeSweep, NoTreeWork()),
                checks=cast(WorkChecks, NoChecks()),
                repository=Repository(project, root / "trees", launcher=launcher, environ={}, own_bin=frozenset()),
            ),
            environ=environ or {},
            own_bin=frozenset(),
        ),
        processes=ProcessControl(
            launcher=launcher,
            probes=VersionProbes(launcher, root / "run"),
            attempts=AttemptControl(
                activity=lambda: built.live,
                interrupt=built.interrupt,
                hold=lambda _instruction: nullcontext(),
                until_gone=built.until_gone,
                reached=lambda _instruction: None,
                calling=built.calling,
            ),
            runs_client=lambda _port: bool(built.below),
            landings=cast(Landings, NoLandings()),
            prune=pruned,
        ),
        kernel=KernelControl(
            identity=KernelIdentity(
                pid=1,
                url=f"http://127.0.0.1:{port}",
                version="0.0.0",
                project=str(project),
                home=str(project.parent),
                term=1,
            ),
            keys=Keys(TOKEN, RECORD_TOKEN),
            state=KernelState(
                uptime_seconds=lambda: 1.0, ready=lambda: True, safe_mode=lambda: False, saved_notice=lambda: None
            ),
            rules=InstalledRules(),
            numbers=KernelNumbers(
                counters=EventCounters(log),
                commits=writer.commits,
                turns=Durations(),
                retention_seconds=lambda: 60.0,
                free_bytes=lambda: 0,
            ),
            shutdown=cast(ShutdownSignal, shutdown),
            upgrade=cast(Upgrade, NoUpgrade()),
            gateway=Gateway(f"http://127.0.0.1:{port}", {} if environ is None else environ, str(root)),
        ),
        nodes=NodeAccess(cast(Nodes, NoNodes()), NodeDoor()),
        memory=MemoryAccess(
            history=recall,
            vectors=EmbeddingClient(
                files=TrustedFiles(catalog, environ or {}, ProjectTrust(kept=lambda: kept(built.grants))),
                asking=EmbeddingProcess(launcher, dict),
                gateway=Gateway("http://x", {}, str(root)),
                state_dir=root / "state",
                now=lambda: 0.0,
            ),
            derived=(recall,),
            trays=guard,
            guard=guard,
            souls=guard.souls,
            prompts=Memories(contexts, lambda: 0),
        ),
    )

    async def serving(*, task_status: trio.TaskStatus[None]) -> None:
        await serve(services, listener, waiting, task_status=task_status)
        built.served.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        await register(catalog, writer, reader)
        await nursery.start(serving)
        yield built
        shutdown.closing.set()
        with trio.fail_after(10):
            await built.served.wait()
        writer.close()
    database.close()
