"""The git repository of a project: the start, creation, changes and removal of its working trees.

The user's own configuration applies; programs and settings of the repository are never run. Operations on the files of
a confined agent run in its sandbox. Only trees that were not completed and never used are removed by force.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.git.clone import (
    bring_back,
    clone_of,
    has_clone,
    make_clone,
    objects_behind,
    remove_clone,
    shared_objects,
    unmerged,
)
from kernel.git.directory import (
    GitDirectory,
    NoRepository,
    branch_in,
    check_not_locked,
    find_git_directory,
    folder_in,
    link_tree,
    linked_trees,
    unlink_tree,
)
from kernel.git.runner import ProjectGit, failed, unusable
from kernel.git.tree_commits import WritableTree
from kernel.git.view import GitView, Manner
from kernel.procs.launcher import Launcher
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused
from protocol.ipc import Sandbox
from protocol.names import run_id

PATCH_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a diff; a longer one is marked as truncated."""
COMMITS: Final = 100
"""Maximum number of a branch's commits in ``TreeChanges``: the newest ones."""
INCLUDE: Final = ".worktreeinclude"
_PLAIN: Final = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty")
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--ignore-submodules=dirty")
"""The option overrides a submodule's own ``ignore`` setting, with which git would run in the submodule."""
_SUBMODULE: Final = "160000 "
_OURS: Final = frozenset({"planned", "removing"})
"""States in which a tree contains no work: its creation or removal is in progress."""
OTHERS: Final = "--exclude=awk/*"
"""Excludes agents' branches: commits that exist only there are not landed, and such a branch may be removed."""


class TreeBase(msgspec.Struct, frozen=True):
    """The start of working trees: a commit, the repository, and the project's folder in it ("" for the top).

    ``changed`` is the number of files with uncommitted changes, which new trees do not contain.
    """

    commit: str
    repository: str
    folder: str
    changed: int
    branch: str = ""
    """The checked-out branch, or ""."""


class ChangedFile(msgspec.Struct, frozen=True):
    """A changed file; lines of a binary file are not counted."""

    path: str
    added: int
    deleted: int


class TreeChanges(msgspec.Struct, frozen=True):
    """All changes in a tree since its base, committed or not. ``commits`` are (hash, subject), newest first."""

    files: tuple[ChangedFile, ...]
    commits: tuple[tuple[str, str], ...]
    patch: str = ""
    truncated: bool = False


