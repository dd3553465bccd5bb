"""Folders of a project that we write to: opened step by step from the root, so that no link leads out (P15, XF05).

What a name means is decided once, when it is opened: who swaps a folder for a link meanwhile gains nothing.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK: a pipe in place of the file is found out, not waited for."""


_NOT_OURS: Final = frozenset({".git", ".agents", ".workflows"})


class NotInside(ValueError):
    """A path that is none within a project, as its text tells. The text says why."""


def plain_path(text: str) -> str:
    """``text`` as the path of a folder inside a project: ``./data//x/`` -> ``data/x``. Raises NotInside."""
    if "\0" in text or any(ord(letter) < 32 for letter in text):
        raise NotInside("holds a control character")
    if text.startswith(("/", "~")):
        raise NotInside("is not a path inside the project")
    parts = PurePosixPath(text).parts
    if ".." in parts:
        raise NotInside("leads outside the project")
    if not parts:
        raise NotInside("is the project itself")
    return "/".join(parts)


def folder_fault(path: str, root: Path | None = None) -> str | None:
    """The reason why ``path`` cannot be a folder that we write to.

    With a ``root`` also as far as the folder is there already.
    """
    try:
        parts = plain_path(path).split("/")
    except NotInside as error:
        return f"{path[:200]!r} {error}"
    if parts[0] in _NOT_OURS:
        return f"{path[:200]!r} is in {parts[0]}, which has another purpose"
    for count in range(1, len(parts) + 1 if root else 1):
        shown = "/".join(parts[:count])
        try:
            mode = os.lstat(os.path.join(root or "", shown)).st_mode
        except OSError:
            return None
        if not stat.S_ISDIR(mode):
            return f"{shown[:200]!r} is {'a link' if stat.S_ISLNK(mode) else 'not a folder'}"
    return None


def open_folder(root: str, path: str, *, make: bool = False) -> int:
    """A descriptor of the folder ``path`` below ``root``, which with ``make`` is made.

    Raises NotInside, and OSError: ENOENT, or ENOTDIR where a part of it is a link or no folder.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in plain_path(path).split("/"):
        above = descriptor
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=above)
            descriptor = os.open(part, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def open_file(folder: int, name: str, flags: int, mode: int = 0o600) -> int:
    """The regular file ``name`` in ``folder``, never what a link points to. Raises OSError (EINVAL: it is none)."""
    descriptor = os.open(name, flags | _FILE, mode, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", name)
    return descriptor
