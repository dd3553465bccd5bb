"""The spec of a process to start, its three pipes, and the failures to start it.

A failure in the child itself is no exception: it is ``Exited.failed``.
"""

import errno
import os
import re
from abc import abstractmethod
from contextlib import ExitStack
from typing import Any, Final

import msgspec
import trio

from protocol.ipc import Order

READ_BYTES: Final = 64 * 1024
READS_IN_A_ROW: Final = 8
_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


class Spec(Order, frozen=True, kw_only=True):
    """A worker (without ``argv``) or a command.

    ``attempt`` names the directory below ``run/`` and must not be in use. ``cwd`` None: the root directory for a fork,
    the kernel's for exec; a worker is told its own in ``start``. ``env`` is the whole environment of a command, and
    ignored for a worker, whose programs get theirs from ``start``. ``sandbox`` confines a command. ``spare``: it may
    be ended at any time, and is started again once it is wanted.
    """

    spare: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for an attempt that would not be a plain directory name, or an empty command."""
        if not _ATTEMPT.fullmatch(self.attempt):
            raise ValueError(f"{self.attempt!r} cannot name a directory below run/")
        if self.argv is not None and not self.argv:
            raise ValueError("argv is empty")

    @property
    def order(self) -> dict[str, Any]:
        """The fields of any order to start it."""
        return {name: getattr(self, name) for name in Order.__struct_fields__}


TRANSIENT: Final = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOSPC, errno.ETOOMANYREFS}
)
"""The machine is short of something: descriptors, processes, memory. It was not the command's fault."""
TRANSIENT_NAMES: Final = frozenset(errno.errorcode[number] for number in TRANSIENT)


class SpawnTransient(Exception):
    """Nothing was started and nothing is left of it; the same may work in a few seconds.

    Raised for exhausted descriptors, processes, memory or disk, and where no zygote answers. Not raised for a command
    that cannot be executed: that is an ``Exited`` with ``failed``.
    """


class NodeLost(SpawnTransient):
    """The node of an attempt is not there: nothing was started on it, or nothing of it is left."""


class KeeperLost(SpawnTransient):
    """The keeper went away before it had started anything, mostly because its zygote was killed."""


class PipeEnds(msgspec.Struct, frozen=True):
    """One side of the child's standard streams."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close all three."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


def open_pipes() -> tuple[PipeEnds, PipeEnds]:
    """Ours and theirs, all close-on-exec. Raises OSError, and then none is left open."""
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
    """Our end of what a child reads, or writes."""

    @abstractmethod
    def close(self) -> None:
        """Close it now."""


class Pipe(ChildStream):
    """Our end of one of a child's pipes. What need not wait takes no turn of the event loop.

    Reads that never have to wait take a turn all the same, one in READS_IN_A_ROW: the others have theirs.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._reads = 0
        self._waited = False  # True after a wait: the event loop knows the descriptor

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
        """Return its descriptor; -1 once it is closed."""
        return self._fd

    def _open_fd(self) -> int:
        if self._fd < 0:
            raise trio.ClosedResourceError
        return self._fd

    def close(self) -> None:
        """Close it now."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._waited:
                trio.lowlevel.notify_closing(fd)
            os.close(fd)

    async def aclose(self) -> None:
        """See AsyncResource."""
        self.close()
        await trio.lowlevel.checkpoint()
