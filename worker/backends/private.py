"""Files that only this user reads: configuration and secrets of one attempt, or of one agent."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

MODE: Final = 0o600


def write(path: Path, text: str) -> Path:
    """Write ``text`` to ``path``, from its first byte on readable by this user alone. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def opened(path: Path) -> BinaryIO:
    """A file that lies where a program can write: no link is followed, no pipe waited for. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no file", str(path))


def folder(home: Path, *names: str) -> Path:
    """The folder of these ``names`` below ``home``, made where it is missing. Raises OSError.

    A program in a sandbox may write to its home: a link that it left there would lead us to where it may not write.
    """
    path = home
    for name in names:
        path = path / name
        if path.is_symlink():
            path.unlink()
        path.mkdir(mode=0o700, exist_ok=True)
    return path
