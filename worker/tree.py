"""The processes below this one: finding them, signalling them, adopting them. Knows Linux's /proc.

A *subreaper* inherits every orphan below it, so what a tool leaves behind by setsid or double fork stays in reach, and
"no children left" (ECHILD) means that the whole tree is gone. macOS has none of this: there a tree is the process
group of its first process, and what leaves the group is lost (stated as weaker in the promises).
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

LINUX: Final = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER: Final = 36
_STAT_BYTES: Final = 4096
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if LINUX else None


class Stat(NamedTuple):
    """What /proc/<pid>/stat says of a process. ``start_time`` is in clock ticks since boot."""

    parent: int
    start_time: int


def become_subreaper() -> bool:
    """Adopt from now on every orphan below this process. False where the system cannot."""
    return _LIBC is not None and _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def stat(pid: int) -> Stat | None:
    """Parent and start time of ``pid``; None if there is no such process, or no /proc."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return None
    return Stat(parent=int(fields[1]), start_time=int(fields[19]))


def since(pid: int) -> int:
    """The start time of ``pid`` alone; 0, which nobody believes, where nobody tells."""
    try:
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)[19])
    except OSError:
        return 0


def _read(path: str) -> bytes:
    """A line of /proc. A file object makes nine system calls of these three."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _STAT_BYTES)
    finally:
        os.close(fd)


def _listed_children(pid: int) -> list[int]:
    """Children of every thread of ``pid``: a child belongs to the thread that forked it."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    return found


def _scanned_children(pid: int) -> list[int]:
    """The same by reading every process, for kernels built without CONFIG_PROC_CHILDREN."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return [child for child in pids if (facts := stat(child)) is not None and facts.parent == pid]


_OWN_LIST: Final = f"/proc/self/task/{os.getpid()}/children"
children: Final[Callable[[int], list[int]]] = _listed_children if os.path.exists(_OWN_LIST) else _scanned_children


def signal_descendants(signum: int, *, spare: Collection[int] = ()) -> int:
    """Signal every process below this one, except the children in ``spare`` and what is below them.

    One pass: what is forked meanwhile is missed, so a caller that wants an end repeats until nothing is left.

    Returns:
        How many were there to be signalled.
    """
    family = {os.getpid()}
    found = list(_below(os.getpid(), spare, family))
    for pid in found:
        _signal_member(pid, signum, family)
    return len(found)


def descendants() -> list[int]:
    """Every process below this one. Of macOS, where they cannot be found, it knows none."""
    return list(_below(os.getpid(), (), {os.getpid()})) if LINUX else []


def _below(root: int, spare: Collection[int], family: set[int]) -> Iterator[int]:
    waiting = [pid for pid in children(root) if pid not in spare]
    while waiting:
        pid = waiting.pop()
        if pid not in family:
            family.add(pid)
            waiting.extend(children(pid))
            yield pid


def signal_child(pid: int, signum: int, *, parent: int) -> None:
    """Signal ``pid`` if it is a child of ``parent``, which need not be this process."""
    _signal_member(pid, signum, (parent,))


def _signal_member(pid: int, signum: int, family: Collection[int]) -> None:
    """Signal ``pid`` if it still is one of ours: a grandchild's number may have been given to a stranger by now."""
    with suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            facts = stat(pid)
            if facts is not None and facts.parent in family:
                signal.pidfd_send_signal(handle, signum)
        finally:
            os.close(handle)


def signal_tree(first: int, signum: int) -> None:
    """Signal the whole tree of this process, whose first child, leader of its own group, is or was ``first``."""
    if LINUX:
        signal_descendants(signum)
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(first, signum)
