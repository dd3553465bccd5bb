"""Atomic move of a checked-out branch with its files and index. The checkout must be clean.

Git's lock on the index is held during the move, so the user's git cannot see a partial state. New files are written
next to the old ones first, and the branch moves last. If a step fails before that, everything is rolled back. If the
kernel dies, the user can remove its lock, as git advises, and commit the files: no work is reverted.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.fault_injection import fault_point
from kernel.git.directory import GitDirectory, NoRepository, branch_in, find_git_directory, first_line, linked_trees
from kernel.git.file_exchange import (
    Exchange,
    end,
    exchange_files,
    facts_of,
    go_back,
    install_index,
    lock,
    make_stage,
    record,
    recorded,
    release,
    stage_of,
)
from kernel.git.merging import FILES_SHOWN, Merging, NotMoved
from kernel.git.runner import ProjectGit
from kernel.git.tree_commits import named
from kernel.git.view import GitView
from kernel.procs.spec import SpawnTransient
from protocol.errors import Refused

_UNDER_WAY: Final = (
    "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
_REBASED: Final = ("rebase-merge/head-name", "rebase-apply/head-name")
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--ignore-submodules=dirty", "--untracked-files=no", "--no-renames")


class NotClean(NotMoved):
    """The checkout has changed ``files``, or a git operation is in progress there."""


class HalfMoved(Exception):
    """Files of a checkout were replaced, but its branch was not moved, and they could not be restored."""


def checkout_of(repository: str, branch: str, root: Path) -> GitDirectory | None:
    """Return the working tree that has ``branch`` checked out, or None. Blocks. Raises NotClean if
    two do, or in a rebase.
    """
    found = tuple(_checkouts(repository, branch, root))
    if len(found) > 1:
        raise NotClean(f"{branch} is checked out in {found[0].top} and in {found[1].top}: check out another one there")
    for own in (repository, *(own for own, _, _ in linked_trees(repository))):
        for name in _REBASED:
            with suppress(OSError):
                if first_line(f"{own}/{name}") == f"refs/heads/{branch}":
                    raise NotClean(f"{branch} is being rebased: git rebase --continue, or --abort")
    return found[0] if found else None


def _checkouts(repository: str, branch: str, root: Path) -> Iterator[GitDirectory]:
    if branch_in(repository) == branch:
        if os.path.basename(repository) == ".git":
            yield GitDirectory(repository, repository, os.path.dirname(repository))
        else:
            with suppress(NoRepository):
                own = find_git_directory(root)
                if own.own == repository:  # a submodule
                    yield own
    for linked, path, there in linked_trees(repository):
        if there == branch and os.path.isdir(path):
            try:
                own = find_git_directory(Path(path))
            except NoRepository as error:
                raise NotClean(f"{branch} is registered in {path}, but {error}: run git worktree prune") from error
            if own.own != linked:  # a repository can name any folder, so the folder must name it in turn
                text = f"{linked} registers {branch} as checked out in {path}, which belongs to another repository"
                raise NotClean(f"{text}: git worktree prune, or repair")
            yield own


async def check_clean(git: ProjectGit, checkout: GitDirectory) -> None:
    """Raise NotClean unless the files and the index of ``checkout`` match its commit."""
    async with git.view(checkout) as view:
        await _check_clean(git, checkout, view)


async def move_checkout(
    git: ProjectGit, merging: Merging, checkout: GitDirectory, branch: str, expected: str, tip: str
) -> bool:
    """Move the checked-out ``branch`` from ``expected`` to ``tip``.

    Returns False if another process has moved the branch. Raises NotClean or Refused, and nothing
    has changed; HalfMoved if replaced files could not be restored.
    """
    moved, path = False, f"{checkout.own}/index.lock"
    try:
        stage = stage_of(checkout)
        await trio.to_thread.run_sync(lock, checkout.own, tip)
    except FileExistsError:
        raise NotClean(f"another git process is running in {checkout.top} ({path} exists)") from None
    except OSError as error:
        raise NotClean(f"{path} cannot be created: {error.strerror}") from error
    try:
        fault_point("landing.locked")
        async with git.view(checkout) as view:
            if await merging.tip(branch) != expected:  # read under the lock
                return False
            listing = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", expected, tip)
            fields = os.fsdecode(await git.said(view, *listing)).split("\0")
            changed = dict(zip(fields[1::2], fields[:-1:2], strict=True))
            # Before the check, to see later changes.
            seen = {path: facts_of(f"{checkout.top}/{path}") for path in changed}
            await _check_clean(git, checkout, view)
            words = ("read-tree", "-m", expected, tip)
            tried = await git.run(view, words[0], "--dry-run", "-u", *words[1:])  # git's own check of untracked files
            if not tried.ok:
                raise NotClean(f"files in {checkout.top} would be overwritten: {git.why(tried)}")
            check_room(checkout, await merging.in_the_way(checkout.top, expected, tip))
            await git.said(view, *words)
            try:
                await trio.to_thread.run_sync(make_stage, stage)
                given = b"".join(os.fsencode(path) + b"\0" for path, change in changed.items() if change != "D")
                staged = GitView(view.folder, f"{stage}/new")
                await git.said(staged, "checkout-index", "--quiet", "-z", "--stdin", given=given)
                exchange = Exchange(merging.repository, branch, tip, checkout.own, checkout.top, stage)
                exchange = await trio.to_thread.run_sync(record, git.place, exchange, seen)
                fault_point("landing.staged")
            except OSError as error:
                raise NotClean(f"files of {checkout.top} cannot be written: {error}") from error
            with trio.CancelScope(shield=True):
                # Not cancellable: files that were replaced half would be left to the user.
                moved = await _exchange(git, merging, view, expected, exchange)
        return moved
    finally:
        if recorded(git.place) is None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(shutil.rmtree, stage, ignore_errors=True))
            release(checkout.own, tip)  # kept while an exchange is recorded: the next kernel settles it


async def _exchange(git: ProjectGit, merging: Merging, view: GitView, expected: str, exchange: Exchange) -> bool:
    # Files, then the index, then the branch: any failure is rolled back by ``settle_exchange``.
    failed: Exception | None = None
    try:
        await trio.to_thread.run_sync(exchange_files, exchange)
        fault_point("landing.files")
        await git.run(view, "update-index", "-q", "--refresh")
        await trio.to_thread.run_sync(install_index, git.place, exchange, f"{view.folder}/index")
        fault_point("landing.index")
        await merging.move(exchange.branch, expected, exchange.tip)
        fault_point("landing.moved")
    except OSError as error:
        failed = NotClean(f"files of {exchange.top} cannot be replaced: {error}")
        failed.__cause__ = error  # raised only if the branch has not moved
    except (NotMoved, Refused, SpawnTransient) as error:
        failed = error
    moved = await settle_exchange(git, merging, exchange)
    if failed is not None and not moved:
        raise failed
    return moved


async def settle_exchange(git: ProjectGit, merging: Merging, exchange: Exchange) -> bool:
    """Finish an exchange of files: keep the new files if the branch has moved, else restore the old.

    Returns whether the branch has moved. May be repeated. Raises HalfMoved if files cannot be restored.
    """
    now = await merging.tip(exchange.branch)
    moved = now == exchange.tip or (now is not None and await merging.has(exchange.tip, now))
    unlike = frozenset[str]() if moved else frozenset(file.path for file in exchange.files)
    if now is not None and not moved:  # keep the files that the user has committed meanwhile
        unlike &= await merging.different(exchange.tip, now)
    try:
        await trio.to_thread.run_sync(go_back, recorded(git.place) or exchange, unlike)
        await trio.to_thread.run_sync(end, git.place, exchange)
    except OSError as error:
        raise HalfMoved(f"files of {exchange.top} cannot be restored: {error}") from error
    release(exchange.own, exchange.tip)
    return moved


def check_room(checkout: GitDirectory, ignored: tuple[str, ...]) -> None:
    """Raise NotClean if the move would overwrite ``ignored``, files that git ignores."""
    if ignored:
        text = f"files in {checkout.top} that git ignores would be overwritten: {named(ignored)}"
        raise NotClean(f"{text}: move them away, or name another branch (--into)", ignored[:FILES_SHOWN])


async def _check_clean(git: ProjectGit, checkout: GitDirectory, view: GitView) -> None:
    at_work = sorted(set(_UNDER_WAY).intersection(await trio.to_thread.run_sync(os.listdir, checkout.own)))
    if at_work:
        raise NotClean(f"a git operation is in progress in {checkout.top} ({at_work[0]}): finish or abort it")
    await git.run(view, "update-index", "-q", "--refresh")
    listed = await git.said(view, "ls-files", "-v", "-z")
    if any(row and row[:1] != b"H" for row in listed.split(b"\0") if row):
        text = f"in {checkout.top} git is configured to ignore changes to files (sparse checkout, assume-unchanged)"
        raise NotClean(f"{text}: merge into another branch, and update this one yourself")
    changed = [row[3:].decode("utf-8", "replace") for row in (await git.said(view, *_STATUS)).split(b"\0") if row]
    if changed:
        text = f"{checkout.top} has uncommitted changes ({len(changed)})"
        raise NotClean(f"{text}: commit or stash them, or name another branch (--into)", tuple(changed[:FILES_SHOWN]))
