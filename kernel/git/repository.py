"""The git repository that a project is in: what its working trees begin with, are made of, and would lose.

The user's own configuration counts, for it is theirs; nothing that the repository brings along is run. What is
done over the files of a confined agent is done in its sandbox. Nothing here is ever forced but what was half made by us
and never handed out.
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
"""Of a diff; what is longer is cut, and said to be."""
COMMITS: Final = 100
"""Shown of a branch, the newest ones."""
INCLUDE: Final = ".worktreeinclude"
_PLAIN: Final = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty")
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--ignore-submodules=dirty")
"""Said in each call: a submodule's own ``ignore`` outweighs a setting, and git would be started in there."""
_SUBMODULE: Final = "160000 "
_OURS: Final = frozenset({"planned", "removing"})
"""States in which nobody's work is in a tree: what is there is what we began, or had not yet removed."""
OTHERS: Final = "--exclude=awk/*"
"""Branches of agents: what only colleagues have besides has not landed, and each of them could go by the others."""


class TreeBase(msgspec.Struct, frozen=True):
    """The start of working trees: a commit, the repository, and the project's place in it ("": its top).

    ``changed`` files are not as they are in that commit: what was done to them stays behind.
    """

    commit: str
    repository: str
    folder: str
    changed: int
    branch: str = ""
    """The branch that is checked out; "": none."""


class ChangedFile(msgspec.Struct, frozen=True):
    """One file that is not as it was; of a binary one lines are not counted."""

    path: str
    added: int
    deleted: int


class TreeChanges(msgspec.Struct, frozen=True):
    """All that was done in a tree since its base, committed or not. ``commits`` are (hash, subject), newest first."""

    files: tuple[ChangedFile, ...]
    commits: tuple[tuple[str, str], ...]
    patch: str = ""
    truncated: bool = False


