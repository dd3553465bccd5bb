"""The keeper: starts a child, owns its process tree, and sees that nothing of it is left. Then it may serve again.

There is one for each attempt. It talks to the kernel over one socket, its lifeline: ``started``, then ``exited`` once
the tree is gone; ``kill``, ``bound`` and ``census`` come back. End of file means that the kernel is gone, and so must
be the tree. The lock it holds is the proof for the next kernel. It knows nothing of the child, and never reads its
output.
"""

import fcntl
import os
import select
import signal
import socket
import sys
import time
from typing import Final

from protocol.ipc import Bound, Census, Counted, Exited, Fork, Kill, Rusage, Started
from protocol.ndjson import FrameReader, encode
from worker import process_tree
from worker.fork.child import NotStarted, Stdio, Work, start
from worker.process_setup import receive_descriptors, set_title
from worker.process_tree import ChildSignal, Cost, reap

ROUND_MS: Final = 5
"""Between two rounds of killing: long enough to die in, short enough for the promise of two seconds."""

_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024

_DESCRIPTORS: Final = 3
_ORDER_BYTES: Final = 65536

_FRAMES: Final[FrameReader[Kill | Bound | Census | Fork]] = FrameReader(Kill | Bound | Census | Fork)
"""Of the one lifeline that a process can hold."""


class KernelSocket:
    """A keeper's socket to the kernel."""

    def __init__(self, fd: int) -> None:
        # Not ``socket.socket``, whose class makes enums of what it asks the system: 40 pages copied in each keeper.
        self._socket = socket.SocketType(fileno=fd)
        self._socket.setblocking(True)
        self._readable = select.poll()
        self._readable.register(fd, select.POLLIN)
        self.fd = fd
        self.open = True

    def send(self, frame: Started | Counted | Exited) -> None:
        """Report; a kernel that is gone is not told."""
        try:
            self._socket.sendall(encode(frame))
        except OSError:
            self.open = False

    def close(self) -> None:
        """Let go of the kernel."""
        self._socket.close()

    def is_open(self) -> bool:
        """Return whether the kernel still lives. Requests are dropped: there is nothing to kill."""
        if self._readable.poll(0):
            self.requests()
        return self.open

    def requests(self) -> list[Kill | Bound | Census]:
        """Read the kernel's requests. At the end of the stream ``open`` turns False."""
        try:
            chunk = self._socket.recv(_ORDER_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        self.open = bool(chunk)
        return [frame for frame in _FRAMES.feed(chunk) if isinstance(frame, Kill | Bound | Census)]

    def next_order(self) -> tuple[Fork, Stdio] | None:
        """Wait for another order; None once the kernel wants no more. A ``kill`` that came too late is passed over."""
        while True:
            try:
                chunk, fds, _flags = receive_descriptors(self._socket)
            except OSError:
                return None
            for frame in _FRAMES.feed(chunk):
                if isinstance(frame, Fork) and len(fds) == _DESCRIPTORS:
                    return frame, (fds[0], fds[1], fds[2])
            for fd in fds:
                os.close(fd)
            if not chunk:
                return None


class TreeWatch:
    """Follows one tree from the child's start until it is gone."""

    def __init__(self, lifeline: KernelSocket, child: int, child_signal: ChildSignal, poll: select.poll) -> None:
        self._lifeline = lifeline
        self._child = child
        self._child_signal = child_signal
        self._poll = poll
        self._cost = Cost()
        self._status: int | None = None
        self._kill_at: float | None = None
        self._killed = False
        self._bound: Bound | None = None
        self._asked = False
        """The kernel wants to know how many there are: told when those that ended are reaped."""
        self._exceeded: str | None = None

    def wait(self) -> Exited:
        """Return when the child and all that came of it are gone."""
        self._poll_once()
        while True:
            ended, childless = reap(self._cost)
            if self._child in ended:
                self._status = ended[self._child]
                if not (childless and process_tree.LINUX):  # a subreaper without children has nothing left below it
                    process_tree.signal_tree(self._child, signal.SIGKILL)
            if childless:
                break
            if self._bound is not None and not self._must_kill():
                self._exceeded = process_tree.exceeded(self._bound)
            if self._must_kill():
                process_tree.signal_tree(self._child, signal.SIGKILL)
            if self._asked:
                self._asked = False
                self._lifeline.send(Counted(processes=len(process_tree.descendants())))
            self._poll_once()
        code = os.waitstatus_to_exitcode(self._status or 0)
        return Exited(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            killed=self._killed,
            exceeded=self._exceeded,
            rusage=Rusage(
                user_seconds=self._cost.user_seconds,
                system_seconds=self._cost.system_seconds,
                max_rss_bytes=self._cost.max_rss * _RSS_UNIT,
            ),
        )

    def _must_kill(self) -> bool:
        late = self._kill_at is not None and time.monotonic() >= self._kill_at
        return late or self._exceeded is not None or self._status is not None or not self._lifeline.open

    def _poll_once(self) -> None:
        patience_ms: int | None
        if self._must_kill():
            patience_ms = ROUND_MS
        else:
            look_ms = None if self._bound is None else int(process_tree.LOOK_SECONDS * 1000)
            if self._kill_at is None:
                patience_ms = look_ms
            else:
                kill_ms = max(0, int((self._kill_at - time.monotonic()) * 1000)) + 1
                patience_ms = kill_ms if look_ms is None else min(kill_ms, look_ms)
        for fd, _event in self._poll.poll(patience_ms):
            if fd == self._lifeline.fd:
                for asked in self._lifeline.requests():
                    if isinstance(asked, Bound):
                        self._bound = asked
                    elif isinstance(asked, Census):
                        self._asked = True
                    else:
                        self._killed = self._killed or self._status is None
                        if asked.after_seconds > 0 and self._kill_at is None:
                            process_tree.signal_tree(self._child, signal.SIGTERM)
                            # A process that is stopped would never see the first.
                            process_tree.signal_tree(self._child, signal.SIGCONT)
                        at = time.monotonic() + max(asked.after_seconds, 0.0)
                        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)
                if not self._lifeline.open:
                    self._poll.unregister(self._lifeline.fd)
            else:
                self._child_signal.drain()


