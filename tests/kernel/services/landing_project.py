"""The queue of landings over a real repository and a real store; branches are written by hand, and no agent runs.

The kernel dies where a test says: nothing of it runs on, and what it held is left as it was.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import pytest
import trio
from msgspec.structs import replace

from kernel.git import checkout_move, file_exchange
from kernel.git.runner import ProjectGit
from kernel.procs.launcher import Launcher
from kernel.services import landings as service
from kernel.services.landings import Landings
from kernel.services.worktrees import Worktrees
from kernel.store import workflows
from kernel.store.database import Reader
from kernel.store.feed import Feed
from kernel.store.transitions import landings, worktrees
from kernel.store.transitions.landings import Landing, MergePlan, plan_landing, request_landing
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.runs import start_run
from kernel.store.transitions.worktrees import PlannedTree, TreePlan, Worktree, worktree_made
from kernel.store.workflows import WorkflowRecord
from kernel.store.writer import StoreLog, Writer
from protocol.api.runs import MergeInfo, MergeRequest
from protocol.ipc import Sandbox
from protocol.names import AgentKey, AgentName, SpaceId, attempt_id, instruction_id
from tests.kernel.git.git_project import GitProject
from tests.kernel.store.migrated import open_migrated
from tests.kernel.store.running_store import member, started
from tests.shorthand import present

NOW_MS = 1_790_000_000_000
BRANCH = "awk/team/main/"


class Died(BaseException):
    """The kernel was killed."""


@dataclass
class Interference:
    """What happens at points of a landing: somebody acts, or the kernel dies at the n-th of all."""

    dies_at: str = ""
    """``moved:1``; "": it does not."""
    acts: dict[str, list[Callable[[], object]]] = field(default_factory=dict)
    """What somebody else does when a point is passed, once each."""
    one_by_one: bool = False
    """One of them each time that it is passed."""
    passed: list[str] = field(default_factory=list)
    dead: bool = False

    def reached(self, name: str) -> None:
        """Have what is to happen there happen."""
        point = name.removeprefix("landing.")
        self.passed.append(point)
        acts = self.acts.pop(point, [])
        if self.one_by_one and acts[1:]:
            self.acts[point] = acts[1:]
        for act in acts[:1] if self.one_by_one else acts:
            act()
        if f"{point}:{self.passed.count(point)}" == self.dies_at:
            self.dead = True
            raise Died

    def release(self, own: str, tip: str) -> None:
        if not self.dead:
            _release(own, tip)


_release = file_exchange.release


@dataclass
class LandingProject:
    """A repository, a store, and the queue as it is after the last start of a kernel."""

    git_project: GitProject
    launcher: Launcher
    writer: Writer
    reader: Reader
    feed: Feed
    interference: Interference = field(default_factory=Interference)
    runs: int = 0

    @property
    def log(self) -> StoreLog:
        return StoreLog(self.reader, self.writer, lambda: 0)

    def git(self) -> ProjectGit:
        """The kernel's git, in the folder that landings have."""
        place = self.git_project.folder / "trees" / service.PLACE
        return ProjectGit(place, launcher=self.launcher, environ=self.git_project.environ, own_bin=frozenset())

    def trees(self) -> Worktrees:
        """The trees' service; the sandbox of a confined agent is named after its tree, and nothing is run in it."""
        return Worktrees(
            root=self.git_project.root,
            repository=self.git_project.repository(self.launcher),
            log=self.log,
            feed=self.feed,
            launcher=self.launcher,
            confine=lambda tree: Sandbox(program=tree.name, private_bytes=1),
        )

    def kernel(self) -> Landings:
        """The queue's service, as a kernel has it that has just started."""
        return Landings(
            root=self.git_project.root,
            git=self.git(),
            repository=self.git_project.repository(self.launcher),
            box=partial(self.trees().box, gone=True),
            log=self.log,
            wake=self.feed.new_wake(service.WAKING),
            launcher=self.launcher,
        )

    async def run_of(
        self,
        *names: str,
        base: str = "main",
        more: str = "",
        planned: bool = False,
        folder: str = "",
        limits: Mapping[str, str] = MappingProxyType({}),
    ) -> int:
        """A run whose agents have the branches ``awk/team/main/NAME``, wherever these are, unless only ``planned``."""
        self.runs += 1
        tag = f"t{self.runs}"
        agents = ",".join(f'"{name}":{{"entry":"ref","ref":"{name}"}}' for name in names)
        definition = f'{{"name":"team","agents":{{{agents}}}{more}}}'.encode()
        own = {name: f'{{"model":"mock/m","limits":{limits.get(name, "{}")}}}'.encode() for name in names}
        members = (replace(member(name, "team"), definition=own[name]) for name in names)
        repository = str(self.git_project.root / ".git")
        commit = self.git_project.git("rev-parse", base)
        place = self.git_project.folder / "trees/team" / tag
        trees = tuple(PlannedTree(name, repository, commit, BRANCH + name, str(place / name), folder) for name in names)
        draft = started(*members, name="team", tag=tag, definition=definition)
        made = await self.writer.commit(start_run, draft, None, TreePlan(trees=lambda _run: trees, branch="main"))
        for tree in () if planned else self.reader.now(worktrees.of_run, made.run):
            await self.writer.commit(worktree_made, tree, "")
        return made.run

    def plan(self, run: int, asked: MergeRequest | None = None) -> tuple[WorkflowRecord, MergePlan]:
        record = present(self.reader.now(workflows.by_id, run))
        return record, self.reader.now(plan_landing, record, asked or MergeRequest(), None)

    async def ask(self, run: int, asked: MergeRequest | None = None) -> Landing:
        return await self.writer.commit(request_landing, *self.plan(run, asked))

    async def serve(self) -> None:
        """Serve the queue until it is empty; a kernel that dies is followed by the next one."""
        kernel = self.kernel()
        while True:
            try:
                if await kernel.run_once() == service.FOREVER_SECONDS:
                    return
            except Died:
                self.interference.dead, self.interference.dies_at = False, ""
                kernel = self.kernel()

    async def land(self, run: int, asked: MergeRequest | None = None) -> MergeInfo:
        """Ask, serve, and say what came of it."""
        landing = await self.ask(run, asked)
        await self.serve()
        return self.outcome(landing)

    def outcome(self, landing: Landing) -> MergeInfo:
        return landings.info_of(present(self.reader.now(landings.by_id, landing.id)))

    def branch(self, name: str, files: dict[str, bytes | None], base: str = "main") -> str:
        """Commit ``files`` (None: removed) onto ``base`` as the branch of ``name``; nothing is checked out."""
        return commit(self.git_project, f"refs/heads/{BRANCH}{name}", files, base)

    def refs(self) -> dict[str, str]:
        listed = self.git_project.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {name: where for name, _, where in (row.partition(" ") for row in listed)}

    def read(self, name: str, commit: str = "main") -> str:
        return self.git_project.git("show", f"{commit}:{name}")