class Repository:
    """The one at ``root`` or above it. ``place`` is where working trees are made, and ours alone.

    A ``box`` is the sandbox of a tree whose agent is confined.
    """

    def __init__(
        self, root: Path, place: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]
    ) -> None:
        self._root = str(root)
        self.place = Path(os.path.realpath(place))
        self.git = ProjectGit(self.place, launcher=launcher, environ=environ, own_bin=own_bin)
        self._turns: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        """By branch: it comes back, and is written to, once at a time."""

    async def base(self) -> TreeBase:
        """The start of trees that are made now. Raises Refused (bad_definition) where none can be made."""
        directory = await self._directory()
        folder = folder_in(self._root, directory)
        async with self.git.view(directory) as view:
            commit = await self.git.commit_of(view, "HEAD")
            if commit is None:
                why = f"the repository at {self._root} has no commit yet"
                raise unusable(NoRepository(why, "git add, and commit"))
            if folder and not (await self.git.run(view, "cat-file", "-e", f"{commit}:{folder}")).ok:
                why = f"{folder} is not in the repository that {self._root} is in"
                raise unusable(NoRepository(why, "commit it, or git init here"))
            status = await self.git.said(view, *_STATUS, "--untracked-files=no")
        return TreeBase(commit, directory.common, folder, status.count(b"\0"), branch_in(directory.own))

    async def branches(self) -> frozenset[str]:
        """The full names of all branches that could be in our way."""
        async with self.git.view(await self._directory()) as view:
            listed = await self.git.said(view, "for-each-ref", "--format=%(refname)", "refs/heads/awk")
        return frozenset(os.fsdecode(listed).split())

    async def add(self, tree: Worktree, *, confined: bool = False) -> str:
        """Make ``tree``, whatever an earlier try left of it. Returns its own directory in the repository.

        Raises Refused (setup_failed). Call it for one tree at a time: git itself does not lock all it should.
        """
        await trio.to_thread.run_sync(_check_free, tree)
        async with self.git.view(_refs(tree)) as view:
            # The commit of its branch, which is made unless it is there.
            if tree.state in _OURS:  # nobody else knows the name yet: who locked it was one of us, and is dead
                await trio.Path(f"{tree.repository}/refs/heads/{tree.branch}.lock").unlink(missing_ok=True)
            tip = await self.git.commit_of(view, f"refs/heads/{tree.branch}")
            if tip is None:
                await self.git.said(view, "update-ref", f"refs/heads/{tree.branch}", tree.base, "")  # only if it is new
            elif tree.state == "planned" and tip != tree.base:
                raise failed(f"there is a branch {tree.branch} already", "rename it, or give another --tag")
            tip = tip or tree.base
        await trio.to_thread.run_sync(_make_room, tree)
        own = await trio.to_thread.run_sync(link_tree, tree.repository, tree.path, tree.branch)
        directory = GitDirectory(own, tree.repository, tree.path)
        async with self.git.view(directory) as view:
            # Write all files of commit into an empty tree. Raises Refused (setup_failed).
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
                    text = f"an object is missing in the repository: {missing[0][1:]}, and {len(missing) - 1} more"
                    raise failed(text, "git fsck, and fetch what is missing: nothing is fetched here")
                raise failed(f"the files of {tip[:12]} cannot be written: {self.git.why(result)}")
            if confined and not has_clone(tree):  # of a tree that somebody removed, it is there still
                await make_clone(self.git, msgspec.structs.replace(tree, git_dir=own), view)
        return own

    async def confine(self, tree: Worktree) -> None:
        """Have the agent of ``tree``, which was not confined before, work in a clone. Raises Refused."""
        async with self.git.view(_outside(tree)) as view:
            await make_clone(self.git, tree, view)

    async def included(self) -> tuple[str, ...]:
        """Files of the project that ``.worktreeinclude`` names and git ignores, as seen from the project."""
        include = os.path.join(self._root, INCLUDE)
        if not await trio.Path(include).is_file():
            return ()
        words = ("ls-files", "-z", "--others", "--ignored")
        async with self.git.view(await self._directory()) as view:
            named = await self.git.said(view, *words, f"--exclude-from={include}", cwd=self._root)
            ignored = set((await self.git.said(view, *words, "--exclude-standard", cwd=self._root)).split(b"\0"))
        return tuple(os.fsdecode(path) for path in named.split(b"\0") if path and path in ignored)

    async def changes(self, tree: Worktree, *, box: Sandbox | None = None, patch: bool = False) -> TreeChanges:
        """The changes in ``tree``, new files included. Changes nothing there. Raises Refused (setup_failed)."""
        async with self.over(tree, box) as (view, inside):
            await self._add_new(inside)
            numbers = await self.git.said(inside, "diff", "--numstat", "-z", *_PLAIN, tree.base)
            text, truncated = b"", False
            if patch:
                diff = await self.git.run(inside, "diff", *_PLAIN, tree.base, limit_bytes=PATCH_BYTES)
                if not diff.ok and not diff.truncated:
                    raise failed(f"git diff failed: {self.git.why(diff)}")
                text, truncated = diff.stdout, diff.truncated
            shown = ("log", "-z", "--format=%H%x09%s", f"--max-count={COMMITS}", f"{tree.base}..HEAD")
            log = await self.git.said(view, *shown)
        counted = (os.fsdecode(row).split("\t", 2) for row in numbers.split(b"\0") if row)
        files = tuple(ChangedFile(row[2], _count(row[0]), _count(row[1])) for row in counted if len(row) == 3)
        logged = (row.decode("utf-8", "replace").partition("\t") for row in log.split(b"\0") if row)
        commits = tuple((commit, subject) for commit, _tab, subject in logged)
        return TreeChanges(files, commits, text.decode("utf-8", "replace"), truncated)

    async def tip(self, tree: Worktree, *, box: Sandbox | None = None) -> str | None:
        """The commit that its branch is at, once that of a confined agent has come back; None: it is gone.

        Raises Refused (setup_failed).
        """
        if box is not None and await trio.Path(tree.path).exists():
            try:
                async with self.git.view(_outside(tree)) as view, self._turns[tree.branch]:
                    return await bring_back(self.git, tree, view, box)
            except Refused:
                if await trio.Path(tree.path).exists():
                    raise
                # It was removed meanwhile, with nothing in it that had not come back.
        async with self.git.view(_refs(tree)) as view:
            return await self.git.commit_of(view, f"refs/heads/{tree.branch}")

    async def losses(self, tree: Worktree, *, box: Sandbox | None = None) -> str | None:
        """The work that would be lost with ``tree``, in words; None: nothing.

        Of one half removed, what is left counts.
        """
        async with self.over(tree, box) as (view, inside):
            left = await self._unclean(tree, inside)
            if left:
                return f"changed or new files that are not committed: {left}"
            # Whether a submodule was filled: git knows nothing of what is in there.
            listed = os.fsdecode(await self.git.said(inside, "ls-files", "--stage", "-z")).split("\0")
            folders = [entry.partition("\t")[2] for entry in listed if entry.startswith(_SUBMODULE)]
            if await trio.to_thread.run_sync(_any_filled, tree.path, folders):
                return "submodules are in it, which may have work of their own"
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
        """Remove ``tree``, which has nothing to lose, and its branch where that has nothing of its own.

        ``force``: a person has said that what is only there may be lost. Raises Refused (setup_failed) where there is
        something in it after all, or somebody keeps it there.
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
                await self.git.said(view, "update-ref", "-d", f"refs/heads/{tree.branch}", tip)
            left = await self.git.said(view, "for-each-ref", "--format=delete %(refname)", left_refs(tree))
            if left:  # nobody removes a tree with something to lose there but by force
                await self.git.said(view, "update-ref", "--stdin", given=left)
        for folder in list(Path(tree.path).parents)[:2]:
            with suppress(OSError):
                folder.rmdir()

    @asynccontextmanager
    async def over(self, tree: Worktree, box: Sandbox | None) -> AsyncGenerator[tuple[GitView, GitView]]:
        """A view of ``tree`` as everybody sees it, and one for git that reads its files: in ``box`` if there is one."""
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
        """A view of ``tree`` as everybody sees it, and a way to write to it. A confined one comes back after the block.

        Raises Refused.
        """
        async with self._turns[tree.branch], self.git.view(_outside(tree)) as view:
            if box is None:
                objects = {"GIT_OBJECT_DIRECTORY": objects_behind(view)}
                yield view, WritableTree(tree, view, f"{tree.git_dir}/index", objects)
                return
            await bring_back(self.git, tree, view, box)
            yield view, WritableTree(tree, GitView(clone_of(tree), tree.path, box))
            await bring_back(self.git, tree, view, box)

    async def manner(self, tree: Worktree) -> Manner:
        """The formats of the repository that ``tree`` is of, and the user's own name there. Raises Refused."""
        return await self.git.manner(_outside(tree))

    async def _directory(self) -> GitDirectory:
        try:
            return await trio.to_thread.run_sync(find_git_directory, Path(self._root))
        except NoRepository as error:
            text = f"{self._root} is no working tree of a git repository ({error})"
            raise unusable(NoRepository(text, error.hint)) from error

    async def _add_new(self, view: GitView) -> None:
        """Have new files in the index of the view, so that a diff shows them."""
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
    """Remove what gits left in ``tree`` that were killed with an earlier kernel. Blocks; nobody may work there yet."""
    clone, ref = clone_of(tree), f"refs/heads/{tree.branch}"
    own = os.path.relpath(tree.git_dir, tree.repository)
    for top, name in (
        *((tree.repository, name) for name in (f"{own}/index", f"{own}/HEAD", ref)),
        *((clone, name) for name in ("index", "HEAD", ref)),
    ):
        lock = f"{top}/{name}.lock"
        with suppress(OSError):  # links can be on the way, in the clone those of its agent
            if os.path.realpath(lock) == f"{os.path.realpath(top)}/{name}.lock":
                os.unlink(lock)


def left_refs(tree: Worktree) -> str:
    """Refs below it keep what the tree was reset away from: on no branch, but in the repository as long as it is."""
    return f"refs/awk/left/{run_id(tree.run)}/{tree.name}"


def _outside(tree: Worktree) -> GitDirectory:
    return GitDirectory(tree.git_dir, tree.repository, tree.path)


def _refs(tree: Worktree) -> GitDirectory:
    return GitDirectory(tree.repository, tree.repository, "")


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def _check_free(tree: Worktree) -> None:
    """Blocks. Raises Refused (setup_failed) where somebody has the branch checked out in another tree."""
    main = (tree.repository, os.path.dirname(tree.repository), branch_in(tree.repository))
    for _, path, branch in (main, *linked_trees(tree.repository)):
        if branch == tree.branch and path != tree.path:
            raise failed(f"the branch {tree.branch} is checked out in {path}", "check out another one there")


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
    """Blocks. Raises Refused where somebody put something there."""
    if tree.state in _OURS:
        _discard(tree)
    elif os.path.lexists(tree.path):
        raise failed(f"{tree.path} is no working tree any more", "move it away: it will be made anew")
    os.makedirs(os.path.dirname(tree.path), mode=0o700, exist_ok=True)
