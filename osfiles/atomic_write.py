"""Write a file beside its place, and then put it there: readers see the old file or the new one, never a part."""

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import IO

from osfiles.safe_open import closing_descriptor

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(path: str | os.PathLike[str], mode: int = 0o600, *, folder: int | None = None) -> int:
    """Open a new file in place of what is there, which is removed: a link is not followed. Raises OSError."""
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
    """Replace ``path`` with what the block writes, once the block has ended. Raises OSError, and leaves nothing then.

    ``beside`` is the name until then. ``keep_mode``: a file that was there keeps its permissions. ``new``: nothing may
    be there (FileExistsError). ``written`` is called before the file gets its name, and may refuse that.
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
    """Have the names in a folder on the disk. Raises OSError."""
    with closing_descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)
