"""The checkout of a branch that is moved: its ref, its files and its index move together, and only if it is clean.

While they move, git's own lock on the index is held, so no git of the user's changes half of it. It says that it is
ours: whoever finds that of a kernel that died finishes what was begun. A file is then written anew only where it is as
it was, or a piece of what it is to be; what somebody wrote meanwhile stays.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.workflows.git_directory import (
    GitDirectory,
    NoRepository,
    branch_in,
    find_git_directory,
    first_line,
    linked_trees,
)
from kernel.workflows.git_view import View
from kernel.workflows.landing import FILES_SHOWN, Merging, NotMoved
from kernel.workflows.project_git import ProjectGit
from kernel.workflows.tree_commits import named

_OURS: Final = "agent-worker moves this checkout to "
_OWN: Final = "agent-worker"
"""The names of our files beside the index begin so."""
_UNDER_WAY: Final = (
    "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
_REBASED: Final = ("rebase-merge/head-name", "rebase-apply/head-name")
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--ignore-submodules=dirty", "--untracked-files=no", "--no-renames")
_PIECE_BYTES: Final = 64 * 1024 * 1024


class NotClean(NotMoved):
    """The checkout is not clean, or git is at work in it. ``files`` are those that are changed."""


class Moved(msgspec.Struct, frozen=True):
    """The branch was moved. ``kept`` are files of its checkout that somebody had changed meanwhile: they stay so."""

    kept: tuple[str, ...] = ()


def checkout_of(repository: str, branch: str, root: Path) -> GitDirectory | None:
    """The working tree that has ``branch`` checked out. Blocks. Raises NotClean where git is at work with it."""
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
                raise NotClean(
                    f"{branch} is said to be checked out in {path}, and {error}: git worktree prune"
                ) from error
            if own.own != linked:  # a repository can name any folder; the folder has to name it as well
                text = f"{linked} says that {branch} is checked out in {path}, which does not say that it belongs there"
                raise NotClean(f"{text}: git worktree prune, or repair")
            yield own


def release(checkout: GitDirectory) -> None:
    """Give git's lock back, if a kernel that died left it. Blocks."""
    path = f"{checkout.own}/index.lock"
    if _is_ours(path):
        with suppress(OSError):
            os.unlink(path)


async def check_clean(git: ProjectGit, checkout: GitDirectory) -> None:
    """Raise NotClean unless the files and the index of ``checkout`` are as they were committed."""
    async with git.view(checkout) as view:
        await _check_clean(git, checkout, view)


async def move_checkout(
    git: ProjectGit, merging: Merging, checkout: GitDirectory, branch: str, expected: str, tip: str
) -> Moved | None:
    """Move ``branch``, which is at ``expected`` and checked out, to ``tip``. None: it is elsewhere by now.

    Raises NotClean where it cannot be done; then nothing has moved. Called again after it was interrupted, wherever
    that was, it goes on.
    """
    ours = await trio.to_thread.run_sync(_lock, checkout, tip)
    half_done = False
    kept: tuple[str, ...] = ()
    try:
        fault_point("landing.locked")
        async with git.view(checkout) as view:
            at = await merging.tip(branch)
            if at == tip:  # an earlier kernel has moved it
                half_done = ours
                kept = await _finish(git, checkout, view, expected, tip) if ours else ()
                half_done = False
                return Moved(kept)
            if at != expected:
                return None
            await _check_clean(git, checkout, view)
            words = ("read-tree", "-m", "-u", expected, tip)
            tried = await git.run(view, words[0], "--dry-run", *words[1:])
            if not tried.ok:
                raise NotClean(f"files in {checkout.top} are in the way: {git.why(tried)}")
            check_room(checkout, await merging.in_the_way(checkout.top, expected, tip))
            with trio.CancelScope(shield=True):
                if not await merging.move(branch, expected, tip):
                    return None
                half_done = True
                fault_point("landing.moved")
                written = await git.run(view, *words)
                fault_point("landing.files")
                if written.ok:
                    await trio.to_thread.run_sync(_install, f"{view.folder}/index", checkout)
                    kept = ()
                else:
                    kept = await _finish(git, checkout, view, expected, tip)
                fault_point("landing.index")
                half_done = False
            return Moved(kept)
    finally:
        # Where files could not be written the lock stays, until they are: a commit now would take all of it back.
        if not half_done:
            release(checkout)


def check_room(checkout: GitDirectory, ignored: tuple[str, ...]) -> None:
    """Raise NotClean if files that git ``ignored`` are in the way: it would write over them."""
    if ignored:
        text = f"files in {checkout.top} that git ignores are in the way: {named(ignored)}"
        raise NotClean(f"{text}: move them away, or name another branch (--into)", ignored[:FILES_SHOWN])


async def _check_clean(git: ProjectGit, checkout: GitDirectory, view: View) -> None:
    at_work = sorted(set(_UNDER_WAY).intersection(await trio.to_thread.run_sync(os.listdir, checkout.own)))
    if at_work:
        raise NotClean(f"git is in the middle of something in {checkout.top} ({at_work[0]}): finish that, or abort it")
    await git.run(view, "update-index", "-q", "--refresh")
    listed = await git.said(view, "ls-files", "-v", "-z")
    if any(row and row[:1] != b"H" for row in listed.split(b"\0") if row):
        text = f"in {checkout.top} git was told to overlook files (sparse checkout, assume-unchanged)"
        raise NotClean(f"{text}: merge into another branch, and take it over yourself")
    changed = [row[3:].decode("utf-8", "replace") for row in (await git.said(view, *_STATUS)).split(b"\0") if row]
    if changed:
        text = f"{checkout.top} has changes that are not committed ({len(changed)})"
        raise NotClean(f"{text}: commit or stash them, or name another branch (--into)", tuple(changed[:FILES_SHOWN]))


