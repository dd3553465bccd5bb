"""Operations on the branches of a run's agents: commit, merge from colleagues, and compare.

Each operation has exclusive access to one tree. It changes the tree, its index and its branch completely, or raises
Refused and changes nothing. A retry after an interruption detects the finished steps.

The branch of an agent on a node is updated from its clone there (``node_sync``), with or without a local checkout.
"""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from kernel.git.clone import bring_back, is_ancestor
from kernel.git.directory import GitDirectory
from kernel.git.repository import Repository, TreeBase, left_refs
from kernel.git.runner import ProjectGit, unusable_for
from kernel.git.tree_commits import (
    CommitAuthor,
    WritableTree,
    author_of,
    changed_files,
    commit_all,
    commit_at,
    count,
    head_of,
    merged,
    move,
)
from kernel.git.view import GitView
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused
from protocol.ipc import Sandbox

TakeMode = Literal["merge", "reset"]


class Tip(msgspec.Struct, frozen=True):
    """The last commit of a branch; ``ahead`` is the number of its commits since its base.

    ``made``: this call created the commit. ``left``: a ref to the commits that a reset removed; "" if there are none.
    """

    commit: str
    ahead: int
    made: bool = False
    left: str = ""


class Colleague(msgspec.Struct, frozen=True):
    """A colleague's branch compared with the agent's: numbers of commits that only ``theirs`` or only ``mine`` has."""

    tree: Worktree
    commit: str
    theirs: int
    mine: int


class BranchStatus(msgspec.Struct, frozen=True):
    """The state of a tree: its last commit, uncommitted files, and the colleagues' branches."""

    tip: Tip
    changed: tuple[str, ...]
    colleagues: tuple[Colleague, ...]


class Branches:
    """Operations on the trees of one repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._git = repository.git

    async def commit(
        self, tree: Worktree, box: Sandbox | None, message: str, agent: str, *, nothing: bool = False
    ) -> Tip:
        """Commit all changes in ``tree`` and return its tip; with ``nothing``, do not commit.

        Raises Refused, SpawnTransient.
        """
        async with self._repository.writable(tree, box) as (view, writable):
            made = None
            if not nothing:
                made = await commit_all(self._git, writable, message, await self._author(tree, view, agent))
            tip = made or await commit_at(self._git, writable.view, writable.branch)
            ahead = await count(self._git, writable.view, tip, tree.base)
        return Tip(tip, ahead, made=made is not None)

    async def follow(self, tree: Worktree, box: Sandbox | None, source: Worktree) -> Tip:
        """Move ``tree`` to the last commit of the branch of ``source``, and return that tip.

        Raises SpawnTransient; Refused (conflict) if the tree has its own changes: nothing has changed.
        """
        async with self._repository.writable(tree, box) as (view, writable):
            target = await self._tip_of(view, source)
            head = await head_of(self._git, writable)
            if head != target:
                own = await count(self._git, view, head, target)
                if own:
                    raise Refused("conflict", f"the tree has its own commits: {own}")
                await move(self._git, writable, head, target)
            ahead = await count(self._git, view, target, tree.base)
        return Tip(target, ahead)

    async def take(
        self, tree: Worktree, box: Sandbox | None, source: Worktree, mode: TakeMode, message: str, agent: str
    ) -> Tip:
        """Merge the branch of ``source`` into ``tree``, or reset ``tree`` to it. Raises Refused, SpawnTransient.

        Refused: a merge with conflicts, or over uncommitted changes. A reset commits those and keeps them
        (``Tip.left``).
        """
        async with self._repository.writable(tree, box) as (view, writable):
            target, author = await self._tip_of(view, source), await self._author(tree, view, agent)
            head, left = await head_of(self._git, writable), ""
            if mode == "merge":
                end = await self._merge(writable, head, target, message, author)
            else:
                end = target
                head = await commit_all(self._git, writable, message, author) or head  # the reset keeps it by a ref
                if box is not None:
                    await bring_back(self._git, tree, view, box)  # a ref in the project needs the commit there
                if await count(self._git, view, head, target):
                    left = f"{left_refs(tree)}/{head[:12]}"
                    await self._git.said(view, "update-ref", left, head)
            await move(self._git, writable, head, end)
            ahead = await count(self._git, writable.view, end, tree.base)
        return Tip(end, ahead, made=end not in (head, target), left=left)

    async def standing(self, tree: Worktree, box: Sandbox | None, others: tuple[Worktree, ...]) -> BranchStatus:
        """Return the state of ``tree`` compared with the branches of ``others``. Raises Refused, SpawnTransient."""
        async with self._repository.over(tree, box) as (view, inside):
            commit = await commit_at(self._git, view, f"refs/heads/{tree.branch}")
            changed = await changed_files(self._git, inside)
            ahead = await count(self._git, view, commit, tree.base)
            colleagues: list[Colleague] = []
            for other in others:
                theirs = await self._tip_of(view, other)
                new = await count(self._git, view, theirs, commit)
                colleagues.append(Colleague(other, theirs, new, await count(self._git, view, commit, theirs)))
        return BranchStatus(Tip(commit, ahead), changed, tuple(colleagues))

    async def _merge(self, writable: WritableTree, head: str, target: str, message: str, author: CommitAuthor) -> str:
        if not await count(self._git, writable.view, target, head):
            return head
        if not await count(self._git, writable.view, head, target):
            return target
        return await merged(self._git, writable, head, target, message, author)

    async def _tip_of(self, view: GitView, tree: Worktree) -> str:
        return await self._git.commit_of(view, f"refs/heads/{tree.branch}") or tree.base

    async def _author(self, tree: Worktree, view: GitView, agent: str) -> CommitAuthor:
        return await author_of(self._git, view, agent, await self._repository.manner(tree))


class HomeBranch(Protocol):
    """An agent's branch in the project. ``tree`` names its working tree, which may not exist on this machine."""

    tree: Worktree
    git: ProjectGit
    directory: GitDirectory

    async def tip(self, view: GitView) -> str:
        """Return the commit that the agent starts with. Raises Refused, SpawnTransient."""
        ...

    async def follow(self, view: GitView, tip: str, new: str) -> None:
        """Move the branch from ``tip`` to ``new``, a commit that exists here. Raises Refused before any change."""
        ...


