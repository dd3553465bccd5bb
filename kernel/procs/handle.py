"""A running process for its owner: three streams, its exit, and the steps to stop it.

The steps: a grace period, SIGTERM to the tree, SIGKILL, and finally SIGKILL to tree and keeper by the
kernel itself. A worker gets a stop frame before, from the session that uses the worker's protocol.
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
"""Time for a keeper to kill its tree; after that it is considered stuck and killed too."""


class KeeperWire(Protocol):
    """Connection to a keeper: ``KeeperLink`` on this machine, ``RemoteProcess`` for a keeper on a node."""

    async def receive(self) -> KeeperFrame | None:
        """Return the keeper's next report, or None after the keeper has exited. Cancellation loses no report."""

    async def send(self, frame: Kill | Bound | Census) -> None:
        """Send a frame to the keeper, if it is still running."""

    def is_quiet(self) -> bool:
        """Return whether neither the exit of the tree nor the end of the keeper was reported."""
        ...

    def free(self) -> None:
        """Let the keeper serve another attempt, after it has reported that its tree has exited."""

    def close(self) -> None:
        """Close the connection. A keeper whose tree still runs kills the tree."""


class CannotHandOver(Exception):
    """The process cannot be transferred to another kernel process; the text has the reason."""


class HandedHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A keeper and its tree, as transferred to the next kernel process.

    ``stdin``, ``stdout``, ``stderr`` and ``lifeline`` are descriptors; ``heard`` is the partial frame that was read
    from the lifeline.
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
        """Return all descriptors that must stay open."""
        return (self.stdin, self.stdout, self.stderr, self.lifeline)


