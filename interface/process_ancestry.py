"""The ancestors of this process, to tell whether an agent runs it: what agents run is below their kernel.

Where there is no /proc nobody can tell. What lets another process act for it (cron, ssh to itself) is not below.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple


class Running(NamedTuple):
    """A process of this boot. ``start_time`` is in clock ticks since boot; 0 where it is not known."""

    pid: int
    start_time: int


def is_below(other: Running) -> bool:
    """Return whether ``other`` is this process, or one that it comes from."""
    return any(one.pid == other.pid and other.start_time in (0, one.start_time) for one in _line())


def _line() -> Iterator[Running]:
    """This process, what it was started by, and so on up."""
    pid = os.getpid()
    while pid > 0:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return
        yield Running(pid, int(fields[19]))
        pid = int(fields[1])
