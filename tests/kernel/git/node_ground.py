"""A second machine beside a project's: a launcher, a home and a state folder of its own, and a clone on it."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from kernel.git.branches import HomeBranch, TreeBranch
from kernel.git.node_sync import NodeClone, NodeGit, NodeSync
from kernel.git.repository import Repository
from kernel.git.tree_commits import WritableTree
from kernel.git.view import GitView
from kernel.procs.fork import ForkLauncher
from kernel.procs.launcher import Launcher
from kernel.store.transitions.worktrees import Worktree
from protocol.node import NodeFacts
from tests.kernel.git.git_project import GitProject, at, made, planned


@dataclass
class FarMachine:
    """What a node is here: nothing of it is shared with the project but the disk."""

    folder: Path
    launcher: Launcher
    facts: NodeFacts = field(init=False)

    def __post_init__(self) -> None:
        """Say what a node would say of itself."""
        state = str(self.folder / "state")
        self.facts = NodeFacts(
            home=str(self.folder / "home"),
            path=os.environ["PATH"],
            state_dir=state,
            mcp_url="http://127.0.0.1:9/mcp",
            memory_bytes=2**32,
        )

    @property
    def clone(self) -> Path:
        return Path(self.facts.state_dir, "trees/r1/alice")

    @property
    def tree(self) -> Path:
        return self.clone / "tree"

    def sync(self, home: HomeBranch) -> NodeSync:
        """The branch ``home`` and its clone there."""
        view = GitView(str(self.tree / ".git"), str(self.tree))
        clone = NodeClone(NodeGit(self.launcher, self.facts), str(self.clone), WritableTree(home.tree, view))
        return NodeSync(home, clone, node="far", agent="alice", message="alice: work of i1 (r1)")


@asynccontextmanager
async def far_machine(folder: Path) -> AsyncGenerator[FarMachine]:
    for name in ("run", "home"):
        (folder / name).mkdir(parents=True)
    async with trio.open_nursery() as nursery:
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
        launcher = ForkLauncher(run_dir=folder / "run", environ=environ)
        await nursery.start(launcher.run)
        yield FarMachine(folder, launcher)
        nursery.cancel_scope.cancel()


async def tree_at_home(repository: Repository) -> Worktree:
    return await made(repository, planned(await repository.base(), repository))


def home_of(repository: Repository, tree: Worktree) -> TreeBranch:
    return TreeBranch(repository, tree, lambda _tree: None)


def commit_far(git_project: GitProject, far: FarMachine, message: str = "far work") -> None:
    """Commit all in the clone, as its agent would."""
    git_project.git("add", "--all", cwd=far.tree)
    git_project.git("commit", "--quiet", "-m", message, cwd=far.tree)


__all__ = ["FarMachine", "at", "commit_far", "far_machine", "home_of", "tree_at_home"]