class TreeBranch:
    """A branch that is checked out in ``tree``. ``box`` returns the agent's sandbox or None, and may raise Refused."""

    def __init__(self, repository: Repository, tree: Worktree, box: Callable[[Worktree], Sandbox | None]) -> None:
        self.tree = tree
        self.git = repository.git
        self.directory = GitDirectory(tree.git_dir, tree.repository, tree.path)
        self._repository = repository
        self._box = box

    async def tip(self, view: GitView) -> str:
        """Return the last commit of the branch."""
        return await commit_at(self.git, view, f"refs/heads/{self.tree.branch}")

    async def follow(self, view: GitView, tip: str, new: str) -> None:
        """Move branch and files to ``new``. Raises Refused (conflict) if local files would be lost."""
        async with self._repository.writable(self.tree, self._box(self.tree)) as (_view, writable):
            await move(self.git, writable, await head_of(self.git, writable), new)


class BareBranch:
    """A branch without a checkout. Until it has its own commits, it counts as being at the project's commit."""

    def __init__(self, git: ProjectGit, tree: Worktree) -> None:
        self.tree = tree
        self.git = git
        self.directory = GitDirectory(tree.repository, tree.repository, "")

    async def tip(self, view: GitView) -> str:
        """Return the project's commit if the branch has no commits beyond it, else its last commit."""
        last = await self.git.commit_of(view, f"refs/heads/{self.tree.branch}") or self.tree.base
        return self.tree.base if await is_ancestor(self.git, view, last, self.tree.base) else last

    async def follow(self, view: GitView, tip: str, new: str) -> None:
        """Set the branch to ``new``; create it if it is missing."""
        name = f"refs/heads/{self.tree.branch}"
        known = await self.git.run(view, "rev-parse", "--verify", "--quiet", name)
        await self.git.said(view, "update-ref", name, new, known.stdout.decode("ascii", "replace").strip())


async def clone_base(repository: Repository) -> TreeBase:
    """Return the start of clones of the project. Raises Refused (bad_definition) if none can be created."""
    try:
        return await repository.base()
    except Refused as refused:
        what = "an agent that works on a node (needs.labels) works in a clone of the project's git"
        raise unusable_for(what, refused) from refused
