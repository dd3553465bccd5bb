"""The clone of a confined agent: a git directory of its own, whose branch comes back as data.

Its tree is a linked one of the project's repository to everybody else. In the sandbox a file of ours is in the place of
the tree's ``.git``, and names the clone, beside which no git directory can be written there. Objects of the project are
shared and read-only. What the agent made comes back as a pack, which git verifies object by object before it takes one;
then the one branch moves that is the agent's, if nobody else has moved it. git runs over the clone in the sandbox only.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from kernel.git.directory import GitDirectory
from kernel.git.exchange import has_commit, store_pack, verify_pack, write_pack
from kernel.git.runner import COMMIT, ProjectGit, failed
from kernel.git.view import (
    View,
    copy_index,
    copy_settings,
    filter_sections,
    section,
    write_alternates,
)
from kernel.store.transitions.worktrees import Worktree
from protocol.ipc import Sandbox

_CLONES: Final = ".clones"


def clone_of(tree: Worktree) -> str:
    """The folder of the clone of ``tree``, whether it has one or not."""
    path = Path(tree.path)
    place, name = path.parents[2], path.relative_to(path.parents[2])
    return str(place / _CLONES / name)


def link_of(tree: Worktree) -> str:
    """The file that is in the place of ``.git`` for the agent."""
    return f"{clone_of(tree)}.link"


def shared_objects(tree: Worktree) -> tuple[str, str]:
    """The folders of objects that are shared with the clone. A copy is there if the repository borrows from others."""
    return f"{clone_of(tree)}.objects", f"{tree.repository}/objects"


def has_clone(tree: Worktree) -> bool:
    """Return whether its agent is confined: from the first attempt that is to the removal of the tree."""
    return os.path.lexists(link_of(tree))


def remove_clone(tree: Worktree) -> None:
    """Remove what there is of it. Blocks."""
    clone = clone_of(tree)
    with suppress(FileNotFoundError):
        os.unlink(link_of(tree))
    for path in (clone, f"{clone}.objects"):
        shutil.rmtree(path, ignore_errors=True)
    for folder in list(Path(clone).parents)[:3]:
        with suppress(OSError):
            folder.rmdir()


async def make_clone(git: ProjectGit, tree: Worktree, view: View) -> None:
    """Make the clone of ``tree``, of which ``view`` is one. Raises Refused, SpawnTransient."""
    await trio.to_thread.run_sync(remove_clone, tree)
    manner = await git.manner(GitDirectory(tree.git_dir, tree.repository, tree.path))
    if await trio.Path(tree.repository, "objects/info/alternates").exists():
        # For a repository that borrows objects from others, which no sandbox shows.
        folder, _ = shared_objects(tree)
        await trio.Path(folder, "pack").mkdir(mode=0o700, parents=True)
        await git.said(view, "pack-objects", "--all", "--quiet", f"{folder}/pack/pack")
    refs = await git.said(view, "for-each-ref", "--format=%(objectname) %(refname)")
    tip = await git.said(view, "rev-parse", "--verify", f"refs/heads/{tree.branch}^{{commit}}")
    filters = await git.filters(view)
    # What the agent's git goes by: how data are written, the user's name and filters. It is the agent's to change.
    user = {key: value for key, value in (("name", manner.name), ("email", manner.email)) if value}
    rows = [manner.text, filter_sections(filters), section("core", {"logAllRefUpdates": "true"})]
    if user:
        rows.append(section("user", user))
    await trio.to_thread.run_sync(_write, tree, view, "".join(rows), refs, tip)


async def bring_back(git: ProjectGit, tree: Worktree, view: View, box: Sandbox) -> str:
    """Move the branch of ``tree`` to where its agent has it. ``view`` is of the tree as everybody else sees it.

    Returns the commit. Raises Refused (setup_failed) where that is nothing that can be taken, SpawnTransient.
    """
    branch = f"refs/heads/{tree.branch}"
    known = (await git.said(view, "rev-parse", "--verify", f"{branch}^{{commit}}")).decode().strip()
    clone = View(clone_of(tree), tree.path, box)
    asked = await git.run(clone, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}")
    tip = asked.stdout.decode("utf-8", "replace").strip()
    if not asked.ok or not COMMIT.fullmatch(tip):
        raise failed(f"the branch {tree.branch} cannot be read: {git.why(asked)}", f"see {clone_of(tree)}")
    if tip == known:
        return tip
    if not await has_commit(git, view, tip):  # else there is nothing new: it was reset, or is a commit of the project
        async with git.folder() as folder:
            pack = Path(folder, "pack")
            await write_pack(git, clone, tip, (known, tree.base), pack)
            await verify_pack(git, view, pack)
            await store_pack(git, view, pack)
    checked = ("rev-list", "--objects", "--quiet", tip, "--not", known, tree.base)
    await git.said(view, *checked)
    await git.said(view, "update-ref", branch, tip, known)
    index = {"GIT_INDEX_FILE": f"{tree.git_dir}/index"}
    await git.run(view, "read-tree", "--reset", tip, variables=index)  # while somebody looks at it, it is locked
    with suppress(OSError):
        await trio.to_thread.run_sync(copy_index, tree.git_dir, view.folder)
    return tip


async def unmerged(git: ProjectGit, tree: Worktree, view: View, box: Sandbox) -> int:
    """The number of commits of the clone are nowhere in the project: on branches that do not come back."""
    clone = View(clone_of(tree), tree.path, box)
    refs = await git.said(view, "for-each-ref", "--format=^%(objectname)")
    words = ("rev-list", "--count", "--ignore-missing", "--all", "HEAD", "--stdin")
    counted = (await git.said(clone, *words, given=refs)).strip()
    return int(counted) if counted.isdigit() and len(counted) < 10 else 1


def _write(tree: Worktree, view: View, config: str, refs: bytes, tip: bytes) -> None:
    clone = clone_of(tree)
    os.makedirs(f"{clone}/refs/heads", mode=0o700)
    os.makedirs(f"{clone}/info", mode=0o700)
    write_alternates(clone, shared_objects(tree))
    Path(clone, "config").write_text(config, "utf-8", "surrogateescape")
    without_branch = f"refs/heads/{tree.branch}"
    rows = (row for row in refs.splitlines() if row and not row.endswith(f" {without_branch}".encode()))
    Path(clone, "packed-refs").write_bytes(b"# pack-refs with: sorted \n" + b"".join(row + b"\n" for row in rows))
    branch = Path(clone, "refs/heads", tree.branch)
    branch.parent.mkdir(mode=0o700, parents=True)
    branch.write_bytes(tip)
    Path(clone, "HEAD").write_text(f"ref: refs/heads/{tree.branch}\n", "utf-8")
    copy_index(tree.git_dir, clone)
    copy_settings(view.folder, clone)
    link = Path(link_of(tree))
    Path(f"{link}.new").write_text(f"gitdir: {clone}\n", "utf-8", "surrogateescape")
    Path(f"{link}.new").rename(link)
