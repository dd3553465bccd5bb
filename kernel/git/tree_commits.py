"""Commits in a working tree, and moves of the tree to another commit, with git's plumbing commands.

No hooks run, and only filters of the user. A commit is prepared in a separate index; then the tree's index is
replaced, and its branch moves last, provided that it is still at the expected commit. A kernel crash leaves either no
commit or a complete one. A retry commits only what differs from the branch, so a complete commit is not repeated.
"""

import os
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.git.clone import clone_of
from kernel.git.runner import COMMIT, Git, ProjectGit, failed
from kernel.git.view import INDEX_BYTES, GitView, Manner
from kernel.source.safe_paths import copy_path
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused

NAMED: Final = 20
"""Maximum number of files named in the text of a Refused; of the other files only the number is shown."""
_UNDER_WAY: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_SUBMODULE: Final = "160000 "
_SLASH: Final = ord("/")
_OLD_GIT: Final = 129
"""Exit code of git for an unknown option."""
_NO_OBJECTS: Final[Mapping[str, str]] = {}


class WritableTree(msgspec.Struct, frozen=True):
    """Write access to ``tree``. ``view`` has its files, and an index that later replaces ``index``.

    Of a confined agent, ``view`` is the clone in the sandbox. It uses the clone's index directly: ``index`` is "".
    """

    tree: Worktree
    view: GitView
    index: str = ""
    objects: Mapping[str, str] = _NO_OBJECTS
    """Environment variables that name the folder to which git writes new objects."""

    @property
    def branch(self) -> str:
        """Return the full name of the tree's branch."""
        return f"refs/heads/{self.tree.branch}"


class CommitAuthor(msgspec.Struct, frozen=True):
    """The author of an agent's commits: the user's name and email, with the agent's name added."""

    name: str
    email: str

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that set the author in git."""
        return {
            f"GIT_{who}_{what.upper()}": getattr(self, what)
            for who in ("AUTHOR", "COMMITTER")
            for what in ("name", "email")
        }


async def author_of(git: Git, view: GitView, agent: str, manner: Manner) -> CommitAuthor:
    """Return the author of ``agent``'s commits: the user as named in ``manner`` (the repository), else by git."""
    found: list[str] = []
    for key, value in (("user.name", manner.name), ("user.email", manner.email)):
        asked = value or (await git.run(view, "config", "--get", key)).stdout.decode("utf-8", "replace")
        found.append(" ".join(asked.split()).strip("<>"))
    name, email = found
    return CommitAuthor(f"{name} ({agent})" if name else agent, email or "agent-worker@localhost")


async def head_of(git: ProjectGit, writable: WritableTree) -> str:
    """Return the last commit of the tree's branch. Raises Refused for another branch or an unfinished operation."""
    tree = writable.tree
    out = (await git.run(writable.view, "symbolic-ref", "--quiet", "HEAD")).stdout.decode("utf-8", "replace").strip()
    if out != writable.branch:
        what = out.removeprefix("refs/heads/")[:100] or "no branch"
        raise failed(f"{what!r} is checked out in {tree.path}", f"git switch {shlex.quote(tree.branch)}")
    place = clone_of(tree) if writable.view.sandbox is not None else tree.git_dir
    under_way = await trio.to_thread.run_sync(_under_way, place)
    if under_way is not None:
        raise failed(f"a git operation is in progress in {tree.path} ({under_way})", "finish or abort it")
    return await commit_at(git, writable.view, writable.branch)


