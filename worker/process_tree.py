"""The processes below this one: adopt, find, signal, reap and measure them, using Linux's /proc.

A *subreaper* adopts every orphan below it, so processes that escape by setsid or double fork stay reachable, and "no
children left" (ECHILD) means that the whole tree has exited. macOS has no subreapers: there a tree is the process
group of its first process, and processes that leave the group are lost (documented as a weaker promise).

The limits of a tree are checked here, twice a second, because those of the system do not fit: RLIMIT_AS counts address
space, of which node and bun reserve gigabytes that they never use; RLIMIT_NPROC counts all processes of the user, and
none of root's; a control group needs delegation. So a tree may exceed a limit briefly before it is stopped.
"""

import _signal as bare  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
import ctypes
import faulthandler
import operator
import os
import re
import resource
import signal
import socket
import sys
from array import array
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from typing import Any, Final, NamedTuple

import msgspec

from osfiles.safe_open import closing_descriptor
from protocol.ipc import Bound

_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores to raise OSError instead, which a command must not inherit."""
_OF_WORKERS: Final = tuple(map(int, (*_IGNORED, signal.SIGCHLD)))
_OF_COMMANDS: Final = tuple(map(int, (*_IGNORED, signal.SIGCHLD, *_IGNORED_BY_PYTHON)))


def ignore_signals() -> None:
    """Ignore SIGINT, SIGTERM and similar signals; the process exits when its control socket closes."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)


def restore_signals(*, python: bool) -> None:
    """Restore default signal handling in a child. ``python``: the child continues in this interpreter.

    Uses ``_signal``, because the wrappers in ``signal`` create enums, which copies 40 pages of a fresh fork.
    """
    bare.set_wakeup_fd(-1)
    for number in _OF_WORKERS if python else _OF_COMMANDS:
        bare.signal(number, bare.SIG_DFL)
    bare.pthread_sigmask(bare.SIG_SETMASK, ())


def _native() -> Callable[[str], None]:
    """Load only the extension: its package imports logging and threading, whose hook copies 110 pages at a fork."""
    package = PathFinder.find_spec("setproctitle")
    spec = PathFinder.find_spec("_setproctitle", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        from setproctitle import setproctitle  # noqa: PLC0415

        return setproctitle
    module: Any = spec.loader.create_module(spec)
    spec.loader.exec_module(module)
    native: Callable[[str], None] = module.setproctitle
    return native


_set_native: Callable[[str], None] = _native()


def set_title(role: str, what: str = "") -> None:
    """Name this process, for example ``agent-worker: keeper i7-2``."""
    _set_native(f"agent-worker: {role} {what}".rstrip())


_READ_BYTES: Final = 65536
_MOST_DESCRIPTORS: Final = 16
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array("i").itemsize)
_CLOEXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def receive_descriptors(connection: socket.SocketType) -> tuple[bytes, list[int], int]:
    """Read once; return the bytes, the received descriptors, and the message's flags. Raises OSError."""
    chunk, ancillary, flags, _address = connection.recvmsg(_READ_BYTES, _ANCILLARY_BYTES, _CLOEXEC)
    found = array("i")
    for _level, _type, data in ancillary:
        found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if not _CLOEXEC:  # macOS: descriptors are inheritable until now
        for fd in found:
            os.set_inheritable(fd, False)
    return chunk, list(found), flags


_SIGCHLD: Final = int(signal.SIGCHLD)


class ChildSignal:
    """SIGCHLD as a descriptor, readable when a child has exited. One per process: a forked child creates its own."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        # A no-op handler in C: a signal with the default action does not wake the process.
        bare.signal(_SIGCHLD, operator.is_)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def drain(self) -> None:
        """Discard pending signals. Call it before reaping: a signal that arrives later is then not lost."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def close(self) -> None:
        """Release the signal in a process that was forked from the creator."""
        signal.set_wakeup_fd(-1)
        bare.signal(_SIGCHLD, bare.SIG_DFL)
        os.close(self.fd)
        os.close(self._write)


class Cost(msgspec.Struct):
    """Resources that reaped processes have used: total CPU seconds, and the highest peak of resident memory."""

    user_seconds: float = 0.0
    system_seconds: float = 0.0
    max_rss: int = 0

    def add(self, usage: resource.struct_rusage) -> None:
        """Add the usage of one process, which includes the children that it has reaped."""
        self.user_seconds += usage.ru_utime
        self.system_seconds += usage.ru_stime
        self.max_rss = max(self.max_rss, usage.ru_maxrss)


def reap(cost: Cost | None = None) -> tuple[dict[int, int], bool]:
    """Reap every ended child, including adopted orphans, and add their usage to ``cost``.

    Returns:
        Wait status by pid, and whether no child is left: for a subreaper, its whole tree has exited.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if not pid:
            return ended, False
        ended[pid] = status
        if cost is not None:
            cost.add(usage)


LINUX: Final = sys.platform == "linux"
_PR_SET_CHILD_SUBREAPER: Final = 36
_STAT_BYTES: Final = 4096
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if LINUX else None


class Stat(NamedTuple):
    """Facts of /proc/<pid>/stat. ``start_time`` is in clock ticks since boot."""

    parent: int
    start_time: int


def become_subreaper() -> bool:
    """Adopt every orphan below this process from now on. Return False if the system does not support it."""
    return _LIBC is not None and _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def stat(pid: int) -> Stat | None:
    """Return parent and start time of ``pid``; None if there is no such process, or no /proc."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()  # a process name may contain ") "
    except OSError:
        return None
    return Stat(parent=int(fields[1]), start_time=int(fields[19]))


