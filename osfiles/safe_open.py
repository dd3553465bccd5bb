"""Open, read and lock what others may have put there: no link is followed, and nobody waits for a pipe or a lock."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK: a pipe in place of the file is found out, not waited for."""


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600, *, folder: int | None = None
) -> int:
    """Open a regular file. Raises OSError: ELOOP for a link, EINVAL for what is no regular file."""
    try:
        descriptor = os.open(path, flags | FILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a link, which is not followed", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return descriptor


def read_private(path: str, limit: int) -> bytes:
    """Read a file that is ours and closed to others. Raises OSError for any other, and for more than ``limit`` bytes.

    The error has no strerror where the owner or the mode is wrong.
    """
    with open(open_regular(path), "rb") as file:
        info = os.fstat(file.fileno())
        if info.st_uid != os.geteuid() or info.st_mode & 0o077:
            raise PermissionError(f"mode {info.st_mode & 0o7777:04o}, owner {info.st_uid}")
        if info.st_size > limit:
            raise OSError(errno.EFBIG, f"it has {info.st_size} bytes", path)
        return file.read(limit)


@contextmanager
def closing_descriptor(descriptor: int) -> Generator[int]:
    """Close ``descriptor`` after the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: int, patience_seconds: float) -> Generator[None]:
    """Lock a folder against other writers. Raises OSError (EAGAIN) where another one keeps the lock for so long."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise OSError(errno.EAGAIN, f"another program has kept it locked for {patience_seconds:g} s") from None
            time.sleep(0.01)  # noqa: TID251 - in a thread, as all that writes files
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)