async def commit_at(git: Git, view: GitView, name: str) -> str:
    """Return the commit of ``name``. Raises Refused (setup_failed)."""
    said = await git.said(view, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    commit = said.decode("ascii", "replace").strip()
    if not COMMIT.fullmatch(commit):
        raise failed(f"{name[:100]!r} is not a commit")
    return commit


async def count(git: Git, view: GitView, tip: str, *without: str) -> int:
    """Return the number of commits of ``tip`` that are not in ``without``."""
    return int(await git.said(view, "rev-list", "--count", tip, "--not", *without))


async def changed_files(git: Git, view: GitView) -> tuple[str, ...]:
    """Return the paths of uncommitted files, including new files, without ignored files."""
    words = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty", "--untracked-files=all")
    rows = (await git.said(view, *words)).split(b"\0")
    return tuple(os.fsdecode(row[3:]) for row in rows if len(row) > 3)


async def stage(git: Git, writable: WritableTree) -> str:
    """Add the current files to the index. Returns the tree object. Raises Refused if files have conflicts.

    Ignored files, submodules, and folders that are repositories are left out.
    """
    unmerged = (await git.said(writable.view, "ls-files", "-z", "--unmerged")).split(b"\0")
    conflicts = sorted({os.fsdecode(row.partition(b"\t")[2]) for row in unmerged if row})
    if conflicts:
        raise failed(f"these files have conflicts: {named(conflicts)}", "resolve them: git add, or git checkout")
    listed = os.fsdecode(await git.said(writable.view, "ls-files", "-z", "--stage", "--modified")).split("\0")
    changed = [row.partition("\t")[2] for row in listed if row and not row.startswith(_SUBMODULE)]
    others = os.fsdecode(await git.said(writable.view, "ls-files", "-z", "--others", "--exclude-standard")).split("\0")
    changed += [name for name in others if name and not name.endswith("/")]  # with /: a nested repository
    if changed:
        words = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        given = b"".join(os.fsencode(name) + b"\0" for name in dict.fromkeys(changed))
        await git.said(writable.view, *words, given=given, variables=writable.objects)
    return (await git.said(writable.view, "write-tree", variables=writable.objects)).decode("ascii", "replace").strip()


async def commit_all(git: ProjectGit, writable: WritableTree, message: str, author: CommitAuthor) -> str | None:
    """Commit the current files on the tree's branch. Returns the new commit, or None if nothing has changed.

    Raises Refused (setup_failed).
    """
    head = await head_of(git, writable)
    staged = await stage(git, writable)
    before = (await git.said(writable.view, "rev-parse", f"{head}^{{tree}}")).decode("ascii", "replace").strip()
    made = None if staged == before else await commit_staged(git, writable, staged, (head,), message, author)
    await trio.to_thread.run_sync(take_over, writable)
    if made is not None:
        await git.said(writable.view, "update-ref", writable.branch, made, head)  # fails if the branch has moved
    return made


async def move(git: ProjectGit, writable: WritableTree, head: str, target: str) -> None:
    """Move the tree and its branch from ``head`` to ``target`` without losing uncommitted work.

    Continues an interrupted move. Raises Refused: conflict, and nothing has changed; setup_failed.
    """
    staged = await stage(git, writable)
    mine = await different(git, writable.view, head, staged)  # uncommitted changes
    lost = sorted(mine & await different(git, writable.view, staged, target)) if mine else []  # not so in target
    if lost:
        text = f"uncommitted changes would be lost: {named(lost)}"
        raise Refused("conflict", text, "commit them first: tree_commit")
    ignored = await in_the_way(git, writable.view, writable.tree.path, staged, target)
    if ignored:
        text = f"ignored files would be replaced by files of {target[:12]}: {named(ignored)}"
        raise Refused("conflict", text, "move them away first, or ask the author to remove them from the branch")
    await git.said(writable.view, "read-tree", "--reset", "-u", target, variables=writable.objects)
    await trio.to_thread.run_sync(take_over, writable)
    if target != head:
        await git.said(writable.view, "update-ref", writable.branch, target, head)  # fails if the branch has moved


async def merged(
    git: ProjectGit, writable: WritableTree, head: str, target: str, message: str, author: CommitAuthor
) -> str:
    """Create the commit that merges ``target`` into ``head`` without changing the tree. Raises Refused (conflict)."""
    words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, target)
    result = await git.run(writable.view, *words, variables=writable.objects)
    if result.exit.code == _OLD_GIT:
        raise failed("merging needs git 2.38 or newer", "upgrade git, or use mode: reset")
    tree, *files = os.fsdecode(result.stdout).rstrip("\0").split("\0")
    if result.exit.code == 1 and files:  # conflicts
        text = f"both sides changed the same lines of {named(sorted(set(files)))}; nothing was changed here"
        raise Refused("conflict", text, "resolve it with the author, or make the files identical")
    if not result.ok or not COMMIT.fullmatch(tree):
        raise failed(f"git merge-tree failed: {git.why(result)}")
    return await commit_staged(git, writable, tree, (head, target), message, author)


