"""Opening, reading and locking of untrusted paths: links are not followed, and pipes and locks do not block."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK: opening a pipe at this path does not block."""


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600, *, folder: int | None = None
) -> int:
    """Open a regular file. Raises OSError: ELOOP for a link, EINVAL for anything else that is not a regular file."""
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
    """Read a file that the user owns and no one else can access. Raises OSError, also beyond ``limit`` bytes.

    The error has no strerror if the owner or the mode is wrong.
    """
    with open(open_regular(path), "rb") as file:
        info = os.fstat(file.fileno())
        if info.st_uid != os.geteuid() or info.st_mode & 0o077:
            raise PermissionError(f"mode {info.st_mode & 0o7777:04o}, owner {info.st_uid}")
        if info.st_size > limit:
            raise OSError(errno.EFBIG, f"it has {info.st_size} bytes", path)
        return file.read(limit)


def read_private_in(folder: str, names: Sequence[str], limit: int, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield the private files ``names`` of the first ``most`` folders in ``folder``, sorted: the path of each file's
    folder and its content. Links, missing files and files that others can access are skipped."""
    for path in sorted(entry.path for entry in os.scandir(folder))[:most] if os.path.isdir(folder) else ():
        for name in () if os.path.islink(path) else names:
            with suppress(OSError):
                yield path, read_private(os.path.join(path, name), limit)


def is_locked(path: str) -> bool:
    """Return whether a process holds an exclusive lock on the file, without waiting; False for a missing file."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(lock)
    return False


@contextmanager
def closing_descriptor(descriptor: int) -> Generator[int]:
    """Close ``descriptor`` after the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: int, patience_seconds: float) -> Generator[None]:
    """Lock a folder against other writers. Raises OSError (EAGAIN) if the lock is not free in time."""
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
