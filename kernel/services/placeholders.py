"""Empty files and folders that stand in a project while confined agents work there.

What is not there cannot be mounted read-only: an agent could make it, and programs of the user would run it. Where a
kernel was killed they stay; the next agent that is confined there takes them for what they are, for they are empty.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_FILES: Final = frozenset({".envrc"})
_MODE: Final = 0o400
"""Of a file: an empty one that nobody can write is none of the user's own."""


class Placeholders:
    """Those below ``root``. Attempts that hold some share them; the last one that lets go has them removed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, frozenset[str]] = {}

    def hold(self, attempt: str, names: Iterable[str]) -> None:
        """Make those of ``names`` that are not there, to stay until ``attempt`` releases them. Raises OSError."""
        wanted = frozenset(names)
        self._held[attempt] = wanted
        for name in sorted(wanted):
            with suppress(FileExistsError):
                if name in _FILES:
                    os.close(os.open(self._root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
                else:
                    os.mkdir(self._root / name)

    def release(self, attempt: str) -> None:
        """Remove what ``attempt`` held and nobody else holds, if it still is empty."""
        released = self._held.pop(attempt, frozenset())
        for name in released.difference(*self._held.values()):
            with suppress(OSError):  # something is in it by now, or it was never one of ours
                self._remove(name)

    def _remove(self, name: str) -> None:
        path = self._root / name
        if name not in _FILES:
            os.rmdir(path)
            return
        facts = os.lstat(path)
        if not facts.st_size and facts.st_mode & 0o777 == _MODE:
            os.unlink(path)
