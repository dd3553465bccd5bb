"""Synchronization of an agent's branch with its clone on a node, before and after each attempt.

An agent of a workflow with working trees also has its tree on this machine; the tree follows the node. An agent that
works in the project itself has only a branch: its changes are never written into the user's checkout.

No work is lost on either side. Before the clone is changed, its changes are committed and fetched: as the next commits
of the branch or, if the branch has diverged, under a separate ref. Commits that are refused (hostile or broken) stay on
the node, in a folder beside the clone. Each step can be repeated after an interruption.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from kernel.git.directory import GitDirectory
from kernel.git.exchange import has_commit, is_ancestor, take_commits, write_pack
from kernel.git.node_clone import NodeClone
from kernel.git.repository import Base, Repository
from kernel.git.runner import ProjectGit, failed, unusable_on_nodes
from kernel.git.tree_commits import Author, author_of, commit_at, head_of, move
from kernel.git.view import View
from kernel.store.transitions.worktrees import Worktree
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
        last = await self.git.commit_of(view, f"refs/heads/{self.tree.branch}") or self.tree.base
        return self.tree.base if await is_ancestor(self.git, view, last, self.tree.base) else last

    async def follow(self, view: View, tip: str, new: str) -> None:
        """Have the branch be at ``new``: made where it is not there yet, moved from where it was."""
        name = f"refs/heads/{self.tree.branch}"
        known = await self.git.run(view, "rev-parse", "--verify", "--quiet", name)
        await self.git.said(view, "update-ref", name, new, known.stdout.decode("ascii", "replace").strip())


async def clone_base(repository: Repository) -> Base:
    """The commit that clones of the project begin with. Raises Refused (bad_definition) where there can be none."""
    try:
        return await repository.base()
    except Refused as refused:
        raise unusable_on_nodes(refused) from refused


LOST: Final = "refs/agent-worker/lost"
"""Refs below it keep what was done on a node that the branch has no place for any more."""


class Synced(msgspec.Struct, frozen=True):
    """The commit that both sides have. ``notes``: what somebody should know, in words."""

    tip: str
    notes: tuple[str, ...] = ()


class NodeSync:
    """One branch and its clone. ``agent`` is in whose name is committed there, ``message`` what is said of it."""

    def __init__(self, home: HomeBranch, clone: NodeClone, *, node: str, agent: str, message: str) -> None:
        self._home = home
        self._clone = clone
        self._node = node
        self._agent = agent
        self._message = message

    async def bring(self, *, live: bool = False) -> Synced:
        """Bring the clone to the branch, made unless it is there. Raises Refused, SpawnTransient.

        ``live``: its agent may be working there.
        """
        home, clone, notes = self._home, self._clone, list[str]()
        async with home.git.view(home.directory) as view:
            author = await self._author(view)
            head: str | None = None
            there = (await clone.look()).there
            if there:
                if not live:
                    await clone.unlock()
                try:
                    head = await self._settled(view, author, notes)
                except Refused as refused:
                    if live:
                        raise
                    aside, there = await clone.set_aside(), False
                    notes.append(f"{refused.text}; what was in its clone on {self._node} is in {aside} there")
            tip = await home.tip(view)
            if not there:
                await clone.make(len(tip), (author.name, author.email))
            known = await self._known(view, [head, await clone.here()]) if head != tip else []
            if head != tip and tip not in known:
                async with home.git.folder() as folder:
                    pack, shallow = Path(folder, "pack"), trio.Path(view.folder, "shallow")
                    await write_pack(home.git, view, tip, known, pack, "--thin")
                    await clone.take(pack, await shallow.read_bytes() if await shallow.exists() else b"")
            if head != tip:
                await clone.check_out(tip, head)
        return Synced(tip, tuple(notes))

    async def collect(self, message: str = "", *, live: bool = False) -> Synced:
        """Take what was done in the clone into the branch. Raises Refused, and then it stays there; SpawnTransient.

        ``message`` is said of what is committed by that. ``live``: its agent may be working there.
        """
        home, clone = self._home, self._clone
        async with home.git.view(home.directory) as view:
            tip = await home.tip(view)
            if not live:
                await clone.unlock()
            head = await clone.head()
            if head is None:
                raise failed(f"the branch {home.tree.branch} is gone on {self._node}", f"see {clone.view.top} there")
            made = await clone.commit(head, message or self._message, await self._author(view))
            if made != tip:
                await self._fetch(view, made, tip)
                if not await is_ancestor(home.git, view, tip, made):
                    text = f"{made[:12]}, the last commit there, does not follow from {tip[:12]}"
                    raise failed(text, f"see {clone.view.top} on {self._node}")
                await home.follow(view, tip, made)
            if made != await clone.here():
                await clone.mark(made)
        return Synced(made)

    async def clear(self) -> Synced:
        """Remove the clone, of a run that is over; what is only there comes here first, under a ref of its own.

        Raises Refused, and then it stays; SpawnTransient.
        """
        home, clone, notes = self._home, self._clone, list[str]()
        async with home.git.view(home.directory) as view:
            made = ""
            if not (await clone.look()).there:
                raise failed("it is no git repository any more", f"see {clone.place} on {self._node}")
            await clone.unlock()
            head = await clone.head()
            if head is not None:
                made = await clone.commit(head, self._message, await self._author(view))
                if not await self._held(view, made):
                    await self._fetch(view, made, home.tree.base)
                    await self._keep(view, made, notes)
            await clone.remove()
        return Synced(made, tuple(notes))

    async def _author(self, view: View) -> Author:
        home = self._home
        return await author_of(home.git, view, self._agent, await home.git.manner(home.directory))

    async def _held(self, view: View, made: str) -> bool:
        if not await has_commit(self._home.git, view, made):
            return False
        words = ("rev-list", "--count", "--max-count=1", made, "--not", "--all")
        return not int(await self._home.git.said(view, *words))

    async def _keep(self, view: View, made: str, notes: list[str]) -> None:
        branch = self._home.tree.branch
        ref = f"{LOST}/{branch.removeprefix('awk/')}/{made[:12]}"
        await self._home.git.said(view, "update-ref", ref, made)
        notes.append(f"what was left on {self._node} has no place on {branch} any more: it is kept as {ref}")

    async def _settled(self, view: View, author: Author, notes: list[str]) -> str | None:
        """Have all that is in the clone here, too. Returns the clone's last commit. Raises Refused."""
        home, clone = self._home, self._clone
        head = await clone.head()
        if head is None:
            return None
        tip = await home.tip(view)
        made = await clone.commit(head, self._message, author)
        if made == tip or await self._held(view, made):
            return made
        await self._fetch(view, made, tip)
        if await is_ancestor(home.git, view, tip, made):
            await home.follow(view, tip, made)
            notes.append(f"what was left on {self._node} is taken: {made[:12]}")
        else:
            await self._keep(view, made, notes)
        return made

    async def _fetch(self, view: View, made: str, tip: str) -> None:
        """Have the commits of ``made`` here. Raises Refused where they are not to be had, or not taken."""
        home, clone = self._home, self._clone
        here = await self._known(view, [await clone.here()])
        async with home.git.folder() as folder:
            pack = Path(folder, "pack")
            await write_pack(clone.git, clone.view, made, here, pack, "--thin")
            await take_commits(home.git, view, made, [tip, home.tree.base], pack)

    async def _known(self, view: View, claimed: Sequence[str | None]) -> list[str]:
        names = dict.fromkeys(one for one in claimed if one is not None)
        return [one for one in names if await has_commit(self._home.git, view, one)]
