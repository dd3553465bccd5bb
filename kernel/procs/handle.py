"""A running process as its owner sees it: three streams, its end, and the ladder that brings the end about.

The ladder: time to leave, SIGTERM to the tree, SIGKILL, and at last without the keeper's help. Asking comes first and
is not done here: the session that speaks the worker's protocol has sent its stop frame.
"""

import logging
import signal
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.procs import procfs
from kernel.procs.attempt_dir import AttemptDir
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.procfs import ProcessId
from kernel.procs.spec import ChildStream, Pipe
from protocol.ipc import Bound, Census, Counted, Exited, KeeperFrame, Kill

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 3.0
"""For a keeper to kill its tree; one that takes longer is stuck and is killed too."""


class KeeperWire(Protocol):
    """The way to a keeper and back: ``KeeperLink``, or one that leads to a node."""

    async def receive(self) -> KeeperFrame | None:
        """The next report; None once the keeper is gone. Cancellation loses nothing."""

    async def send(self, frame: Kill | Bound | Census) -> None:
        """Tell the keeper, if there still is one."""

    def is_quiet(self) -> bool:
        """Return whether there is nothing to report: neither an end, nor the keeper's own."""
        ...

    def free(self) -> None:
        """Its tree is gone, as it said itself."""

    def close(self) -> None:
        """Let go: a keeper that still has a tree kills it."""


class CannotHandOver(Exception):
    """It cannot be handed over now, or never: the text says why."""


