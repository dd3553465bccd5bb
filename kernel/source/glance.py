"""Whether a file can still be what was read before, told by one stat.

Some file systems count time so coarsely that two writes within a moment look like one. So what is seen counts as
*settled* only where it was seen SETTLED_SECONDS ago already: whatever is written from then on looks different.
"""

import os
import time
from collections.abc import Callable
from typing import Final, NamedTuple

SETTLED_SECONDS: Final = 2.5
"""FAT counts in steps of two seconds."""

Signature = tuple[int, int, int, int]
"""What changes with a file's content: modification and change time, size, inode."""


def signature(path: str) -> Signature | None:
    """Of the file at ``path``, links followed; None where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


class Glance(NamedTuple):
    """How a file looks. What was read after a settled glance stays true as long as later ones are the same."""

    signature: Signature | None
    settled: bool


class Glances:
    """Looks at files, and remembers since when each looks as it does."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: seconds, of a clock that nobody sets."""
        self._now = now
        self._since: dict[str, tuple[Signature, float]] = {}

    def at(self, path: str) -> Glance:
        """How the file at ``path`` looks now. One that is not there has settled: its coming is seen."""
        seen, now = signature(path), self._now()
        if seen is None:
            self._since.pop(path, None)  # anybody may ask for any name
            return Glance(None, True)
        known = self._since.get(path)
        if known is None or known[0] != seen:
            known = self._since[path] = seen, now
        return Glance(seen, now - known[1] >= SETTLED_SECONDS)
