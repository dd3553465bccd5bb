"""The git directory that a project is in, and those of its linked working trees (gitrepository-layout), as plain files.

It is the ``.git`` of the project or of a folder above it, found by reading: git itself would believe what it finds
there. A file ``.git`` (a linked working tree, a submodule) counts where the directory that it names says in turn that
it belongs there, as git writes it; whoever only names a directory gets nothing of it. ``git worktree add`` and
``remove`` would write the files of a linked tree under the repository's own configuration. Every function blocks.
"""

import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.source.safe_paths import open_file, open_folder, open_path
from osfiles.safe_open import closing_descriptor
from protocol.errors import Refused

_LINE_BYTES: Final = 8192
_TREES: Final = "worktrees"
_FOLDERS: Final = (("objects", 9), ("refs", 99), ("reftable", 9), ("lfs", 1), (_TREES, 0), ("info", 0))
"""Folders that git writes to or reads from, and how deep their entries are checked."""
_FILES: Final = ("HEAD", "packed-refs")


class GitDirectory(msgspec.Struct, frozen=True):
    """``own`` holds HEAD and the index of the working tree ``top`` (where there is one); ``common`` the objects
    and refs of all trees.
    """

    own: str
    common: str
    top: str


class NoRepository(Exception):
    """There is none that we use. The text says why, ``hint`` what to do."""

    def __init__(self, text: str, hint: str = "git init, and commit") -> None:
        super().__init__(text)
        self.hint = hint


def find_git_directory(root: Path) -> GitDirectory:
    """The git directory of ``root``. Blocks. Raises NoRepository."""
    real = Path(os.path.realpath(root))
    for top in (real, *real.parents):
        dot = top / ".git"
        mode = mode_of(dot)
        if stat.S_ISDIR(mode) and _is_repository(dot):
            if os.path.lexists(dot / "commondir"):
                raise NoRepository(f"{dot} points to another repository (commondir)", f"remove {dot}/commondir")
            return _sound(GitDirectory(str(dot), str(dot), str(top)))
        if stat.S_ISREG(mode):
            # Of a linked working tree, or a submodule.
            own = _path_in(dot, "gitdir: ", top)
            hint = "only what git worktree or git submodule made is used"
            if own is None or not stat.S_ISDIR(mode_of(own)):
                raise NoRepository(f"{dot} names no git directory", hint)
            if own.parent.name == "worktrees":
                back, common = _path_in(own / "gitdir", "", own), _path_in(own / "commondir", "", own)
                if back == dot and common == own.parent.parent:
                    return _sound(GitDirectory(str(own), str(common), str(top)))
            elif "modules" in own.parts and not os.path.lexists(own / "commondir") and _is_repository(own):
                return _sound(GitDirectory(str(own), str(own), str(top)))
            raise NoRepository(f"{dot} names {own}, which does not say that it belongs here", hint)
        if stat.S_ISLNK(mode):
            raise NoRepository(f"{dot} is a link", "a git directory that is elsewhere is not used")
        if _is_repository(top):
            raise NoRepository(
                f"it is a bare repository: {top}", "start it in a working tree, whose .git is a folder of git's"
            )
    raise NoRepository("not a git repository")


def first_line(path: str) -> str:
    """The first line of a regular file; neither it nor its folder is a link. Raises OSError."""
    with closing_descriptor(open_path(path)) as descriptor:
        return os.fsdecode(os.read(descriptor, _LINE_BYTES)).split("\n", 1)[0]


def _sound(found: GitDirectory) -> GitDirectory:
    for name in ("objects", "refs"):
        if not stat.S_ISDIR(mode_of(Path(found.common, name))):
            raise NoRepository(f"{found.common}/{name} is no folder", "a repository in parts is not used")
    return found


