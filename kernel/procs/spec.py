"""The specification of a process to start, its three pipes, its descriptor limit, and errors of the start.

A failure in the child itself is not an exception, but ``Exited.failed``. Connections and workers each take descriptors,
so the kernel raises its soft limit to the hard one. Started programs get the original limit: ``select`` fails with high
descriptors, and some programs close every number up to the limit at their start.
"""

import errno
import os
import re
import resource
import threading
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

import msgspec
import trio

from protocol.ipc import Order

_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
NEEDED_FILES: Final = 64
"""Minimum of descriptors: below it a kernel starts, but its launcher fails."""
NEEDED_TASKS: Final = 16
"""Number of threads of a kernel, its launcher and a worker."""
SHELL: Final = "/bin/sh"


def open_standard() -> None:
    """Open /dev/null for each closed standard descriptor, so that no file or socket gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def raise_limit() -> None:
    """Raise the limit of open descriptors as far as the system allows; ignore a refusal."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_HARD, _HARD))
    except (OSError, ValueError):  # macOS allows fewer than its hard limit says
        return


def limits_fault() -> str | None:
    """Return why the limits of this user are too low for a kernel, or None. Starts threads to find out.

    The limit of processes counts threads and all processes of the user: only the system knows the rest.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files != resource.RLIM_INFINITY and files < NEEDED_FILES:
        return f"a process may open {files} files, and a kernel needs {NEEDED_FILES}: raise it with ulimit -n"
    end, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(NEEDED_TASKS):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        need = f"a kernel needs {NEEDED_TASKS} processes and threads, and only {len(started)} can be started"
        return f"{need}: raise the limit with ulimit -u, or stop other processes"
    finally:
        end.set()
        for thread in started:
            thread.join()
    return None


def restore_limit() -> None:
    """Restore the original limit for a program that replaces this one. Open descriptors remain."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_SOFT, _HARD))


def under_first_limit(argv: Sequence[str]) -> list[str]:
    """Return ``argv`` wrapped to run with the original limit under the same pid.

    A shell does it: Python must not run code between fork and exec, because the kernel has threads.
    """
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == _SOFT:
        return list(argv)
    soft = "unlimited" if _SOFT == resource.RLIM_INFINITY else str(_SOFT)
    return [SHELL, "-c", 'ulimit -S -n "$0" && exec "$@"', soft, *argv]


READ_BYTES: Final = 64 * 1024
READS_IN_A_ROW: Final = 8
_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


class Spec(Order, frozen=True, kw_only=True):
    """A worker (without ``argv``) or a command to start.

    ``attempt`` names the directory below ``run/`` and must not be in use. ``cwd`` None: the root directory for a fork,
    the kernel's for exec; a worker gets its own in ``start``. ``env`` is the whole environment of a command, and
    ignored for a worker, whose programs get theirs from ``start``. ``sandbox`` confines a command. ``spare``: it may be
    stopped at any time, and is started again when needed.
    """

    spare: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for an attempt that is not a plain directory name, or an empty command."""
        if not _ATTEMPT.fullmatch(self.attempt):
            raise ValueError(f"{self.attempt!r} cannot name a directory below run/")
        if self.argv is not None and not self.argv:
            raise ValueError("argv is empty")

    @property
    def order(self) -> dict[str, Any]:
        """Return the fields of an order to start it."""
        return {name: getattr(self, name) for name in Order.__struct_fields__}


TRANSIENT: Final = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC, errno.ETOOMANYREFS}
)
"""Errors of exhausted resources: descriptors, processes, memory. The command did not cause them."""

TRANSIENT_NAMES: Final = frozenset(errno.errorcode[number] for number in TRANSIENT)


class SpawnTransient(Exception):
    """The start failed without a trace, and may succeed in a few seconds.

    Raised for exhausted descriptors, processes, memory or disk, and if no zygote answers. Not raised for a command that
    cannot be executed: that is an ``Exited`` with ``failed``.
    """


class NodeLost(SpawnTransient):
    """The node of an attempt is not connected: no process was started on it, or none remains."""


class KeeperLost(SpawnTransient):
    """The keeper exited before it had started a process, usually because its zygote was killed."""


class PipeEnds(msgspec.Struct, frozen=True):
    """A side of the child's standard streams."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close all three."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


def open_pipes() -> tuple[PipeEnds, PipeEnds]:
    """Return our and their ends, all close-on-exec. Raises OSError, and then none is open."""
    pairs: list[tuple[int, int]] = []
    with ExitStack() as undo:
        for _stream in range(3):
            pairs.append(os.pipe())
            for fd in pairs[-1]:
                undo.callback(os.close, fd)
        undo.pop_all()
    (stdin_read, stdin_write), (stdout_read, stdout_write), (stderr_read, stderr_write) = pairs
    return PipeEnds(stdin_write, stdout_read, stderr_read), PipeEnds(stdin_read, stdout_write, stderr_write)


class ChildStream(trio.abc.SendStream, trio.abc.ReceiveStream):
    """Our end of a child's input or output stream."""

    @abstractmethod
    def close(self) -> None:
        """Close the stream at once."""


class Pipe(ChildStream):
    """Our end of one of a child's pipes. Operations that need not wait take no turn of the event loop.

    Every READS_IN_A_ROW reads, one takes a turn, so that other tasks can run.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)  # our end only: both ends of a pipe have separate flags
        self._fd = fd
        self._reads = 0
        self._waited = False
        """Whether a task has waited for it, so that the event loop knows it."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See SendStream."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._open_fd(), rest) :]
            except BlockingIOError:
                await self.wait_send_all_might_not_block()
            except OSError as error:
                raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        """See SendStream."""
        self._waited = True
        await trio.lowlevel.wait_writable(self._open_fd())

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        if self._reads >= READS_IN_A_ROW:
            self._reads = 0
            await trio.lowlevel.checkpoint()
        while True:
            self._reads += 1
            try:
                return os.read(self._open_fd(), max_bytes or READ_BYTES)
            except BlockingIOError:
                self._waited = True
                await trio.lowlevel.wait_readable(self._open_fd())
                self._reads = 0
            except OSError as error:
                raise trio.BrokenResourceError from error

    def fileno(self) -> int:
        """Return its descriptor, or -1 after it was closed."""
        return self._fd

    def _open_fd(self) -> int:
        if self._fd < 0:
            raise trio.ClosedResourceError
        return self._fd

    def close(self) -> None:
        """Close the pipe at once."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._waited:
                trio.lowlevel.notify_closing(fd)  # before the number can be reused
            os.close(fd)

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()
