"""The branch of an agent that works on a node, as this machine has it: with its tree, or without files.

An agent of a workflow with trees has its tree here as well: it follows what was done on the node, so that everybody
finds it where they look. One that would work in the project itself has only a branch, made once there is something on
it: what it did is never written into the user's checkout.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from kernel.store.worktrees import Worktree
from kernel.workflows.exchange import is_ancestor
from kernel.workflows.git_directory import GitDirectory
from kernel.workflows.git_view import View
from kernel.workflows.project_git import ProjectGit, unusable_on_nodes
from kernel.workflows.repository import Base, Repository
from kernel.workflows.tree_commits import Author, author_of, commit_at, head_of, move
from protocol.errors import Refused
from protocol.ipc import Sandbox


class HomeBranch(Protocol):
    """The branch of an agent: ``tree`` has its names, of which some may lead to nothing here."""

    tree: Worktree
    git: ProjectGit
    directory: GitDirectory

    async def tip(self, view: View) -> str:
        """The commit that its agent is to begin with. Raises Refused, SpawnTransient."""
        ...

    async def follow(self, view: View, tip: str, new: str) -> None:
        """Move it from ``tip`` to ``new``, which is here. Raises Refused, and then nothing has moved."""
        ...


class TreeBranch:
    """The branch that is checked out in ``tree``. ``box`` is its sandbox here, if it has one. It may raise Refused."""

    def __init__(self, repository: Repository, tree: Worktree, box: Callable[[Worktree], Sandbox | None]) -> None:
        self.tree = tree
        self.git = repository.git
        self.directory = GitDirectory(tree.git_dir, tree.repository, tree.path)
        self._repository = repository
        self._box = box

    async def tip(self, view: View) -> str:
        """The commit that its agent is to begin with: the last one."""
        return await commit_at(self.git, view, f"refs/heads/{self.tree.branch}")

    async def follow(self, view: View, tip: str, new: str) -> None:
        """Bring branch and files there. Raises Refused (conflict) where files here would be lost by that."""
        async with self._repository.writable(self.tree, self._box(self.tree)) as (_view, writable):
            await move(self.git, writable, await head_of(self.git, writable), new)


class BareBranch:
    """A branch of nobody's checkout. It begins where the project is, until something is done that is not there."""

    def __init__(self, git: ProjectGit, tree: Worktree) -> None:
        self.tree = tree
        self.git = git
        self.directory = GitDirectory(tree.repository, tree.repository, "")

    async def tip(self, view: View) -> str:
        """The project's own commit where that has all that was done; else the last one of the branch."""
        own = await self.git.run(view, "rev-parse", "--verify", "--quiet", f"refs/heads/{self.tree.branch}^{{commit}}")
        last = own.stdout.decode("ascii", "replace").strip() if own.ok else self.tree.base
        return self.tree.base if await is_ancestor(self.git, view, last, self.tree.base) else last

    async def follow(self, view: View, tip: str, new: str) -> None:
        """Have the branch be at ``new``: made where it is not there yet, moved from where it was."""
        name = f"refs/heads/{self.tree.branch}"
        known = await self.git.run(view, "rev-parse", "--verify", "--quiet", name)
        await self.git.said(view, "update-ref", name, new, known.stdout.decode("ascii", "replace").strip())


@asynccontextmanager
async def view_of(home: HomeBranch) -> AsyncGenerator[View]:
    """A view of the repository, which goes with the block. Raises Refused."""
    async with home.git.view(home.directory) as view:
        yield view


async def clone_base(repository: Repository) -> Base:
    """The commit that clones of the project begin with. Raises Refused (bad_definition) where there can be none."""
    try:
        return await repository.base()
    except Refused as refused:
        raise unusable_on_nodes(refused) from refused


async def author_at(home: HomeBranch, view: View, agent: str) -> Author:
    """In whose name ``agent`` commits. Raises Refused."""
    manner = await home.git.manner(home.directory)
    return await author_of(home.git, view, agent, (manner.name, manner.email))