def since(pid: int) -> int:
    """Return the start time of ``pid`` in clock ticks since boot; 0, which never matches, if it is unknown."""
    try:
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 20)[19])
    except OSError:
        return 0


def _read(path: str) -> bytes:
    with closing_descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        return os.read(fd, _STAT_BYTES)


def _listed_children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # each thread lists its own children
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    return found


def _scanned_children(pid: int) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return [child for child in pids if (facts := stat(child)) is not None and facts.parent == pid]


_OWN_LIST: Final = f"/proc/self/task/{os.getpid()}/children"
children: Final[Callable[[int], list[int]]] = _listed_children if os.path.exists(_OWN_LIST) else _scanned_children


def signal_descendants(signum: int, *, spare: Collection[int] = ()) -> int:
    """Signal every process below this one, except the children in ``spare`` and their descendants.

    One pass misses processes forked meanwhile, so repeat it until none is left.

    Returns:
        Number of processes that were signalled.
    """
    family = {os.getpid()}
    found = list(_below(os.getpid(), spare, family))
    for pid in found:
        signal_member(pid, signum, family)
    return len(found)


def descendants() -> list[int]:
    """Return every process below this one; empty on macOS, which cannot find them."""
    return list(_below(os.getpid(), (), {os.getpid()})) if LINUX else []


def _below(root: int, spare: Collection[int], family: set[int]) -> Iterator[int]:
    waiting = [pid for pid in children(root) if pid not in spare]
    while waiting:
        pid = waiting.pop()
        if pid not in family:
            family.add(pid)  # once each: a reused pid could form a cycle
            waiting.extend(children(pid))
            yield pid


def signal_member(pid: int, signum: int, family: Collection[int]) -> None:
    """Signal ``pid`` if it is a child of one of ``family``, which may be other processes."""
    with suppress(ProcessLookupError, PermissionError), closing_descriptor(os.pidfd_open(pid)) as handle:
        # The pid may have been reused. The descriptor refers to the same process even then.
        facts = stat(pid)
        if facts is not None and facts.parent in family:
            signal.pidfd_send_signal(handle, signum)


def signal_tree(first: int, signum: int) -> None:
    """Signal all processes of the tree. ``first``, the first child, leads its process group, or led it."""
    if LINUX:
        signal_descendants(signum)
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(first, signum)


LOOK_SECONDS: Final = 0.5
"""Interval between two checks of the tree, each of which takes some hundred microseconds."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_MIB: Final = 2**20
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
"""Escaped characters in paths in /proc."""


def exceeded(bound: Bound) -> str | None:
    """Return a message if the processes below this one exceed a limit of ``bound``, else None."""
    processes = descendants()
    if bound.processes is not None and len(processes) > bound.processes:
        return f"{len(processes)} processes at once; the limit is {bound.processes} (limits.processes)"
    if bound.memory_bytes is None:
        return None
    used, kept = memory_bytes(processes), tmpfs_bytes(processes)
    if used + kept > bound.memory_bytes:
        files = f" and {kept / _MIB:.0f} MiB of files in memory (/tmp of a sandbox)" if kept else ""
        may = f"may use {bound.memory_bytes / _MIB:.0f} MiB (limits.memory)"
        return f"its processes used {used / _MIB:.0f} MiB of memory{files}, and {may}"
    return None


def memory_bytes(processes: Collection[int]) -> int:
    """Return the private memory of ``processes``: resident, without files and memory that they share."""
    pages = 0
    for pid in processes:
        with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:  # an exited process uses nothing
            _size, resident, shared, *_rest = file.read().split()
            pages += int(resident) - int(shared)  # shared pages would be counted for each process
    return pages * _PAGE_BYTES


def tmpfs_bytes(processes: Collection[int]) -> int:
    """Return the size of in-memory files that only ``processes`` see, in the file systems of their sandboxes."""
    seen = {_mount_namespace("self")}
    counted = {device for device, _place in _tmpfs_mounts("self")}
    total = 0
    for pid in processes:
        namespace = _mount_namespace(str(pid))
        if namespace in seen:  # outside of a sandbox, or in one that was measured
            continue
        seen.add(namespace)
        for device, place in _tmpfs_mounts(str(pid)):
            if device not in counted:
                counted.add(device)
                total += _held_bytes(f"/proc/{pid}/root{place}", device)
    return total


def _mount_namespace(process: str) -> int | None:
    try:
        return os.stat(f"/proc/{process}/ns/mnt").st_ino
    except OSError:
        return None


def _tmpfs_mounts(process: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    with suppress(OSError), open(f"/proc/{process}/mountinfo", "rb") as file:
        for line in file:
            mount, _dash, kind = line.partition(b" - ")
            if kind.startswith(b"tmpfs "):
                _id, _parent, device, _root, place, *_rest = mount.split()
                major, minor = map(int, device.split(b":"))
                path = _ESCAPED.sub(lambda match: bytes((int(match[1], 8),)), place)
                found.append((os.makedev(major, minor), os.fsdecode(path)))
    return found


def _held_bytes(path: str, device: int) -> int:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)  # O_PATH: opens no device and blocks on no pipe
    except OSError:
        return 0
    try:
        if os.fstat(fd).st_dev != device:  # covered by another mount
            return 0
        facts = os.fstatvfs(fd)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    finally:
        os.close(fd)
