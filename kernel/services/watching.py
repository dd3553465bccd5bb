"""Waits until something in a few folders changed. The system tells it (inotify): nothing is polled, waiting is free.

watchfiles was tried: it wakes twenty times a second to look whether anything has come (LF01).
"""

import ctypes
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from errno import EACCES, ENOENT, ENOTDIR
from pathlib import Path
from typing import Final

import trio

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_ONLYDIR: Final = 0x01000000
_ANYTHING: Final = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
MOVED: Final = _MOVED_TO
"""What is put in place whole. The rest may be written all the time."""
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 65536
_ABSENT: Final = frozenset({ENOENT, ENOTDIR, EACCES})


class CannotWatch(Exception):
    """The system has no such thing, or none left to give. The text says why."""


class Watch:
    """Made by ``watching``."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self._descriptor = descriptor

    def cover(self, folders: Iterable[Path], what: int = _ANYTHING) -> None:
        """Watch ``folders`` too, but not what is below them; one that is not there is left out. Raises CannotWatch.

        Cheap where it is watched already: called again after each change, it finds what was made anew.
        """
        for folder in folders:
            if self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), what | _ONLYDIR) < 0:
                number = ctypes.get_errno()
                if number not in _ABSENT:
                    raise CannotWatch(os.strerror(number))

    async def changed(self) -> None:
        """Return once a file came, went or was written; what came meanwhile counts as one."""
        await trio.lowlevel.wait_readable(self._descriptor)
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _CHUNK):
                pass


@contextmanager
def watching() -> Generator[Watch]:
    """A watch over nothing yet. Raises CannotWatch."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = libc.inotify_init1(_FLAGS)
    except AttributeError:
        raise CannotWatch("this system has no inotify") from None
    if descriptor < 0:
        raise CannotWatch(os.strerror(ctypes.get_errno()))
    try:
        yield Watch(libc, descriptor)
    finally:
        os.close(descriptor)
