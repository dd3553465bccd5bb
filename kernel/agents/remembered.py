"""What was made of a file, kept for as long as the file has not changed. Knows nothing of what is made.

An edit counts from the next question: the signature is asked for each time, which costs microseconds where reading
and checking cost a millisecond. A file that changed a moment ago is not kept, since a second edit within one tick of
the file system's clock might leave the same signature.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

SETTLED_NS: Final = 50_000_000
"""Clocks of file systems tick every 1 to 10 ms."""
MOST: Final = 1024


class Signature(NamedTuple):
    """What changes when a file is edited, replaced, or a link to it is turned."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Remembered(Generic[T]):
    """Values by the files they were made of. Files that are missing are part of the key too."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, ...], tuple[tuple[Signature | None, ...], T]] = {}

    def of(self, files: tuple[Path, ...], make: Callable[[], T]) -> T:
        """The value for ``files``: the one kept, or what ``make`` makes of them now. What it raises is not kept."""
        before = tuple(map(_signature, files))
        kept = self._kept.get(files)
        if kept is not None and kept[0] == before:
            return kept[1]
        value = make()
        if all(map(_is_settled, before)):
            if len(self._kept) >= MOST:
                self._kept.clear()
            self._kept[files] = (before, value)
        return value


def _signature(path: Path) -> Signature | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return Signature(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_settled(signature: Signature | None) -> bool:
    """Whether the last change is long enough ago for the next one to show. Wall time, as the file system has it."""
    return signature is None or abs(time.time_ns() - signature.changed_ns) > SETTLED_NS
