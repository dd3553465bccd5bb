"""The fence of a node: a folder of one node process, the highest term that it was given, and a lease with its guard.

The folder is private, ours, and of one node process at a time. A home that machines share has one for each: of a lock
or a process in a shared folder, no machine can tell whether it is its own.

The lease goes by a clock that goes on while the machine sleeps. Past it a node ends all that it runs: it cannot know
whether its kernel has given that work to somebody else.
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
"""A log that is longer is truncated by the next node process."""
RUN: Final = "run"
_PASSED_ON = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_ODD = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class FolderRefused(Exception):
    """The folder is somebody else's, or none."""


def of_this_machine(state: Path) -> Path:
    """The part of ``state`` that belongs to this machine."""
    return state / (_ODD.sub("_", socket.gethostname()).lstrip(".")[:64] or "machine")


def prepare_folder(state: Path) -> None:
    """Make it with mode 0700, or see that it is ours and that nobody else reads it. Raises FolderRefused, OSError."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = os.lstat(state)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise FolderRefused(f"{state} is not a directory of yours: name another one with --state")
    if info.st_mode & 0o077:
        os.chmod(state, 0o700)


def lock_folder(state: Path) -> int | None:
    """Be the one node process of this folder, as long as the descriptor is open; None where there is one."""
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def holder_of(state: Path) -> int:
    """Return the node process that has locked the folder. Raises OSError, ValueError."""
    return int((state / LOCK).read_text("ascii"))


def open_log(state: Path) -> int:
    """Open the log of the folder, to append to."""
    log = os.open(state / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    return log


def search_path(environ: Mapping[str, str]) -> str:
    """The folders of programs: PATH without relative folders, which would follow the working directory."""
    parts = (environ.get("PATH") or _DEFAULT_PATH).split(":")
    return ":".join(part for part in parts if part.startswith("/")) or _DEFAULT_PATH


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the environment that a worker has; its programs get theirs from the start frame."""
    kept = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    return {**kept, "PATH": search_path(environ)}


_CGROUP_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")


def gather(state: Path, environ: Mapping[str, str], mcp_url: str) -> NodeFacts:
    """Look at the machine now."""
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
    with suppress(OSError, ValueError):  # there is no such file, or it says max
        return min(machine, int(_CGROUP_MEMORY.read_text("ascii")))
    return machine


def _gpus(environ: Mapping[str, str]) -> int:
    given = environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return len([word for word in given.split(",") if word.strip() and word.strip() != "-1"])
    return len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdecimal()])


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_SECONDS: Final = 0.5
"""A sleep is measured by a clock that stands still with the machine: so long after it has woken the end is seen."""
TERM_FILE: Final = "term"


def boot_seconds() -> float:
    """The time since this machine started, its sleep included."""
    return time.clock_gettime(_CLOCK)


async def wait_past(until: Callable[[], float]) -> None:
    """Return once a time of ``boot_seconds`` is over, which may be moved meanwhile."""
    while (rest := until() - boot_seconds()) > 0:  # noqa: ASYNC110  (it is moved meanwhile)
        await trio.sleep(min(rest, LOOK_SECONDS))


class Lease:
    """The time up to which a node may run what it was given. It is over until it is renewed for the first time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.until = 0.0
        """Its end, by ``boot_seconds``."""
        self._said_ms = 0

    def beat(self) -> int:
        """The time now, in milliseconds, to be echoed by the kernel."""
        self._said_ms = int(boot_seconds() * 1000)
        return self._said_ms

    def renew(self, at_ms: int) -> None:
        """The beat of that time came back. One that was never sent changes nothing."""
        if at_ms <= self._said_ms:
            self.until = max(self.until, at_ms / 1000 + self._seconds)

    @property
    def is_over(self) -> bool:
        """Return whether the node must not run anything."""
        return boot_seconds() >= self.until

    async def wait_until_over(self) -> None:
        """Return when it is over."""
        await wait_past(lambda: self.until)


class TermUnreadable(Exception):
    """Nobody can tell which kernel of the project is the latest one, so none is served."""


class TermFile:
    """The highest term in which this node has served, in a file of its folder."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / TERM_FILE

    def highest(self) -> int:
        """Return it; 0 where it has served nobody. Raises TermUnreadable, OSError."""
        try:
            return int(self._file.read_text("ascii"))
        except FileNotFoundError:
            return 0
        except ValueError:
            raise TermUnreadable(f"{self._file} has no number: write the project's term there, or remove it") from None

    def keep(self, term: int) -> None:
        """Write it down, for good."""
        with replacing(self._file, 0o666, beside=self._file.with_suffix(".new")) as file:
            file.write(str(term).encode("ascii"))
        sync_folder(self._file.parent)


_DEADLINE: Final = struct.Struct("=d")
_NONE: Final = 0.0
_MOST_BYTES: Final = _DEADLINE.size * 512


class LeaseGuard:
    """A process beside the node process that kills it when its lease is over and it has not ended its trees itself.

    A process that is stopped, or hangs, cannot fence itself; its keepers end their trees when it is gone. The guard is
    forked before the node process has a loop, holds nothing but a pipe, and goes with it. One that dies is replaced.
    """

    def __init__(self, patience_seconds: float) -> None:
        """Fork it. ``patience_seconds``: what the node process has to end its trees, once its lease is over."""
        self._patience_seconds = patience_seconds
        self._fork()

    def _fork(self) -> None:
        parent = os.getpid()
        read, self._write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.closerange(0, read)
            os.closerange(read + 1, os.sysconf("SC_OPEN_MAX"))
            _watch(parent, read, self._patience_seconds)
        os.close(read)
        os.set_blocking(self._write, False)

    def expect(self, until: float) -> None:
        """The lease lasts until then, by ``boot_seconds``. A guard that has died is replaced."""
        try:
            try:
                os.write(self._write, _DEADLINE.pack(until))
            except BrokenPipeError:  # it was killed: the machine was short of memory, say
                dead = self.pid
                os.close(self._write)
                self._fork()
                os.write(self._write, _DEADLINE.pack(until))
                os.waitpid(dead, 0)
        except BlockingIOError:  # it is stopped itself: a later one will do
            return

    def stand_down(self) -> None:
        """Nothing runs that would have to be ended."""
        self.expect(_NONE)


def _watch(parent: int, pipe: int, patience_seconds: float) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until = _NONE
    while True:
        rest = None if until == _NONE else until + patience_seconds - boot_seconds()
        if rest is not None and rest < 0:
            if os.getppid() == parent:
                os.kill(parent, signal.SIGKILL)
            os._exit(1)
        ready, _, _ = select.select([pipe], [], [], None if rest is None else min(rest + 0.001, LOOK_SECONDS))
        if ready:
            said = os.read(pipe, _MOST_BYTES)
            if not said:
                os._exit(0)
            (until,) = _DEADLINE.unpack_from(said, len(said) - _DEADLINE.size)
