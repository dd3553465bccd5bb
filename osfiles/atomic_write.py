"""Atomic file replacement: write a temporary file, then rename it; readers see the old file or the new one."""

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import IO

from osfiles.safe_open import closing_descriptor

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(path: str | os.PathLike[str], mode: int = 0o600, *, folder: int | None = None) -> int:
    """Open a new file in place of an existing one, which is removed: no link is followed. Raises OSError."""
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
    """Replace ``path`` with the data that the block writes. On an OSError the file is unchanged.

    ``beside`` is the temporary name. ``keep_mode``: an existing file keeps its permissions. ``new``: the file must not
    exist (FileExistsError). ``written`` is called before the rename, and may raise to prevent it.
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
    with closing_descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)