async def _finish(git: ProjectGit, checkout: GitDirectory, view: View, expected: str, tip: str) -> tuple[str, ...]:
    """Write what is missing of the files of ``tip``, and its index. Returns files that somebody changed meanwhile."""
    old, new = f"{view.folder}/old-index", f"{view.folder}/new-index"
    rows = (await git.said(view, "diff-tree", "-r", "-z", "--no-renames", "--name-only", expected, tip)).split(b"\0")
    changed = [row for row in rows if row]
    looked_at = {name: _facts(checkout.top, name) for name in changed}
    unlike: dict[str, frozenset[bytes]] = {}
    there: dict[str, frozenset[bytes]] = {}
    for index, commit in ((old, expected), (new, tip)):
        within = {"GIT_INDEX_FILE": index}
        await git.said(view, "read-tree", commit, variables=within)
        await git.run(view, "update-index", "-q", "--refresh", variables=within)
        differing = await git.said(
            view, "diff-files", "--name-only", "-z", "--ignore-submodules=dirty", variables=within
        )
        unlike[index] = frozenset(differing.split(b"\0"))
        there[index] = frozenset((await git.said(view, "ls-files", "-z", variables=within)).split(b"\0"))
    remove, write, kept = [], [], []
    for name in changed:
        is_new = name in there[new] and name not in unlike[new]
        is_old = name in there[old] and name not in unlike[old]
        present = _is_there(checkout.top, name)
        if is_new or (name not in there[new] and not present):
            continue
        if present and not is_old and not await _is_piece(git, view, checkout.top, name, tip):
            kept.append(name)
            continue
        if present:
            remove.append(name)
        if name in there[new]:
            write.append(name)
    kept += await trio.to_thread.run_sync(remove_unchanged, checkout.top, {name: looked_at[name] for name in remove})
    within = {"GIT_INDEX_FILE": new}
    given = b"".join(name + b"\0" for name in write if name not in kept)
    if given:
        await git.said(view, "checkout-index", "--quiet", "-z", "--stdin", variables=within, given=given)
    await git.run(view, "update-index", "-q", "--refresh", variables=within)
    await trio.to_thread.run_sync(_install, new, checkout)
    return tuple(name.decode("utf-8", "replace") for name in kept[:FILES_SHOWN])


async def _is_piece(git: ProjectGit, view: View, top: str, name: bytes, tip: str) -> bool:
    """Return whether a file is the beginning of what it is to be: git was killed as it wrote."""
    path = trio.Path(top, os.fsdecode(name))
    facts = await path.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _PIECE_BYTES:
        return False
    whole = await git.run(view, "cat-file", "--filters", f"{tip}:{os.fsdecode(name)}")
    return whole.ok and whole.stdout.startswith(await path.read_bytes())


def _is_there(top: str, name: bytes) -> bool:
    """Return whether there is something at that path of the tree, and not by way of a link."""
    path = os.path.join(os.fsencode(top), name)
    folder = os.path.dirname(path)
    return os.path.lexists(path) and os.path.realpath(folder) == os.path.normpath(
        os.path.join(os.path.realpath(os.fsencode(top)), os.path.dirname(name))
    )


Facts = tuple[int, int, int, int] | None
"""By which a file is known to be the same one, unchanged; None: there is none."""


def _facts(top: str, name: bytes) -> Facts:
    try:
        found = os.lstat(os.path.join(os.fsencode(top), name))
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def remove_unchanged(top: str, names: Mapping[bytes, Facts]) -> list[bytes]:
    """Remove files that are still as they were looked at, programs ago. Returns those that somebody changed since."""
    root = os.fsencode(top)
    kept = []
    for name, facts in names.items():
        if _facts(top, name) != facts:
            kept.append(name)
            continue
        path = os.path.join(root, name)
        with suppress(OSError):
            os.unlink(path)
            while (path := os.path.dirname(path)) != root:
                os.rmdir(path)
    return kept


def _lock(checkout: GitDirectory, tip: str) -> bool:
    """Take git's lock on the index. True: it was ours, from before. Raises NotClean where another git has it."""
    path = f"{checkout.own}/index.lock"
    own = f"{checkout.own}/{_OWN}.lock"
    try:
        with os.fdopen(_new_file(own, 0o600), "w", encoding="utf-8") as target:
            target.write(f"{_OURS}{tip}\n")
        try:
            os.link(own, path)  # with its content, or not at all
        finally:
            os.unlink(own)
    except FileExistsError:
        if _is_ours(path):
            return True
        raise NotClean(f"another git is at work in {checkout.top} ({path} is there)") from None
    except OSError as error:
        raise NotClean(f"{path} cannot be made: {error.strerror}") from error
    return False


def _new_file(path: str, mode: int) -> int:
    """A new file in place of what is there: a link that a repository brings along is not followed."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _is_ours(path: str) -> bool:
    with suppress(OSError):
        return first_line(path).startswith(_OURS)
    return False


def _install(index: str, checkout: GitDirectory) -> None:
    """Make ``index`` that of the checkout, at once."""
    own = f"{checkout.own}/{_OWN}.index"
    with open(index, "rb") as source, os.fdopen(_new_file(own, 0o666), "wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    os.replace(own, f"{checkout.own}/index")
