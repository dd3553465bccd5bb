"""Copies of a project for runs that must not see each other: the same files, the same commit, nothing shared.

Of a git repository a copy has the one branch that is checked out, and one more commit with all that is not committed.
Files that git ignores are copied. Git directories inside the project, pipes, sockets and devices are not. git runs over
the project in a view, as in a kernel; the copy's own git directory is written here, and has no setting of the project's
but its formats. A link to a place in the project leads to the same place in the copy.
"""

import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import trio

from kernel.agents.environment import worker_environment
from kernel.inspect.fetch import open_launcher
from kernel.source.safe_paths import NotInside, copy_open, copy_path, open_file, open_folder, put_here
from kernel.store.worktrees import Worktree
from kernel.workflows.git_directory import GitDirectory, NoRepository, branch_in, find_git_directory, folder_in
from kernel.workflows.git_view import View, format_sections, section
from kernel.workflows.project_git import ProjectGit, failed, unusable, unusable_for
from kernel.workflows.tree_commits import Author, WritableTree, commit_all
from protocol.errors import Refused
from protocol.inspection import CopiedProject

LIMIT_BYTES: Final = 4 * 2**30
LIMIT_FILES: Final = 200_000
_GIT: Final = ".git"
_BRANCH: Final = "compared"
"""In place of a commit that is checked out without a branch."""
_AUTHOR: Final = Author("agent-worker", "agent-worker@localhost")


def copy_project(
    root: Path, folder: str, hidden: str, environ: Mapping[str, str], *, file: str = "", text: str = ""
) -> CopiedProject:
    """Copy the project at ``root`` to the new ``folder``, without the folder ``hidden``. Blocks. Raises Refused.

    ``file`` of the project has ``text`` in the copy.
    """
    return trio.run(_copy_project, os.path.realpath(root), folder, os.path.realpath(hidden), environ, (file, text))


async def _copy_project(
    root: str, folder: str, hidden: str, environ: Mapping[str, str], changed: tuple[str, str]
) -> CopiedProject:
    with tempfile.TemporaryDirectory(prefix="awk-copy-") as place:
        async with open_launcher(Path(place), worker_environment(environ), kind=None) as launcher:
            git = ProjectGit(Path(place), launcher=launcher, environ=environ, own_bin=frozenset())
            try:
                directory = _directory(root)
                os.mkdir(folder, 0o700)
                if directory is not None and not await _copy_history(git, directory, folder):
                    directory = None  # nothing was ever committed
            except Refused as refused:
                raise unusable_for("a comparison copies the project and its git", refused) from refused
            inside = "" if directory is None else folder_in(root, directory)
            await trio.to_thread.run_sync(_copy_files, directory.top if directory else root, folder, hidden)
            if changed[0]:
                await trio.to_thread.run_sync(_write, folder, os.path.join(inside, changed[0]), changed[1])
            if directory is not None:
                await _commit(git, folder, f"Replace {changed[0]}" if changed[0] else "What was not committed")
    return CopiedProject(git=directory is not None, inside=inside)


def _write(folder: str, path: str, text: str) -> None:
    above, name = os.path.split(path)
    try:
        descriptor = open_folder(folder, above) if above else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            put_here(descriptor, name, text)
        finally:
            os.close(descriptor)
    except (OSError, NotInside) as error:
        raise failed(f"{path} cannot be written in the copy: {error}", "links are not followed") from error


def _directory(root: str) -> GitDirectory | None:
    try:
        directory = find_git_directory(Path(root))
    except NoRepository as error:
        if os.path.lexists(f"{root}/{_GIT}"):
            raise unusable(error) from error
        return None
    if os.path.lexists(f"{directory.top}/.gitmodules"):
        raise Refused("bad_request", "the project has submodules, which are not copied")
    return directory