class Repository:
    """The repository at ``root`` or above it. ``place`` is the kernel's folder for working trees.

    Parameter ``box`` of its methods: the sandbox of the tree's agent; None if the agent is not confined.
    """

    def __init__(
        self, root: Path, place: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]
    ) -> None:
        self._root = str(root)
        self.place = Path(os.path.realpath(place))
        self.git = ProjectGit(self.place, launcher=launcher, environ=environ, own_bin=own_bin)
        self._turns: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        """By branch: transfers and writes are serialized."""

    async def base(self) -> TreeBase:
        """Return the start of new trees. Raises Refused (bad_definition) if none can be created."""
        directory = await self._directory()
        folder = folder_in(self._root, directory)
        async with self.git.view(directory) as view:
            commit = await self.git.commit_of(view, "HEAD")
            if commit is None:
                why = f"the repository at {self._root} has no commit yet"
                raise unusable(NoRepository(why, "git add, and commit"))
            if folder and not (await self.git.run(view, "cat-file", "-e", f"{commit}:{folder}")).ok:
                why = f"{folder} is not part of the repository of {self._root}"
                raise unusable(NoRepository(why, "commit it, or git init here"))
            status = await self.git.said(view, *_STATUS, "--untracked-files=no")
        return TreeBase(commit, directory.common, folder, status.count(b"\0"), branch_in(directory.own))

    async def branches(self) -> frozenset[str]:
        """Return the full names of all branches that could conflict with ours."""
        async with self.git.view(await self._directory()) as view:
            listed = await self.git.said(view, "for-each-ref", "--format=%(refname)", "refs/heads/awk")
        return frozenset(os.fsdecode(listed).split())

    async def add(self, tree: Worktree, *, confined: bool = False) -> str:
        """Create ``tree``, also after an interrupted attempt. Returns its git directory in the repository.

        Raises Refused (setup_failed). Create one tree at a time: git does not lock all files that it should.
        """
        await trio.to_thread.run_sync(_check_free, tree)
        async with self.git.view(_refs(tree)) as view:
            # The commit of its branch, which is created if it is missing.
            if tree.state in _OURS:  # no other process knows the name: the lock is from a dead process of ours
                await trio.Path(f"{tree.repository}/refs/heads/{tree.branch}.lock").unlink(missing_ok=True)
            tip = await self.git.commit_of(view, f"refs/heads/{tree.branch}")
            if tip is None:
                await self.git.said(view, "update-ref", f"refs/heads/{tree.branch}", tree.base, "")  # only if it is new
            elif tree.state == "planned" and tip != tree.base:
                raise failed(f"branch {tree.branch} already exists", "rename it, or use another --tag")
            tip = tip or tree.base
        await trio.to_thread.run_sync(_make_room, tree)
        own = await trio.to_thread.run_sync(link_tree, tree.repository, tree.path, tree.branch)
        directory = GitDirectory(own, tree.repository, tree.path)
        async with self.git.view(directory) as view:
            # Write all files of the commit into the empty tree.
            index = f"{own}/index"
            indexed = {"GIT_INDEX_FILE": index}
            result = await self.git.run(view, "read-tree", "--reset", "-u", tip, variables=indexed)
            if not result.ok:
                words = ("rev-list", "--objects", "--missing=print", "--max-count=1", tip)
                listed = await self.git.run(view, *words)
                missing = [
                    line for line in listed.stdout.decode("utf-8", "replace").splitlines() if line.startswith("?")
                ]
                if missing:
                    text = f"object missing in the repository: {missing[0][1:]}, and {len(missing) - 1} more"
                    raise failed(text, "run git fsck, and fetch the missing objects: git does not fetch them here")
                raise failed(f"the files of {tip[:12]} cannot be written: {self.git.why(result)}")
            if confined and not has_clone(tree):  # after the user removed a tree, its clone still exists
                await make_clone(self.git, msgspec.structs.replace(tree, git_dir=own), view)
        return own

    async def confine(self, tree: Worktree) -> None:
        """Create the clone of an agent that works in ``tree`` and becomes confined. Raises Refused."""
        async with self.git.view(_outside(tree)) as view:
            await make_clone(self.git, tree, view)

    async def included(self) -> tuple[str, ...]:
        """Return the files that ``.worktreeinclude`` names and git ignores, relative to the project."""
        include = os.path.join(self._root, INCLUDE)
        if not await trio.Path(include).is_file():
            return ()
        words = ("ls-files", "-z", "--others", "--ignored")
        async with self.git.view(await self._directory()) as view:
            named = await self.git.said(view, *words, f"--exclude-from={include}", cwd=self._root)
            ignored = set((await self.git.said(view, *words, "--exclude-standard", cwd=self._root)).split(b"\0"))
        return tuple(os.fsdecode(path) for path in named.split(b"\0") if path and path in ignored)

    async def changes(self, tree: Worktree, *, box: Sandbox | None = None, patch: bool = False) -> TreeChanges:
        """Return the changes in ``tree``, including new files, without changing it. Raises Refused (setup_failed)."""
        async with self.over(tree, box) as (view, inside):
            await self._add_new(inside)
            found = await self._compared(inside, tree.base, patch=patch)
            shown = ("log", "-z", "--format=%H%x09%s", f"--max-count={COMMITS}", f"{tree.base}..HEAD")
            log = await self.git.said(view, *shown)
        logged = (row.decode("utf-8", "replace").partition("\t") for row in log.split(b"\0") if row)
        return msgspec.structs.replace(found, commits=tuple((commit, subject) for commit, _tab, subject in logged))

    async def between(self, repository: str, since: str, until: str, *, patch: bool = False) -> TreeChanges:
        """Return the changes between two commits. Raises Refused (setup_failed, bad_definition)."""
        async with self.git.view(GitDirectory(repository, repository, "")) as view:
            return await self._compared(view, since, until, patch=patch)

    async def _compared(self, view: GitView, *commits: str, patch: bool) -> TreeChanges:
        numbers = await self.git.said(view, "diff", "--numstat", "-z", *_PLAIN, *commits)
        text, truncated = b"", False
        if patch:
            diff = await self.git.run(view, "diff", *_PLAIN, *commits, limit_bytes=PATCH_BYTES)
            if not diff.ok and not diff.truncated:
                raise failed(f"git diff failed: {self.git.why(diff)}")
            text, truncated = diff.stdout, diff.truncated
        counted = (os.fsdecode(row).split("\t", 2) for row in numbers.split(b"\0") if row)
        files = tuple(ChangedFile(row[2], _count(row[0]), _count(row[1])) for row in counted if len(row) == 3)
        return TreeChanges(files, (), text.decode("utf-8", "replace"), truncated)

    async def tip(self, tree: Worktree, *, box: Sandbox | None = None) -> str | None:
        """Return the commit of the branch, updated from the clone of a confined agent; None if it was deleted.

        Raises Refused (setup_failed).
        """
        if box is not None and await trio.Path(tree.path).exists():
            try:
                async with self.git.view(_outside(tree)) as view, self._turns[tree.branch]:
                    return await bring_back(self.git, tree, view, box)
            except Refused:
                if await trio.Path(tree.path).exists():
                    raise
                # Removed meanwhile, with nothing in it that was not transferred.
        async with self.git.view(_refs(tree)) as view:
            return await self.git.commit_of(view, f"refs/heads/{tree.branch}")

    async def losses(self, tree: Worktree, *, box: Sandbox | None = None) -> str | None:
        """Return a description of the work that would be lost with ``tree``, or None.

        Of a partially removed tree, only the remaining files count.
        """
        async with self.over(tree, box) as (view, inside):
            left = await self._unclean(tree, inside)
            if left:
                return f"uncommitted files: {left}"
            # Whether a submodule has files: git does not track its content.
            listed = os.fsdecode(await self.git.said(inside, "ls-files", "--stage", "-z")).split("\0")
            folders = [entry.partition("\t")[2] for entry in listed if entry.startswith(_SUBMODULE)]
            if await trio.to_thread.run_sync(_any_filled, tree.path, folders):
                return "submodules, which may contain work"
            known = ("--not", tree.base, OTHERS, "--branches", "--remotes", "--tags")
            kept = await self.git.said(view, "for-each-ref", "--format=%(refname)", left_refs(tree))
            tips = (
                "HEAD",
                (await self.git.commit_of(view, f"refs/heads/{tree.branch}")) or "HEAD",
                *os.fsdecode(kept).split(),
            )
            count = int(await self.git.said(view, "rev-list", "--count", *tips, *known))
            if not count and box is not None:
                count = await unmerged(self.git, tree, view, box)
        return f"commits that are on no other branch: {count}" if count else None

    async def remove(self, tree: Worktree, *, box: Sandbox | None = None, force: bool = False) -> None:
        """Remove ``tree`` if it has no unsaved work, and its branch if the branch has no commits of its own.

        ``force``: a person has accepted the loss. Raises Refused (setup_failed) if there is unsaved work or a
        user's lock.
        """
        there = await trio.Path(tree.path).exists()
        if force and tree.git_dir:
            check_not_locked(tree.git_dir)
        elif there and tree.state not in _OURS:
            check_not_locked(tree.git_dir)
            async with self.over(tree, box) as (_, inside):
                if await self._unclean(tree, inside):
                    raise failed(f"{tree.path} contains modified or untracked files", "commit them, or move them away")
        await trio.to_thread.run_sync(_discard, tree)
        async with self.git.view(_refs(tree)) as view:
            tip = await self.git.commit_of(view, f"refs/heads/{tree.branch}")
            if tip is not None and await self._may_go(tree, tip, view, force=force):
                await self.git.said(view, "update-ref", "-d", f"refs/heads/{tree.branch}", tip)  # fails if it has moved
            left = await self.git.said(view, "for-each-ref", "--format=delete %(refname)", left_refs(tree))
            if left:  # without force, such a tree is never removed
                await self.git.said(view, "update-ref", "--stdin", given=left)
        for folder in list(Path(tree.path).parents)[:2]:
            with suppress(OSError):
                folder.rmdir()

    @asynccontextmanager
    async def over(self, tree: Worktree, box: Sandbox | None) -> AsyncGenerator[tuple[GitView, GitView]]:
        """Yield two views of ``tree``: for its refs, and for its files, which runs git in ``box`` if given."""
        async with self.git.view(_outside(tree)) as view:
            if box is None:
                yield view, view
                return
            async with self._turns[tree.branch]:
                tip = await bring_back(self.git, tree, view, box)
            objects = shared_objects(tree)
            async with self.git.closed_view(_outside(tree), view, tip=tip, objects=objects, sandbox=box) as inside:
                yield view, inside

    @asynccontextmanager
    async def writable(self, tree: Worktree, box: Sandbox | None) -> AsyncGenerator[tuple[GitView, WritableTree]]:
        """Yield a view of ``tree`` and write access to it. After the block, a clone's commits are fetched.

        Raises Refused.
        """
        async with self._turns[tree.branch], self.git.view(_outside(tree)) as view:
            if box is None:
                objects = {"GIT_OBJECT_DIRECTORY": objects_behind(view)}
                yield view, WritableTree(tree, view, f"{tree.git_dir}/index", objects)
                return
            await bring_back(self.git, tree, view, box)  # commits that the agent has made itself
            yield view, WritableTree(tree, GitView(clone_of(tree), tree.path, box))
            await bring_back(self.git, tree, view, box)  # commits of the block

    async def manner(self, tree: Worktree) -> Manner:
        """Return the formats of the repository of ``tree``, and the user's name there. Raises Refused."""
        return await self.git.manner(_outside(tree))

    async def _directory(self) -> GitDirectory:
        try:
            return await trio.to_thread.run_sync(find_git_directory, Path(self._root))
        except NoRepository as error:
            text = f"{self._root} is not a working tree of a git repository ({error})"
            raise unusable(NoRepository(text, error.hint)) from error

    async def _add_new(self, view: GitView) -> None:
        listed = await self.git.said(view, "ls-files", "-z", "--others", "--exclude-standard")
        files = b"".join(name + b"\0" for name in listed.split(b"\0") if name and not name.endswith(b"/"))
        if files:
            names = Path(view.folder, "new-files")
            await trio.Path(names).write_bytes(files)
            words = ("add", "--intent-to-add", f"--pathspec-from-file={names}", "--pathspec-file-nul")
            await self.git.said(view, *words)

    async def _unclean(self, tree: Worktree, view: GitView) -> int:
        entries = (await self.git.said(view, *_STATUS, "--untracked-files=normal")).split(b"\0")
        return sum(1 for one in entries if one and (tree.state != "removing" or one[:2] != b" D"))

    async def _may_go(self, tree: Worktree, tip: str, view: GitView, *, force: bool) -> bool:
        with suppress(Refused):
            await trio.to_thread.run_sync(_check_free, tree)
            if force:
                return True
            own = ("rev-list", "--count", tip, "--not", tree.base, OTHERS)
            return (await self.git.said(view, *own, "--branches", "--remotes", "--tags")).strip() == b"0"
        return False


