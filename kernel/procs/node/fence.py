"""The fence of a node: the folder of its node process, the highest term it has served, and its guarded lease.

If several machines share a home, each has its own folder, because no machine can tell whether a lock or a process in a
shared folder is its own. The lease uses a clock that continues while the machine sleeps. When the lease has expired,
the node kills all its processes, because the kernel may have given their work to another node.
"""

import fcntl
import os
import re
import select
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import trio

from osfiles.atomic_write import replacing, sync_folder
from protocol.discovery import VERSION
from protocol.node import NodeFacts

LOCK: Final = "node.lock"
LOG: Final = "node.log"
LOG_BYTES: Final = 1024 * 1024
"""Size above which the next node process truncates the log."""
RUN: Final = "run"
_PASSED_ON = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_ODD = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class FolderRefused(Exception):
    """The folder belongs to another user, or is not a folder."""


def of_this_machine(state: Path) -> Path:
    """Return the subfolder of ``state`` for this machine."""
    return state / (_ODD.sub("_", socket.gethostname()).lstrip(".")[:64] or "machine")


def prepare_folder(state: Path) -> None:
    """Create the folder with mode 0700, or check that it is private and ours. Raises FolderRefused, OSError."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = os.lstat(state)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise FolderRefused(f"{state} is not a directory that you own: name another one with --state")
    if info.st_mode & 0o077:
        os.chmod(state, 0o700)  # created with another umask, or by hand


def lock_folder(state: Path) -> int | None:
    """Lock the folder for this node process; return the descriptor that holds the lock, or None if it is locked."""
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)  # only after the lock: it contains the pid of its holder
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def holder_of(state: Path) -> int:
    """Return the pid of the node process that holds the lock of the folder. Raises OSError, ValueError."""
    return int((state / LOCK).read_text("ascii"))


def open_log(state: Path) -> int:
    """Open the log of the folder for appending."""
    log = os.open(state / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    return log


def search_path(environ: Mapping[str, str]) -> str:
    """Return the PATH without relative folders, which depend on the working directory."""
    parts = (environ.get("PATH") or _DEFAULT_PATH).split(":")
    return ":".join(part for part in parts if part.startswith("/")) or _DEFAULT_PATH


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``environ`` that workers get; their programs get theirs from the start frame."""
    kept = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    return {**kept, "PATH": search_path(environ)}


_CGROUP_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")


def gather(state: Path, environ: Mapping[str, str], mcp_url: str) -> NodeFacts:
    """Return the current facts of this machine."""
    return NodeFacts(
        version=VERSION,
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=_memory_bytes(),
        gpus=_gpus(environ),
        home=str(Path.home()),
        path=search_path(environ)[:16000],
        state_dir=str(state),
        mcp_url=mcp_url,
    )


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # the file does not exist, or contains "max"
        return min(machine, int(_CGROUP_MEMORY.read_text("ascii")))
    return machine


def _gpus(environ: Mapping[str, str]) -> int:
    given = environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return len([word for word in given.split(",") if word.strip() and word.strip() != "-1"])
    return len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdecimal()])


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_SECONDS: Final = 0.5
"""Interval between two checks: timers stop while the machine sleeps, so a timer alone would be late."""
TERM_FILE: Final = "term"


def boot_seconds() -> float:
    """Return the time since boot, including sleep."""
    return time.clock_gettime(_CLOCK)


async def wait_past(until: Callable[[], float]) -> None:
    """Return when ``boot_seconds`` has passed the time that ``until`` returns, which may change meanwhile."""
    while (rest := until() - boot_seconds()) > 0:  # noqa: ASYNC110  (the time may be postponed)
        await trio.sleep(min(rest, LOOK_SECONDS))


