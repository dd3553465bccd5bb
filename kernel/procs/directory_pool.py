"""Empty directories of ended attempts, renamed for the next ones.

To remove a directory frees a block, and a file system that tells the disk so at once (``discard``) takes milliseconds,
in which the kernel's loop stands still. Only what is as it was made is used again: nobody can tell the difference.
"""

import itertools
import os
import stat
from contextlib import suppress
from typing import Final

MOST: Final = 16
SPARE: Final = ".spare-"
"""Begins the name of one that waits; no attempt's begins with a dot."""
_AS_MADE: Final = stat.S_IFDIR | 0o700


class DirectoryPool:
    """The spare directories of one ``run/``."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._numbers = itertools.count(1)
        self._closed = False

    def take(self, path: str) -> bool:
        """Have a spare one be ``path``; False where there is none (any more), or something is there."""
        if not self._waiting or os.path.lexists(path):
            return False
        with suppress(OSError):
            os.rename(self._waiting.pop(), path)
            return True
        return False

    def keep(self, path: str) -> bool:
        """Take over the directory ``path``; False if it has to be removed. Raises OSError."""
        if self._closed or len(self._waiting) >= MOST or not _is_as_made(path):
            return False
        spare = f"{os.path.dirname(path)}/{SPARE}{next(self._numbers)}"
        os.rename(path, spare)
        self._waiting.append(spare)
        return True

    def close(self) -> None:
        """Remove all, and keep no other."""
        self._closed = True
        while self._waiting:
            with suppress(OSError):
                os.rmdir(self._waiting.pop())


def _is_as_made(path: str) -> bool:
    found = os.lstat(path)
    ours = found.st_mode == _AS_MADE and found.st_uid == os.geteuid()
    return ours and not os.listdir(path) and not _attributes(path)


def _attributes(path: str) -> list[str]:
    with suppress(OSError):
        return os.listxattr(path)
    return []  # there can be none