class Handle:
    """A keeper and its tree. Close the handle (``async with``) to make sure that all processes have exited.

    ``pid`` is the child's, or 0 if the child could not be started: then ``wait`` returns the reason, and the
    streams are at their end. Read ``stdout`` and ``stderr`` to their end, or the child may block.
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
        """Set when the keeper has reported that the tree of a started process has exited."""
        self.survivors: tuple[int, ...] = ()
        """Processes in uninterruptible wait that did not exit. The run directory remains for the next kernel to find
        them."""
        self._kill_sent = False
        self._waiting = trio.Lock()
        self._processes = processes
        self._let_go = False
        """Set when another kernel process owns the tree: this handle must not affect it."""
        self.closed = False

    async def __aenter__(self) -> "Handle":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def is_quiet(self) -> bool:
        """Return whether neither the exit of the tree nor the end of the keeper was reported."""
        return self._exited is None and self._link.is_quiet()

    @property
    def processes(self) -> frozenset[ProcessId]:
        """Return the keeper and its child, if they could be identified."""
        return frozenset(self._processes)

    @property
    def directory(self) -> Path:
        """Return the run directory of the attempt."""
        return self._directory.path

    def is_bare(self) -> bool:
        """Return whether the run directory contains only the lock."""
        return self._directory.is_bare()

    def assign(self, attempt: str) -> None:
        """Use this process for ``attempt``. Raises FileExistsError if that is in use."""
        self._directory = self._directory.rename(attempt)
        self.attempt = attempt

    async def wait(self) -> Exited:
        """Wait until the whole tree has exited; return the exit of the child.

        Several tasks may wait, also repeatedly. Cancellation does not affect the process. If the
        keeper was killed, its remaining tree is killed first, and the result is SIGKILL.
        """
        if self._let_go:
            await trio.sleep_forever()
        if self._exited is None:
            try:
                self._waiting.acquire_nowait()  # without a turn of the event loop if no other task waits
            except trio.WouldBlock:
                await self._waiting.acquire()
            try:
                while self._exited is None:
                    await self._hear()
            finally:
                self._waiting.release()
        return self._exited

    async def count(self) -> int:
        """Return the number of processes in the tree; 0 after its end, or if unknown. Call it from one task only."""
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
                left = await procfs.end(self._processes, {self.cookie})  # the keeper was killed: do its work
                self.survivors = tuple(sorted(process.pid for process in left))
            if self.survivors:
                logger.error(
                    "procs.leak %s: %s did not exit; the next kernel tries again", self.attempt, self.survivors
                )
            self._exited = Exited(signal=signal.SIGKILL, killed=self._kill_sent)  # its own report is lost
        return frame if isinstance(frame, Counted) else None

    async def kill(self, after_seconds: float = 0.0) -> None:
        """Send SIGTERM to the tree now, and SIGKILL repeatedly after ``after_seconds``, without waiting for the exit.

        With 0, only SIGKILL is sent. Another call can only shorten the delay. No effect after the end.
        """
        if self._exited is None and not self._let_go:
            self._kill_sent = True
            await self._link.send(Kill(after_seconds=after_seconds))

    async def bound(self, *, memory_bytes: int | None, processes: int | None) -> None:
        """Kill the tree if it exceeds a limit (``Exited.exceeded`` names it). The keeper checks twice a second."""
        if self._exited is None:
            await self._link.send(Bound(memory_bytes=memory_bytes, processes=processes))

    async def signal(self, number: int) -> None:
        """Send signal ``number`` only to the child, if it is still the started process."""
        await trio.lowlevel.checkpoint()
        for process in self._processes:
            if process.pid == self.pid:
                procfs.kill(process, number)

    async def destroy(self) -> Exited:
        """Kill tree and keeper by the kernel itself, because the keeper does not react to ``kill``."""
        if self._let_go:
            await trio.sleep_forever()
        self._kill_sent = True
        for process in self._processes:
            procfs.kill(process)
        self._link.close()
        return await self.wait()

    async def aclose(self) -> None:
        """Kill the tree, wait for its end, and release descriptors and the run directory.

        Shielded from cancellation. Takes at most CLOSE_SECONDS and the time limit of ``destroy``.
        """
        if self._let_go:
            return
        if self._exited is None:
            with trio.CancelScope(shield=True):
                with trio.move_on_after(CLOSE_SECONDS):
                    await self.kill()
                    await self.wait()
                if self._exited is None:
                    await self.destroy()  # the keeper is stopped or stuck
        if self._tree_seen_gone:
            self._link.free()  # reusable: no process of the attempt is left
        else:
            self._link.close()
        for stream in self._streams:
            stream.close()
        self.closed = True
        fault_point("procs.gone")
        if not self.survivors:
            self._directory.remove()

    def is_local(self) -> bool:
        """Return whether this process itself has the descriptors of the streams and the keeper's socket."""
        return all(type(one) in (KeeperLink, Pipe) for one in (self._link, *self._streams))

    def export(self) -> HandedHandle:
        """Return the state that another kernel process needs to continue. Raises CannotHandOver."""
        if self._exited is not None or self._waiting.locked() or not self.pid:
            raise CannotHandOver(f"{self.attempt} is just ending")
        stdin, stdout, stderr = self._streams
        if not (isinstance(stdin, Pipe) and isinstance(stdout, Pipe) and isinstance(stderr, Pipe)) or not isinstance(
            self._link, KeeperLink
        ):
            raise CannotHandOver(f"{self.attempt} runs on a node")
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
        """Release the process without closing its descriptors: another kernel process owns it now."""
        self._let_go = True
        if isinstance(self._link, KeeperLink):
            self._link.let_go()

    @classmethod
    def adopted(cls, handed: HandedHandle, run_dir: Path) -> "Handle":
        """Return the handle of a process that an earlier kernel process has started and transferred."""
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
    """Return whether the process of ``handle`` could continue under the next kernel process."""
    return isinstance(handle, Handle) and handle.is_local()


TERM_SECONDS: Final = 5.0
"""Time between SIGTERM and SIGKILL."""
VERIFY_SECONDS: Final = 2.0
"""Time for the tree to exit after SIGKILL; after that the keeper is considered stuck."""


async def stop(handle: Handle, *, grace_seconds: float, term_seconds: float = TERM_SECONDS) -> Exited:
    """Stop the process with the steps of this module; return its exit.

    Takes at most ``grace + term + VERIFY_SECONDS`` plus the time to kill a stuck keeper. After a
    cancellation, closing the handle continues at the current step.
    """
    with trio.move_on_after(max(grace_seconds, 0.0)):
        return await handle.wait()
    await handle.kill(after_seconds=term_seconds)
    with trio.move_on_after(term_seconds + VERIFY_SECONDS):
        return await handle.wait()
    return await handle.destroy()