class HandedHandle(msgspec.Struct, frozen=True, kw_only=True):
    """One keeper and its tree, as the next program of this kernel takes it over.

    ``stdin``, ``stdout``, ``stderr`` and ``lifeline`` are descriptors; ``heard`` is what was read of the lifeline and
    is no whole frame yet.
    """

    attempt: str
    cookie: str
    pid: int
    keeper_pid: int
    processes: tuple[ProcessId, ...]
    stdin: int
    stdout: int
    stderr: int
    lifeline: int
    heard: bytes = b""
    kill_sent: bool = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that have to stay open."""
        return (self.stdin, self.stdout, self.stderr, self.lifeline)


class Handle:
    """One keeper and its tree. Close it (``async with``): that is what makes sure that nothing is left.

    ``pid`` is the child's, 0 if it could not be started; ``wait`` then tells why, and the streams are at their end.
    Read ``stdout`` and ``stderr`` to their end, or a child that writes much will block.
    """

    def __init__(
        self,
        *,
        attempt: str,
        cookie: str,
        pid: int,
        keeper_pid: int,
        processes: tuple[ProcessId, ...],
        streams: tuple[ChildStream, ChildStream, ChildStream],
        link: KeeperWire,
        directory: AttemptDir,
        exited: Exited | None = None,
    ) -> None:
        self.attempt = attempt
        self.cookie = cookie
        self.pid = pid
        self.keeper_pid = keeper_pid
        self._streams = streams
        self.stdin: trio.abc.SendStream = streams[0]
        self.stdout: trio.abc.ReceiveStream = streams[1]
        self.stderr: trio.abc.ReceiveStream = streams[2]
        self._directory = directory
        self._link = link
        self._exited = exited
        self._tree_seen_gone = False
        """The keeper itself said so, after it had started something."""
        self.survivors: tuple[int, ...] = ()
        """What would not die (the system holds it in an uninterruptible wait). Its run directory stays, for the next
        kernel to find it by."""
        self._kill_sent = False
        self._waiting = trio.Lock()
        self._processes = processes
        self._let_go = False
        """Another program of this kernel has it: nothing that happens here may touch it."""
        self.closed = False

    async def __aenter__(self) -> "Handle":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def is_quiet(self) -> bool:
        """Return whether nothing has been heard of its end."""
        return self._exited is None and self._link.is_quiet()

    @property
    def processes(self) -> frozenset[ProcessId]:
        """The keeper and its child, where they could be named."""
        return frozenset(self._processes)

    @property
    def directory(self) -> Path:
        """Its run directory."""
        return self._directory.path

    def is_bare(self) -> bool:
        """Return whether there is nothing in the run directory but what is ours."""
        return self._directory.is_bare()

    def assign(self, attempt: str) -> None:
        """Make this the run of ``attempt``. Raises FileExistsError if that is in use."""
        self._directory = self._directory.rename(attempt)
        self.attempt = attempt

    async def wait(self) -> Exited:
        """Wait until the whole tree is gone; return how it ended. Any number of tasks may wait, and again later.

        Cancellation changes nothing. Where the keeper itself was killed, what it left is killed first and the answer
        says SIGKILL.
        """
        if self._let_go:
            await trio.sleep_forever()
        if self._exited is None:
            try:
                self._waiting.acquire_nowait()
            except trio.WouldBlock:
                await self._waiting.acquire()
            try:
                while self._exited is None:
                    await self._hear()
            finally:
                self._waiting.release()
        return self._exited

    async def count(self) -> int:
        """Return how many processes its tree has; 0 where it has ended, or nobody can tell. One task asks."""
        async with self._waiting:
            if self._exited is None:
                await self._link.send(Census())
            while self._exited is None:
                counted = await self._hear()
                if counted is not None:
                    return counted.processes
        return 0

    async def _hear(self) -> Counted | None:
        frame = await self._link.receive()
        if isinstance(frame, Exited):
            self._exited = frame
            self._tree_seen_gone = True
        elif frame is None:
            with trio.CancelScope(shield=True):
                left = await procfs.end(self._processes, {self.cookie})
                self.survivors = tuple(sorted(process.pid for process in left))
            if self.survivors:
                logger.error(
                    "procs.leak %s: %s would not die; the next kernel tries again", self.attempt, self.survivors
                )
            self._exited = Exited(signal=signal.SIGKILL, killed=self._kill_sent)
        return frame if isinstance(frame, Counted) else None

    async def kill(self, after_seconds: float = 0.0) -> None:
        """SIGTERM to the tree, and SIGKILL ``after_seconds`` later until nothing is left. Does not wait for it.

        With 0 there is no SIGTERM. A second call can only bring the end nearer. After the end it does nothing.
        """
        if self._exited is None and not self._let_go:
            self._kill_sent = True
            await self._link.send(Kill(after_seconds=after_seconds))

    async def bound(self, *, memory_bytes: int | None, processes: int | None) -> None:
        """Have the tree ended that uses more than this; its end says so (``exceeded``). Looked at twice a second."""
        if self._exited is None:
            await self._link.send(Bound(memory_bytes=memory_bytes, processes=processes))

    async def signal(self, number: int) -> None:
        """Signal the child alone, and only if it still is the one that was started."""
        await trio.lowlevel.checkpoint()
        for process in self._processes:
            if process.pid == self.pid:
                procfs.kill(process, number)

    async def destroy(self) -> Exited:
        """Kill without the keeper's help, the keeper included: for one that does not answer ``kill``."""
        if self._let_go:
            await trio.sleep_forever()
        self._kill_sent = True
        for process in self._processes:
            procfs.kill(process)
        self._link.close()
        return await self.wait()

    async def aclose(self) -> None:
        """Kill what still runs, wait until it is gone, release descriptors and the run directory.

        Shielded from cancellation, and bounded: CLOSE_SECONDS, then ``destroy``, which is bounded too.
        """
        if self._let_go:
            return
        if self._exited is None:
            with trio.CancelScope(shield=True):
                with trio.move_on_after(CLOSE_SECONDS):
                    await self.kill()
                    await self.wait()
                if self._exited is None:
                    await self.destroy()
        if self._tree_seen_gone:
            self._link.free()
        else:
            self._link.close()
        for stream in self._streams:
            stream.close()
        self.closed = True
        fault_point("procs.gone")
        if not self.survivors:
            self._directory.remove()

    def is_local(self) -> bool:
        """Return whether its streams and its keeper's socket are descriptors of this process."""
        return all(type(one) in (KeeperLink, Pipe) for one in (self._link, *self._streams))

    def export(self) -> HandedHandle:
        """Return what another program of this kernel needs to go on with it. Raises CannotHandOver."""
        if self._exited is not None or self._waiting.locked() or not self.pid:
            raise CannotHandOver(f"{self.attempt} ends just now")
        stdin, stdout, stderr = self._streams
        if not (isinstance(stdin, Pipe) and isinstance(stdout, Pipe) and isinstance(stderr, Pipe)) or not isinstance(
            self._link, KeeperLink
        ):
            raise CannotHandOver(f"{self.attempt} runs on another machine")
        lifeline, heard = self._link.export()
        return HandedHandle(
            attempt=self.attempt,
            cookie=self.cookie,
            pid=self.pid,
            keeper_pid=self.keeper_pid,
            processes=self._processes,
            stdin=stdin.fileno(),
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            lifeline=lifeline,
            heard=heard,
            kill_sent=self._kill_sent,
        )

    def let_go(self) -> None:
        """Touch it no more, and leave its descriptors open: another program of this kernel has it now."""
        self._let_go = True
        if isinstance(self._link, KeeperLink):
            self._link.let_go()

    @classmethod
    def adopted(cls, handed: HandedHandle, run_dir: Path) -> "Handle":
        """The handle of a process that an earlier program of this kernel has started."""
        handle = cls(
            attempt=handed.attempt,
            cookie=handed.cookie,
            pid=handed.pid,
            keeper_pid=handed.keeper_pid,
            processes=handed.processes,
            streams=(Pipe(handed.stdin), Pipe(handed.stdout), Pipe(handed.stderr)),
            link=KeeperLink.adopted(handed.lifeline, handed.heard),
            directory=AttemptDir(f"{run_dir}/{handed.attempt}"),
        )
        handle._kill_sent = handed.kill_sent
        return handle


def can_be_handed_over(handle: object) -> bool:
    """Return whether the process of ``handle`` could run on under the kernel's next program."""
    return isinstance(handle, Handle) and handle.is_local()


TERM_SECONDS: Final = 5.0
"""Between SIGTERM and SIGKILL."""
VERIFY_SECONDS: Final = 2.0
"""After SIGKILL; then the keeper itself is stuck."""


async def stop(handle: Handle, *, grace_seconds: float, term_seconds: float = TERM_SECONDS) -> Exited:
    """Return how it ended, at most ``grace + term + VERIFY_SECONDS`` (and the end of what is stuck) from now.

    Cancellation leaves the ladder where it stands: closing the handle goes on from there.
    """
    with trio.move_on_after(max(grace_seconds, 0.0)):
        return await handle.wait()
    await handle.kill(after_seconds=term_seconds)
    with trio.move_on_after(term_seconds + VERIFY_SECONDS):
        return await handle.wait()
    return await handle.destroy()