class Lease:
    """The time until which a node may run processes. The lease counts as expired until its first renewal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.until = 0.0
        """End of the lease, by ``boot_seconds``."""
        self._said_ms = 0

    def beat(self) -> int:
        """Return the current time in milliseconds, to send in a beat, which the kernel echoes."""
        self._said_ms = int(boot_seconds() * 1000)
        return self._said_ms

    def renew(self, at_ms: int) -> None:
        """Renew the lease after the echo of the beat of ``at_ms``; ignore it if no such beat was sent."""
        if at_ms <= self._said_ms:  # the lease counts from the beat, so a slow network only shortens it
            self.until = max(self.until, at_ms / 1000 + self._seconds)

    @property
    def is_over(self) -> bool:
        """Return whether the lease has expired, so that the node must not run anything."""
        return boot_seconds() >= self.until


class TermUnreadable(Exception):
    """The file with the highest served term is unreadable, so no kernel is served."""


class TermFile:
    """The highest term served by this node, in a file of its folder."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / TERM_FILE

    def highest(self) -> int:
        """Return the highest term; 0 if none was served. Raises TermUnreadable, OSError."""
        try:
            return int(self._file.read_text("ascii"))
        except FileNotFoundError:
            return 0
        except ValueError:
            raise TermUnreadable(
                f"{self._file} contains no number: write the project's term, or remove the file"
            ) from None

    def keep(self, term: int) -> None:
        """Store ``term`` durably as the highest term."""
        with replacing(self._file, 0o666, beside=self._file.with_suffix(".new")) as file:
            file.write(str(term).encode("ascii"))
        sync_folder(self._file.parent)  # durable before the kernel is served: no earlier kernel may be served later


_DEADLINE: Final = struct.Struct("=d")
_NONE: Final = 0.0
_MOST_BYTES: Final = _DEADLINE.size * 512


class LeaseGuard:
    """A process that kills the node process if its lease has expired and its trees have not exited.

    A stopped or stuck node process cannot kill its trees; its keepers do that once it has exited. The guard is forked
    before the node process has an event loop, holds only a pipe, and exits with it. A dead guard is replaced.
    """

    def __init__(self, patience_seconds: float) -> None:
        """Fork the guard. ``patience_seconds``: time for the node process to stop its trees after its lease."""
        self._patience_seconds = patience_seconds
        self._fork()

    def _fork(self) -> None:
        parent = os.getpid()
        read, self._write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.closerange(0, read)  # holds neither a lock nor a stream of the node process
            os.closerange(read + 1, os.sysconf("SC_OPEN_MAX"))
            _watch(parent, read, self._patience_seconds)
        os.close(read)
        os.set_blocking(self._write, False)  # a stopped guard must not block the node process

    def expect(self, until: float) -> None:
        """Extend the guarded time to ``until`` (as of ``boot_seconds``). A dead guard is replaced."""
        try:
            try:
                os.write(self._write, _DEADLINE.pack(until))
            except BrokenPipeError:  # killed, for example because memory ran out
                dead = self.pid
                os.close(self._write)
                self._fork()
                os.write(self._write, _DEADLINE.pack(until))
                os.waitpid(dead, 0)
        except BlockingIOError:  # the guard is stopped: a later update suffices
            return

    def stand_down(self) -> None:
        """Stop watching the lease; the guard process remains. Call it when no attempt runs on the node."""
        self.expect(_NONE)


def _watch(parent: int, pipe: int, patience_seconds: float) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until = _NONE
    while True:
        rest = None if until == _NONE else until + patience_seconds - boot_seconds()
        if rest is not None and rest < 0:
            if os.getppid() == parent:  # otherwise its pid may belong to another process
                os.kill(parent, signal.SIGKILL)
            os._exit(1)  # without cleanup: this is a copy of another process
        ready, _, _ = select.select([pipe], [], [], None if rest is None else min(rest + 0.001, LOOK_SECONDS))
        if ready:
            said = os.read(pipe, _MOST_BYTES)
            if not said:
                os._exit(0)
            (until,) = _DEADLINE.unpack_from(said, len(said) - _DEADLINE.size)  # only the latest counts
