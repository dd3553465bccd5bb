"""The spec of a process to start, its three pipes, and the failures to start it.

If the keeper runs but cannot execute the command, no exception is raised: the exit is ``Exited.failed``.
"""

import errno
import os
import re
from abc import abstractmethod
from typing import Any, Final

import msgspec
import trio

from protocol.ipc import Order

READ_BYTES: Final = 64 * 1024
READS_IN_A_ROW: Final = 8
_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


class Spec(Order, frozen=True, kw_only=True):
    """A worker (without ``argv``) or a command to start.

    ``attempt`` names the directory below ``run/`` and must not be in use. ``cwd`` None: the root directory
    (fork) or the kernel's (exec); a worker gets its directory in ``start``. ``env`` is the complete environment
    of a command; a worker ignores it and gets the environment of its programs in ``start``. ``sandbox``
    confines a command. ``spare``: the process may be stopped at any time, and is started again when needed.
    """

    spare: bool = False

    def __post_init__(self) -> None:
        if not _ATTEMPT.fullmatch(self.attempt):
            raise ValueError(f"{self.attempt!r} cannot name a directory below run/")
        if self.argv is not None and not self.argv:
            raise ValueError("argv is empty")

    @property
    def order(self) -> dict[str, Any]:
        """Return the fields of the order that starts this process."""
        return {name: getattr(self, name) for name in Order.__struct_fields__}


TRANSIENT: Final = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC, errno.ETOOMANYREFS}
)
"""Errnos of exhausted resources (descriptors, processes, memory), which the command did not cause."""

TRANSIENT_NAMES: Final = frozenset(errno.errorcode[number] for number in TRANSIENT)


class SpawnTransient(Exception):
    """The start failed, left no process, and may succeed in a few seconds.

    Raised for exhausted descriptors, processes, memory or disk, and if no zygote answers. Not
    raised for a command that cannot be executed: its exit is an ``Exited`` with ``failed``.
    """


class NodeLost(SpawnTransient):
    """The attempt's node is not connected. No process was started on it, or none remains."""


class KeeperLost(SpawnTransient):
    """The keeper exited before it had started a process, usually because its zygote was killed."""


class PipeEnds(msgspec.Struct, frozen=True):
    """The three pipe ends of one side: the kernel's or the child's."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close all three."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


def open_pipes() -> tuple[PipeEnds, PipeEnds]:
    """Return the kernel's and the child's pipe ends, all close-on-exec. Raises OSError, and leaves none open."""
    ends: list[int] = []
    try:
        for _stream in range(3):
            ends += os.pipe()
    except OSError:
        for fd in ends:
            os.close(fd)
        raise
    stdin_read, stdin_write, stdout_read, stdout_write, stderr_read, stderr_write = ends
    return PipeEnds(stdin_write, stdout_read, stderr_read), PipeEnds(stdin_read, stdout_write, stderr_write)


class ChildStream(trio.abc.SendStream, trio.abc.ReceiveStream):
    """Our end of a child's input or output stream."""

    @abstractmethod
    def close(self) -> None:
        """Close the stream at once."""


class Pipe(ChildStream):
    """The kernel's end of one of a child's pipes. Operations that do not block take no turn of the event loop.

    After READS_IN_A_ROW reads, the next read takes a turn, so that other tasks can run.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)  # our end only: both ends of a pipe have separate flags
        self._fd = fd
        self._reads = 0
        self._waited = False
        """Whether a task has waited for the descriptor: then the event loop has it registered."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See SendStream."""
        rest = memoryview(data)
        while rest := self.send_nowait(rest):
            await self.wait_send_all_might_not_block()

    def send_nowait(self, data: memoryview) -> memoryview:
        """Write what fits without a wait, and return the rest."""
        try:
            return data[os.write(self._open_fd(), data) :] if data else data
        except BlockingIOError:
            return data
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        """See SendStream."""
        self._waited = True
        await trio.lowlevel.wait_writable(self._open_fd())

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See ReceiveStream."""
        if self._reads >= READS_IN_A_ROW:
            await trio.lowlevel.checkpoint()
            self._reads = 0
        while (chunk := self.receive_nowait(max_bytes or READ_BYTES)) is None:
            self._waited = True
            await trio.lowlevel.wait_readable(self._open_fd())
            self._reads = 0
        return chunk

    def receive_nowait(self, max_bytes: int = READ_BYTES) -> bytes | None:
        """Return the available bytes, b"" at the end; None if there are none, or if other tasks have to run first."""
        if self._reads >= READS_IN_A_ROW:
            return None
        self._reads += 1
        try:
            return os.read(self._open_fd(), max_bytes)
        except BlockingIOError:
            return None
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
