"""Tells whether a database that is open is still the one at its path: whoever removes it tells nobody.

SQLite goes on writing to a file that has no name any more, or another one, and what is accepted there is never found
again. Compared by device and inode: a ``stat`` for each name, a microsecond.
"""

import os
from pathlib import Path
from typing import Final

Identity = tuple[int, int]
"""Device and inode."""
_SHARED: Final = "-shm"
"""Made anew at every start."""
_SUFFIXES: Final = ("", "-wal", _SHARED)
_DESCRIPTORS: Final = Path("/proc/self/fd")


class Place:
    """The names of one database's files, and what they stood for when it was opened. Make it after the first read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = {f"{path}{suffix}": found for suffix in _SUFFIXES if (found := _identity(path + suffix))}

    def fault(self) -> str | None:
        """Return why what is written does not reach the files that the next kernel opens; None: it does."""
        for name, opened in self._names.items():
            found = _identity(name)
            if found != opened:
                happened = "is not there any more" if found is None else "was replaced by another file"
                return f"{name} {happened} while it was open{self._whereabouts(name, opened)}"
        return None

    def vanished(self) -> bool:
        """Return whether the database itself, or its log, has no name at all any more: with this process it would be
        gone.
        """
        kept = [(name, opened) for name, opened in self._names.items() if not name.endswith(_SHARED)]
        return any(_identity(name) != opened and _link_of(opened) is None for name, opened in kept)

    @staticmethod
    def _whereabouts(name: str, opened: Identity) -> str:
        link = _link_of(opened)
        if link is not None and link != name:
            return f": it is {link} now"
        descriptor = _descriptor_of(opened)
        return (
            "" if descriptor is None else f": only /proc/{os.getpid()}/fd/{descriptor} has it, until this process ends"
        )


def _identity(name: str) -> Identity | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _descriptor_of(opened: Identity) -> str | None:
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return None
    return next((name for name in names if _identity(f"{_DESCRIPTORS}/{name}") == opened), None)


def _link_of(opened: Identity) -> str | None:
    """The name that the open file has now, if it has one."""
    descriptor = _descriptor_of(opened)
    if descriptor is None:
        return None
    link = os.readlink(_DESCRIPTORS / descriptor)
    return link if _identity(link) == opened else None