def unlock(tree: Worktree) -> None:
    """Remove locks of git processes that an earlier kernel started. Blocks. No process may be using ``tree``."""
    clone, ref = clone_of(tree), f"refs/heads/{tree.branch}"
    own = os.path.relpath(tree.git_dir, tree.repository)
    for top, name in (
        *((tree.repository, name) for name in (f"{own}/index", f"{own}/HEAD", ref)),
        *((clone, name) for name in ("index", "HEAD", ref)),
    ):
        lock = f"{top}/{name}.lock"
        with suppress(OSError):  # links may be in the path, in a clone those of its agent
            if os.path.realpath(lock) == f"{os.path.realpath(top)}/{name}.lock":
                os.unlink(lock)


def left_refs(tree: Worktree) -> str:
    """Return the prefix of refs to commits that resets removed from the branch of ``tree``."""
    return f"refs/awk/left/{run_id(tree.run)}/{tree.name}"


def _outside(tree: Worktree) -> GitDirectory:
    return GitDirectory(tree.git_dir, tree.repository, tree.path)


def _refs(tree: Worktree) -> GitDirectory:
    return GitDirectory(tree.repository, tree.repository, "")


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def _check_free(tree: Worktree) -> None:
    main = (tree.repository, os.path.dirname(tree.repository), branch_in(tree.repository))
    for _, path, branch in (main, *linked_trees(tree.repository)):
        if branch == tree.branch and path != tree.path:
            raise failed(f"the branch {tree.branch} is checked out in {path}", "check out another branch there")


def _discard(tree: Worktree) -> None:
    shutil.rmtree(tree.path, ignore_errors=True)
    remove_clone(tree)
    unlink_tree(tree.repository, tree.path)


def _any_filled(top: str, folders: list[str]) -> bool:
    for folder in folders:
        with suppress(OSError), os.scandir(os.path.join(top, folder)) as entries:
            if next(entries, None) is not None:
                return True
    return False


def _make_room(tree: Worktree) -> None:
    if tree.state in _OURS:
        _discard(tree)
    elif os.path.lexists(tree.path):
        raise failed(f"{tree.path} is no longer a working tree", "move it away: a new tree will be created")
    os.makedirs(os.path.dirname(tree.path), mode=0o700, exist_ok=True)