def run(order: Fork, lifeline_fd: int, stdio: Stdio, work: Work) -> None:
    """Be the keeper of ``order``, and of those that follow when its tree is gone, one after the other.

    Returns when the kernel closes the lifeline, or an order cannot be carried out. The caller ends the process.
    """
    process_tree.become_subreaper()
    lifeline = KernelSocket(lifeline_fd)
    keeper = Keeper(lifeline, ChildSignal(), work)
    following: tuple[Fork, Stdio] | None = (order, stdio)
    while following is not None and keeper.serve(*following):
        set_title("keeper")
        following = lifeline.next_order()


class Keeper:
    """Carries out orders, one after the other."""

    def __init__(self, lifeline: KernelSocket, child_signal: ChildSignal, work: Work) -> None:
        self._lifeline = lifeline
        self._child_signal = child_signal
        self._work = work
        self._poll = select.poll()
        self._poll.register(lifeline.fd, select.POLLIN)
        self._poll.register(child_signal.fd, select.POLLIN)
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._pid = os.getpid()
        self._since = process_tree.since(self._pid)

    def close(self) -> None:
        """Give back its descriptors; it has served its last order."""
        self._lifeline.close()
        self._child_signal.close()
        os.close(self._null)

    def serve(self, order: Fork, stdio: Stdio) -> bool:
        """See one order to the end of its tree; True if another may follow.

        Not after a command: what it was given to know must not be left to a worker.
        """
        try:
            try:
                fd = os.open(order.lock, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise NotStarted(f"ESTALE: {order.lock} ({error.strerror})") from error
            lock = fd
            if not self._lifeline.is_open():  # the lock was free, so another kernel may run
                return False
            child = start(order, stdio, self._null, self._work)
        except NotStarted as error:
            self._lifeline.send(Exited(failed=str(error)))
            return False
        # Drop the child's pipes, or the kernel would never read their end.
        for fd in stdio:
            if fd > 2:
                os.close(fd)
            else:
                os.dup2(self._null, fd)
        child_since = process_tree.since(child)
        # Should we be killed, the next kernel finds the tree by pid and start time.
        os.write(lock, f"keeper {self._pid} {self._since}\nchild {child} {child_since}\n".encode())
        set_title("keeper", order.attempt)
        self._lifeline.send(Started(pid=child, keeper=self._pid, pid_since=child_since, keeper_since=self._since))
        exited = TreeWatch(self._lifeline, child, self._child_signal, self._poll).wait()
        os.close(lock)
        self._lifeline.send(exited)
        return order.argv is None