async def in_the_way(git: ProjectGit, view: GitView, top: str, old: str, new: str) -> tuple[str, ...]:
    """Return the paths in ``top`` that files of ``new`` would replace and that are not in ``old``, the current commit.

    Git would overwrite ignored files without a warning. Files with the same content as in ``new`` are not returned.
    """
    rows = (await git.said(view, "diff-tree", "-r", "-z", "--no-renames", "--diff-filter=AT", old, new)).split(b"\0")
    come = {name: facts.split(b" ")[3] for facts, name in zip(rows[::2], rows[1::2], strict=False)}
    if not come:
        return ()
    known = frozenset((await git.said(view, "ls-tree", "-r", "-z", "--name-only", "--full-tree", old)).split(b"\0"))
    met = await trio.to_thread.run_sync(_unknown_at, os.fsencode(top), come, known)
    there = {name: path for name, path in met.items() if name == path and b"\n" not in name}
    paths = b"".join(os.path.join(os.fsencode(top), name) + b"\n" for name in there)
    if paths:
        hashed = await git.run(view, "hash-object", "--no-filters", "--stdin-paths", given=paths)  # never a program
        same = hashed.stdout.split() if hashed.ok else []
        for name, digest in zip(there, same, strict=False):
            if digest == come[name]:
                del met[name]
    return tuple(sorted({os.fsdecode(path) for path in met.values()}))


def named(files: Sequence[str]) -> str:
    """Return a text with the names of the first of ``files`` and the number of the others."""
    shown = ", ".join(repr(name[:200]) for name in files[:NAMED])
    return f"{shown} and {len(files) - NAMED} more" if len(files) > NAMED else shown


async def commit_staged(
    git: Git, writable: WritableTree, tree: str, parents: Sequence[str], message: str, author: CommitAuthor
) -> str:
    """Create a commit of ``tree``, a tree object, and return it. No branch moves. Raises Refused (setup_failed)."""
    words = ("commit-tree", tree, *(word for parent in parents for word in ("-p", parent)))
    variables = {**writable.objects, **author.variables}
    said = await git.said(writable.view, *words, given=f"{message.rstrip()}\n".encode(), variables=variables)
    return said.decode("ascii", "replace").strip()


async def different(git: ProjectGit, view: GitView, one: str, other: str) -> frozenset[str]:
    """Return the files that differ between two commits or trees."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other)
    return frozenset(os.fsdecode(name) for name in (await git.said(view, *words)).split(b"\0") if name)


def _unknown_at(top: bytes, come: Iterable[bytes], known: frozenset[bytes]) -> dict[bytes, bytes]:
    """Map each new path in ``come`` to an existing path that is in its place and not in ``known``, if any."""
    met: dict[bytes, bytes] = {}
    for name in come:
        parts = name.split(b"/")
        for count in range(1, len(parts) + 1):
            path = b"/".join(parts[:count])
            try:
                mode = os.lstat(os.path.join(top, path)).st_mode
            except OSError:
                break
            if not stat.S_ISDIR(mode):  # also in the place of a parent folder
                if path not in known:
                    met[name] = path
                break
        else:  # a folder is in the place of a file
            inner = _unknown_in(top, name, known)
            if inner is not None:
                met[name] = inner
    return met


def _unknown_in(top: bytes, folder: bytes, known: frozenset[bytes]) -> bytes | None:
    """Return a path in ``folder`` that is not ``known``; only folders of known files are searched."""
    folders = {name[:end] for name in known for end, char in enumerate(name) if char == _SLASH}
    left = [folder]
    while left:
        with suppress(OSError), os.scandir(os.path.join(top, left.pop())) as entries:
            for entry in entries:
                path = os.path.relpath(entry.path, top)
                if path in folders and entry.is_dir(follow_symlinks=False):
                    left.append(path)
                elif path not in known:
                    return path
    return None


def _under_way(git_dir: str) -> str | None:
    return next((name for name in _UNDER_WAY if os.path.lexists(f"{git_dir}/{name}")), None)


def take_over(writable: WritableTree) -> None:
    """Replace the tree's index with the one that was prepared for the commit. Blocks."""
    if writable.index:
        new = Path(f"{writable.index}.awk")
        copy_path(f"{writable.view.folder}/index", str(new), INDEX_BYTES)
        new.rename(writable.index)  # atomic: git sees the old or the new index
