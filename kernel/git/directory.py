"""Location and checks of a project's git directory and its linked working trees, as plain files.

The format is gitrepository-layout. The git directory is the ``.git`` of the project or of a folder above
it. It is located without git, because git would trust its content. If ``.git`` is a file (in a linked
working tree or a submodule), the directory that it names must refer back to it. ``git worktree add`` and
``remove`` are not used: the repository's own configuration would affect them. Every function blocks.
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
"""Folders that git reads or writes, with the depth to which their entries are checked."""
_FILES: Final = ("HEAD", "packed-refs")


class GitDirectory(msgspec.Struct, frozen=True):
    """A git directory: ``own`` has HEAD and index of the tree ``top``; ``common`` has the objects and refs."""

    own: str
    common: str
    top: str


class NoRepository(Exception):
    """No usable repository. The text has the reason, ``hint`` a remedy."""

    def __init__(self, text: str, hint: str = "git init, and commit") -> None:
        super().__init__(text)
        self.hint = hint


def find_git_directory(root: Path) -> GitDirectory:
    """Return the git directory of the project at ``root``. Blocks. Raises NoRepository."""
    real = Path(os.path.realpath(root))
    for top in (real, *real.parents):
        dot = top / ".git"
        mode = mode_of(dot)
        if stat.S_ISDIR(mode) and _is_repository(dot):
            if os.path.lexists(dot / "commondir"):
                raise NoRepository(f"{dot} points to another repository (commondir)", f"remove {dot}/commondir")
            return _sound(GitDirectory(str(dot), str(dot), str(top)))
        if stat.S_ISREG(mode):
            # A linked working tree, or a submodule.
            own = _path_in(dot, "gitdir: ", top)
            hint = "only git directories created by git worktree or git submodule are supported"
            if own is None or not stat.S_ISDIR(mode_of(own)):
                raise NoRepository(f"{dot} does not name a git directory", hint)
            if own.parent.name == "worktrees":  # a linked working tree
                back, common = _path_in(own / "gitdir", "", own), _path_in(own / "commondir", "", own)
                if back == dot and common == own.parent.parent:
                    return _sound(GitDirectory(str(own), str(common), str(top)))
            elif "modules" in own.parts and not os.path.lexists(own / "commondir") and _is_repository(own):
                return _sound(GitDirectory(str(own), str(own), str(top)))
            raise NoRepository(f"{dot} names {own}, which does not refer back to it", hint)
        if stat.S_ISLNK(mode):
            raise NoRepository(f"{dot} is a symbolic link", "links to a git directory are not supported")
        if _is_repository(top):
            raise NoRepository(f"{top} is a bare repository", "start the kernel in a working tree")
    raise NoRepository("not a git repository")


def first_line(path: str) -> str:
    """Return the first line of a regular file; links in its path are refused. Raises OSError."""
    with closing_descriptor(open_path(path)) as descriptor:
        return os.fsdecode(os.read(descriptor, _LINE_BYTES)).split("\n", 1)[0]


def _sound(found: GitDirectory) -> GitDirectory:
    for name in ("objects", "refs"):
        if not stat.S_ISDIR(mode_of(Path(found.common, name))):
            raise NoRepository(f"{found.common}/{name} is not a folder", "repair the repository")
    return found


def check_kinds(common: str) -> None:
    """Raise NoRepository if the repository contains a link, a pipe or a device, which git would follow or block on."""
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
                    elif not entry.is_file(follow_symlinks=False):  # a link could lead to any file of the user
                        raise strange(entry.path)


def strange(path: str, why: str = "is a link, a pipe or a device") -> NoRepository:
    """Return the error for a repository with the unusable ``path``; ``why`` is the reason."""
    return NoRepository(f"{path} {why}", "replace it with a regular file or folder: links in a repository are refused")


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
    """Return the mode of ``path`` without following links; 0 if it does not exist. Blocks."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


_BRANCH: Final = "ref: refs/heads/"


def folder_in(root: str, directory: GitDirectory) -> str:
    """Return the path of ``root`` relative to the top of its repository; "" for the top. Blocks."""
    folder = os.path.relpath(os.path.realpath(root), directory.top)
    return "" if folder == os.curdir else folder


def linked_trees(common: str) -> Iterator[tuple[str, str, str]]:
    """Yield each linked tree: its git directory, its path, and its branch ("" if none is checked out)."""
    if not stat.S_ISDIR(mode_of(f"{common}/{_TREES}")):
        return
    with suppress(FileNotFoundError), os.scandir(f"{common}/{_TREES}") as entries:
        for entry in entries:
            with suppress(OSError):
                place = first_line(f"{entry.path}/gitdir")
                path = os.path.dirname(os.path.normpath(os.path.join(entry.path, place)))
                yield entry.path, path, branch_in(entry.path)


def branch_in(own: str) -> str:
    """Return the branch that the git directory ``own`` has checked out, or ""."""
    with suppress(OSError):
        head = first_line(f"{own}/HEAD")
        return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""
    return ""


def link_tree(common: str, path: str, branch: str) -> str:
    """Create an empty linked working tree at ``path`` on ``branch``; return its git directory."""
    unlink_tree(common, path)  # an interrupted attempt may have left a registration
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
    """Unregister the linked tree at ``path``; its files remain."""
    for own, where, _branch in tuple(linked_trees(common)):
        if where == path:
            shutil.rmtree(own)  # its registration; the files of the tree are elsewhere
    with suppress(OSError):
        os.rmdir(f"{common}/{_TREES}")  # only if empty, as git does


def check_not_locked(own: str) -> None:
    """Raise Refused if the user has locked the tree (git worktree lock)."""
    if os.path.lexists(f"{own}/locked"):
        raise Refused("setup_failed", "the working tree is locked", "git worktree unlock")


def _new_folder(common: str, name: str) -> tuple[str, int]:
    """Create the folder of a linked tree without following links. Returns its path and a descriptor."""
    with closing_descriptor(open_folder(common, _TREES, make=True)) as above:
        for number in itertools.count():
            own = f"{name}{number or ''}"
            with suppress(FileExistsError):
                os.mkdir(own, dir_fd=above)  # atomic: git may create one at the same time
                return f"{common}/{_TREES}/{own}", open_folder(common, f"{_TREES}/{own}")
    raise AssertionError("unreachable")
