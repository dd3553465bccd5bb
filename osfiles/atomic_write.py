"""Atomic replacement of a file through a temporary file: readers see the old or the new file, never a part."""

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import IO

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(path: str | os.PathLike[str], mode: int = 0o600, *, folder: int | None = None) -> int:
    """Delete the file at ``path``, if any, and open a new one. Links are not followed. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)
    return os.open(path, _NEW, mode, dir_fd=folder)


@contextmanager
def replacing(
    path: str | os.PathLike[str],
    mode: int = 0o600,
    *,
    beside: str | os.PathLike[str] | None = None,
    folder: int | None = None,
    keep_mode: bool = False,
    new: bool = False,
    sync: bool = True,
    written: Callable[[], None] | None = None,
) -> Generator[IO[bytes]]:
    """Replace ``path`` with the output of the block when the block ends. Raises OSError and leaves no file then.

    ``beside`` is the path of the temporary file. ``keep_mode``: the new file gets the permissions of the old one.
    ``new``: ``path`` must not exist (FileExistsError). ``written`` is called before the file gets its final name, and
    prevents that by raising.
    """
    temporary = beside or f"{path}.{os.getpid()}.part"
    descriptor = open_new(temporary, mode, folder=folder)
    try:
        with open(descriptor, "w+b") as file:
            if keep_mode:
                with suppress(FileNotFoundError):
                    found = os.stat(path, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
            yield file
            file.flush()
            if sync:
                os.fsync(descriptor)
        if written is not None:
            written()
        if new:
            os.link(temporary, path, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(temporary, dir_fd=folder)
        else:
            os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Flush the directory entries of a folder to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