def commit(git_project: GitProject, ref: str, files: dict[str, bytes | None], base: str, message: str = "work") -> str:
    """Commit ``files`` onto ``base`` and have ``ref`` be that; no filter and no checkout has a part in it."""
    rows = [f"commit {ref}\ncommitter u <u@localhost> 1790000000 +0000\ndata {len(message)}\n{message}\n".encode()]
    rows.append(f"from {git_project.git('rev-parse', base)}\n".encode())
    for name, content in files.items():
        quoted = '"' + "".join(f"\\{byte:03o}" for byte in os.fsencode(name)) + '"'
        if content is None:
            rows.append(f"D {quoted}\n".encode())
        else:
            rows.append(f"M 100644 inline {quoted}\ndata {len(content)}\n".encode() + content + b"\n")
    git_project.give(b"".join(rows), "fast-import", "--quiet", "--force")
    return git_project.git("rev-parse", ref)


FIRST_LEASE = Leased(
    agent=AgentKey("alice"), name=AgentName("alice"), space=SpaceId("dm:alice"), instruction=instruction_id(1),
    attempt=attempt_id("i1", 1), epoch=1, n=1, attempts=1, crashes=0, text="", source_text="", sender="user",
    lane="normal", hops=0, message_seq=1, entries=0,
)  # fmt: skip


def attempt_of(tree: Worktree) -> Leased:
    """An attempt of the agent that works in ``tree``."""
    return replace(FIRST_LEASE, agent=tree.agent, name=tree.name, space=tree.space, run=tree.run)


@asynccontextmanager
async def landing_ground(
    git_project: GitProject, launcher: Launcher, interference: Interference
) -> AsyncGenerator[LandingProject]:
    """A store over ``git_project``, whose fault points are those of ``interference``."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (checkout_move, file_exchange, service):
            patch.setattr(module, "fault_point", interference.reached)
            patch.setattr(module, "release", interference.release)
        async with stored_ground(git_project, launcher, interference=interference) as place:
            yield place


@asynccontextmanager
async def stored_ground(
    git_project: GitProject, launcher: Launcher, store: str = ":memory:", interference: Interference | None = None
) -> AsyncGenerator[LandingProject]:
    database = open_migrated(store)
    feed = Feed()
    writer = Writer(database=database, clock_ms=lambda: NOW_MS, publish=feed.publish)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        yield LandingProject(
            git_project, launcher, writer, Reader(database=database), feed, interference or Interference()
        )
        writer.close()
    database.close()
