"""Going through the files below a folder: in a fixed order, bounded, following no link. Every step blocks."""

import os
import stat
from collections.abc import Iterator
from typing import Final

import msgspec
import trio

from worker.tools.confined_files import ConfinedDir, Parts

LIMIT_FILES: Final = 50_000
LIMIT_DEPTH: Final = 64
"""Folders within folders below the first: each on the way is held open."""
SKIPPED: Final = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox"}
)
"""Folders that are gone through only when they are asked for by name."""


class Found(msgspec.Struct, frozen=True):
    """A regular file. ``folder`` is a descriptor, open until the next one is asked for."""

    parts: Parts
    folder: int

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]


class Walk:
    """The regular files below ``top``. ``cut`` says afterwards what was left out; "" where nothing was."""

    def __init__(self, place: ConfinedDir, top: Parts) -> None:
        self._place = place
        self._top = top
        self.cut = ""

    def __iter__(self) -> Iterator[Found]:
        """Raises OSError where ``top`` is no folder. Cancellation of the task that waits for this thread ends it."""
        seen = 0
        start = self._place.folder(self._top)
        try:
            for path, folders, names, folder in os.fwalk(".", dir_fd=start, follow_symlinks=False):
                trio.from_thread.check_cancelled()
                below = (*self._top, *(part for part in path.split("/") if part != "."))
                folders[:] = sorted(name for name in folders if self._enters((*below, name)))
                if folders and len(below) - len(self._top) >= LIMIT_DEPTH:
                    self.cut = f"folders more than {LIMIT_DEPTH} deep were not looked into"
                    folders.clear()
                for name in sorted(names):
                    seen += 1
                    if seen > LIMIT_FILES:
                        self.cut = f"only the first {LIMIT_FILES} files were looked at"
                        return
                    try:
                        is_regular = stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                    except OSError:
                        is_regular = False  # gone since it was listed
                    if is_regular:
                        yield Found((*below, name), folder)
        finally:
            os.close(start)

    def _enters(self, parts: Parts) -> bool:
        return parts[-1] not in SKIPPED and not self._place.hides(parts)
