"""The git directory that a project is in, found by reading: git itself would believe what it finds there.

It is the ``.git`` of the project or of a folder above it. A file ``.git`` (a linked working tree, a submodule) counts
where the directory that it names says in turn that it belongs there, as git writes it; whoever only names a directory
gets nothing of it.
"""

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

_LINE_BYTES: Final = 8192
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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
    """The first line of a regular file, which is no link. Raises OSError."""
    descriptor = os.open(path, _FILE)
    try:
        return os.fsdecode(os.read(descriptor, _LINE_BYTES)).split("\n", 1)[0]
    finally:
        os.close(descriptor)


def _sound(found: GitDirectory) -> GitDirectory:
    for name in ("objects", "refs"):
        if not stat.S_ISDIR(mode_of(Path(found.common, name))):
            raise NoRepository(f"{found.common}/{name} is no folder", "a repository in parts is not used")
    return found


def _is_repository(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def _path_in(file: Path, before: str, base: Path) -> Path | None:
    """The path that ``file`` holds after the word ``before``."""
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