def check_kinds(common: str) -> None:
    """Raise NoRepository where git would write or wait elsewhere: at a link, pipe or device in the repository."""
    for name in _FILES:
        if mode_of(f"{common}/{name}") and not stat.S_ISREG(mode_of(f"{common}/{name}")):
            raise strange(f"{common}/{name}")
    for name, depth in _FOLDERS:
        if mode_of(f"{common}/{name}") and not stat.S_ISDIR(mode_of(f"{common}/{name}")):
            raise strange(f"{common}/{name}")
        left = [(f"{common}/{name}", depth)] if depth else []
        while left:
            folder, rest = left.pop()
            with suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left += [(entry.path, rest - 1)] if rest > 1 else []
                    elif not entry.is_file(follow_symlinks=False):
                        raise strange(entry.path)


def strange(path: str, why: str = "is a link, a pipe or a device") -> NoRepository:
    """Return the reason why a repository with ``path`` in it is not used."""
    return NoRepository(f"{path} {why}", "replace it by a regular file or folder: links in a repository are refused")


def _is_repository(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def _path_in(file: Path, before: str, base: Path) -> Path | None:
    try:
        line = first_line(str(file))
    except OSError:
        return None
    if not line.startswith(before) or "\0" in line:
        return None
    return Path(os.path.realpath(base / line.removeprefix(before).rstrip("\r")))


def mode_of(path: Path | str) -> int:
    """The mode of what is at ``path``, and not of what a link there names; 0: there is nothing. Blocks."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


_BRANCH: Final = "ref: refs/heads/"


def folder_in(root: str, directory: GitDirectory) -> str:
    """The folder ``root`` as seen from the top of its repository; "": it is that. Blocks."""
    folder = os.path.relpath(os.path.realpath(root), directory.top)
    return "" if folder == os.curdir else folder


def linked_trees(common: str) -> Iterator[tuple[str, str, str]]:
    """Of each linked tree: its own directory in the repository, where it is, and its branch ("": none)."""
    if not stat.S_ISDIR(mode_of(f"{common}/{_TREES}")):
        return
    with suppress(FileNotFoundError), os.scandir(f"{common}/{_TREES}") as entries:
        for entry in entries:
            with suppress(OSError):
                place = first_line(f"{entry.path}/gitdir")
                path = os.path.dirname(os.path.normpath(os.path.join(entry.path, place)))
                yield entry.path, path, branch_in(entry.path)


def branch_in(own: str) -> str:
    """The branch that a git directory has checked out; "": none."""
    with suppress(OSError):
        head = first_line(f"{own}/HEAD")
        return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""
    return ""


def link_tree(common: str, path: str, branch: str) -> str:
    """Make ``path`` a linked tree with ``branch``, with no files yet. Returns its own directory in the repository."""
    unlink_tree(common, path)
    os.makedirs(path, mode=0o700, exist_ok=True)
    own, folder = _new_folder(common, os.path.basename(path))
    try:
        for name, line in (("gitdir", f"{path}/.git"), ("commondir", "../.."), ("HEAD", f"{_BRANCH}{branch}")):
            with open(open_file(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(os.fsencode(f"{line}\n"))
    finally:
        os.close(folder)
    Path(path, ".git").write_text(f"gitdir: {own}\n", "utf-8", "surrogateescape")
    return own


def unlink_tree(common: str, path: str) -> None:
    """Have the repository forget the linked tree at ``path``, whose files stay."""
    for own, where, _branch in tuple(linked_trees(common)):
        if where == path:
            shutil.rmtree(own)
    with suppress(OSError):
        os.rmdir(f"{common}/{_TREES}")


def check_not_locked(own: str) -> None:
    """Raise Refused where somebody wants the tree to stay (git worktree lock)."""
    if os.path.lexists(f"{own}/locked"):
        raise Refused("setup_failed", "the working tree is locked", "git worktree unlock")


def _new_folder(common: str, name: str) -> tuple[str, int]:
    """Create the folder of a linked tree; no link is followed. Returns its path and a descriptor."""
    with closing_descriptor(open_folder(common, _TREES, make=True)) as above:
        for number in itertools.count():
            own = f"{name}{number or ''}"
            with suppress(FileExistsError):
                os.mkdir(own, dir_fd=above)
                return f"{common}/{_TREES}/{own}", open_folder(common, f"{_TREES}/{own}")
    raise AssertionError("unreachable")