async def _copy_history(git: ProjectGit, directory: GitDirectory, folder: str) -> bool:
    """Write the git directory of the copy: one branch with its history. Returns whether anything was committed."""
    async with git.view(directory) as view, git.folder() as place:
        head = await git.run(view, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not head.ok:
            return False
        tip = head.stdout.decode("ascii", "replace").strip()
        pack = Path(place, "pack")
        words = ("pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet")
        packed = await git.run(view, *words, given=head.stdout, into=pack, limit_bytes=LIMIT_BYTES)
        if not packed.ok:
            raise failed(f"the history of the project cannot be copied: {git.why(packed)}")
        manner = await git.manner(directory)
        user = {key: value for key, value in (("name", manner.name), ("email", manner.email)) if value}
        formats = format_sections({key: value for key, value in manner.formats if key != "extensions.refstorage"})
        copy, branch = View(f"{folder}/{_GIT}", folder), branch_in(directory.own) or _BRANCH
        await trio.to_thread.run_sync(_write_directory, copy.folder, view, branch, formats + section("user", user))
        await git.said(copy, "index-pack", "--stdin", given=pack)
        await git.said(copy, "update-ref", f"refs/heads/{branch}", tip)
        await git.said(copy, "read-tree", tip)
    return True


def _write_directory(own: str, view: View, branch: str, config: str) -> None:
    for name in ("objects", "refs/heads"):
        os.makedirs(f"{own}/{name}", 0o700)
    Path(own, "HEAD").write_text(f"ref: refs/heads/{branch}\n", "utf-8", "surrogateescape")
    Path(own, "config").write_text(config, "utf-8", "surrogateescape")
    if os.path.lexists(f"{view.folder}/shallow"):
        copy_path(f"{view.folder}/shallow", f"{own}/shallow", LIMIT_BYTES)


async def _commit(git: ProjectGit, folder: str, message: str) -> None:
    """Commit all that is changed in the copy at ``folder``, whose git directory is ours."""
    own = f"{folder}/{_GIT}"
    tree = Worktree("", own, "", branch_in(own), folder, "", run=0, agent="", space="", state="made", git_dir=own)
    await commit_all(git, WritableTree(tree, View(own, folder)), message, _AUTHOR)


def _copy_files(source: str, folder: str, hidden: str) -> None:
    """Copy files, folders and links; no link is followed, also where somebody swaps it meanwhile. Raises Refused."""
    files = size = 0
    try:
        for place, folders, names, here in os.fwalk(source, onerror=_raise):
            target = os.path.normpath(os.path.join(folder, os.path.relpath(place, source)))
            folders[:] = _copied(place, folders, hidden)
            for name in (*folders, *_copied(place, names, hidden)):
                size += _copy_one(here, name, os.path.join(target, name), LIMIT_BYTES - size, (source, place))
                files += 1
                if files > LIMIT_FILES:
                    raise _too_large()
    except (OSError, RecursionError) as error:
        raise failed(f"the project cannot be copied to {folder}: {str(error)[:500]}", "see the disk there") from error


def _raise(error: OSError) -> None:
    raise error


def _copied(place: str, names: Iterable[str], hidden: str) -> list[str]:
    return [name for name in names if name.lower() != _GIT and os.path.realpath(os.path.join(place, name)) != hidden]


def _copy_one(here: int, name: str, target: str, left: int, places: tuple[str, str]) -> int:
    """Copy one entry of the folder ``here``. Returns its size in bytes."""
    facts = os.lstat(name, dir_fd=here)
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(_inward(os.readlink(name, dir_fd=here), *places), target)
    elif stat.S_ISDIR(facts.st_mode):
        os.mkdir(target, stat.S_IMODE(facts.st_mode) | 0o700)
    elif stat.S_ISREG(facts.st_mode):
        if facts.st_size > left:
            raise _too_large()
        return copy_open(open_file(here, name, os.O_RDONLY), target, left)
    return 0


def _inward(leads: str, source: str, place: str) -> str:
    """The target of a link in ``place``: a relative one where it leads into ``source``, so that copies agree."""
    inside = os.path.isabs(leads) and not os.path.relpath(leads, source).startswith(os.pardir)
    return os.path.relpath(leads, place) if inside else leads


def _too_large() -> Refused:
    text = f"the project has more than {LIMIT_BYTES // 2**30} GiB or {LIMIT_FILES:,} files"
    return Refused("bad_request", f"{text}: each run of a comparison needs a copy of it", "name a smaller --project")
