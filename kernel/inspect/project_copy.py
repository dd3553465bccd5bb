"""Copies of a project for isolated runs: the same files and the same commit, with nothing shared.

A copy of a git repository has the checked-out branch, and one more commit with all uncommitted changes. Files that git
ignores are copied; git directories inside the project, pipes, sockets and devices are not. git runs on the project in a
view, as in a kernel; the copy gets a new git directory, without settings of the project except its formats. A link to a
location in the project points to the same location in the copy.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from kernel.agents.environment import worker_environment
from kernel.git.directory import GitDirectory, NoRepository, branch_in, find_git_directory, folder_in
from kernel.git.runner import ProjectGit, failed, unusable, unusable_for
from kernel.git.tree_commits import CommitAuthor, WritableTree, commit_all
from kernel.git.view import GitView, copy_settings, format_sections, section
from kernel.inspect.programs import open_launcher
from kernel.source.safe_paths import NotInside, copy_open, open_file, open_folder, put_here
from kernel.store.transitions.worktrees import Worktree
from osfiles.safe_open import closing_descriptor
from protocol.errors import Refused
from protocol.inspection import CopiedProject

LIMIT_BYTES: Final = 4 * 2**30
LIMIT_FILES: Final = 200_000
_GIT: Final = ".git"
_BRANCH: Final = "compared"
"""Branch of the copy if the project has a detached HEAD."""
_AUTHOR: Final = CommitAuthor("agent-worker", "agent-worker@localhost")


def copy_project(
    root: Path, folder: str, hidden: str, environ: Mapping[str, str], *, file: str = "", text: str = ""
) -> CopiedProject:
    """Copy the project at ``root`` to the new ``folder``, without the folder ``hidden``. Blocks. Raises Refused.

    In the copy, the project's file ``file`` contains ``text``.
    """
    real, hidden = os.path.realpath(root), os.path.realpath(hidden)
    try:
        directory: GitDirectory | None = find_git_directory(root)
    except NoRepository as error:
        if os.path.lexists(f"{real}/{_GIT}"):
            raise unusable_for("comparisons copy the project and its git repository", unusable(error)) from error
        directory = None
    if directory is not None and os.path.lexists(f"{directory.top}/.gitmodules"):
        raise Refused(
            "bad_request", "projects with submodules cannot be copied", "compare in a clone without .gitmodules"
        )
    os.mkdir(folder, 0o700)

    async def copy() -> CopiedProject:
        with tempfile.TemporaryDirectory(prefix="awk-copy-") as place:
            async with open_launcher(Path(place), worker_environment(environ), kind=None) as launcher:
                git = ProjectGit(Path(place), launcher=launcher, environ=environ, own_bin=frozenset())
                committed = directory is not None and await _copy_history(git, directory, folder)
                top = directory.top if directory is not None and committed else real
                inside = folder_in(real, directory) if directory is not None and committed else ""
                changed = f"{inside}/{file}".lstrip("/") if file else ""
                await trio.to_thread.run_sync(_copy_files, top, folder, hidden, changed, text)
                if committed:
                    own, message = f"{folder}/{_GIT}", f"Replace {file}" if file else "Uncommitted changes"
                    tree = Worktree("", own, "", branch_in(own), folder, "", 0, "", "", "made", git_dir=own)
                    await commit_all(git, WritableTree(tree, GitView(own, folder)), message, _AUTHOR)
        return CopiedProject(git=committed, inside=inside)

    return trio.run(copy)


async def _copy_history(git: ProjectGit, directory: GitDirectory, folder: str) -> bool:
    """Write the git directory of the copy: one branch with its history. Returns whether it has a commit."""
    own, branch = trio.Path(folder, _GIT), branch_in(directory.own) or _BRANCH
    async with git.view(directory) as view, git.folder() as place:
        head = await git.run(view, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not head.ok:
            return False
        pack = Path(place, "pack")
        words = ("pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet")
        packed = await git.run(view, *words, given=head.stdout, into=pack, limit_bytes=LIMIT_BYTES)
        if not packed.ok:
            raise failed(f"the history of the project cannot be copied: {git.why(packed)}")
        manner = await git.manner(directory)
        user = {key: value for key, value in (("name", manner.name), ("email", manner.email)) if value}
        formats = format_sections({key: value for key, value in manner.formats if key != "extensions.refstorage"})
        for name in ("objects", "refs/heads", "info"):
            await (own / name).mkdir(0o700, parents=True)
        await (own / "HEAD").write_bytes(os.fsencode(f"ref: refs/heads/{branch}\n"))
        await (own / "config").write_bytes(os.fsencode(formats + section("user", user)))
        await trio.to_thread.run_sync(copy_settings, view.folder, str(own))
        copy, tip = GitView(str(own), folder), head.stdout.decode("ascii", "replace").strip()
        await git.said(copy, "index-pack", "--stdin", given=pack)
        await git.said(copy, "update-ref", f"refs/heads/{branch}", tip)
        await git.said(copy, "read-tree", tip)
    return True


def _copy_files(source: str, folder: str, hidden: str, changed: str, text: str) -> None:
    """Copy files, folders and links, then replace the file ``changed``. Blocks. Raises Refused.

    No link is followed, even if one is swapped in meanwhile.
    """

    def stop(error: OSError) -> None:
        raise error

    files = size = 0
    try:
        for place, folders, names, here in os.fwalk(source, onerror=stop):
            below = os.path.relpath(place, source)
            for name in (*folders, *names):
                path, target = os.path.join(place, name), os.path.normpath(os.path.join(folder, below, name))
                if name.lower() == _GIT or os.path.realpath(path) == hidden:
                    folders[:] = [one for one in folders if one != name]
                    continue
                mode = os.lstat(name, dir_fd=here).st_mode
                if stat.S_ISLNK(mode):
                    leads = os.readlink(name, dir_fd=here)
                    inside = os.path.isabs(leads) and not os.path.relpath(leads, source).startswith(os.pardir)
                    os.symlink(os.path.relpath(leads, place) if inside else leads, target)
                elif stat.S_ISDIR(mode):
                    os.mkdir(target, stat.S_IMODE(mode) | 0o700)
                elif stat.S_ISREG(mode):
                    size += copy_open(open_file(here, name, os.O_RDONLY), target, LIMIT_BYTES - size)
                files += 1
                if files > LIMIT_FILES:
                    raise OSError(errno.EFBIG, "there are more files")
        if changed:
            above, name = os.path.split(changed)
            with closing_descriptor(
                open_folder(folder, above) if above else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            ) as descriptor:
                put_here(descriptor, name, text)
    except (OSError, NotInside, RecursionError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            text = f"the project has more than {LIMIT_BYTES // 2**30} GiB or {LIMIT_FILES:,} files"
            hint = "name a smaller --project: each run of a comparison needs a copy of it"
            raise Refused("bad_request", text, hint) from error
        raise failed(f"the project cannot be copied to {folder}: {str(error)[:500]}", "check the folder") from error
