"""The keeper: starts a child, owns its process tree, and makes sure that all of it exits. Then it may serve again.

Each attempt has a keeper. Its connection to the kernel is one socket, the lifeline: the keeper sends ``started``, then
``exited`` after the tree has exited, and receives ``kill``, ``bound`` and ``census``. End of file means that the
kernel has exited, so the tree must be killed. The keeper's lock proves to the next kernel whether the tree has exited.
A keeper knows nothing about its child, and never reads the child's output.

A child is a worker in a forked copy of this interpreter, or a command. It leads its own process group, so that ``kill
0`` does not affect the keeper; a command also leads its own session. It has descriptors 0-2, a worker also those of its
frames, and no blocked or ignored signals. When ``start`` returns, it is known whether the command could be executed.
"""

import errno
import fcntl
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from gc import enable as enable_collector

# Imported by name: in a fresh fork an attribute of a module copies two pages.
from os import closerange, dup2, setpgid, setsid, umask
from typing import Final

from protocol.ipc import COOKIE_VARIABLE, Bound, Census, Counted, Exited, Fork, Kill, Rusage, Started
from protocol.ndjson import FrameReader, encode
from worker import process_tree
from worker.process_tree import ChildSignal, Cost, reap, receive_descriptors, restore_signals, set_title

Stdio = tuple[int, int, int]
Work = Callable[[Fork, int, int], int]
"""Runs the worker of an order with these descriptors for its frames, and returns its exit code."""

_STDERR: Final = 2
_REPORT: Final = 3
_REPORT_BYTES: Final = 4096
_UMASK: Final = 0o077
_DESCRIPTOR_LIMIT: Final = os.sysconf("SC_OPEN_MAX")
"""Read once, because it does not change."""


class NotStarted(Exception):
    """The child could not be started. The text starts with the errno's name, as in ``Exited.failed``."""


def start(order: Fork, stdio: Stdio, null: int, work: Work) -> int:
    """Fork the child of ``order`` and return its pid. Raises NotStarted if the command cannot be executed.

    ``null`` is a descriptor of /dev/null, which replaces a worker's stdin and stdout.
    """
    # Nothing can fail between the fork and a worker, so no report is needed.
    ends = () if order.argv is None and order.cwd is None else os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        for fd in ends:
            os.close(fd)
        raise NotStarted(f"{errno_name(error)}: fork") from error
    if not pid:
        _become(order, stdio, null, ends[1] if ends else None, work)
    if not ends:
        return pid
    read, write = ends
    os.close(write)
    problem = os.read(read, _REPORT_BYTES)  # ends without data when exec closes the child's end
    os.close(read)
    if problem:
        os.waitpid(pid, 0)  # reap it here: it was never part of the tree
        raise NotStarted(problem.decode("utf-8", "replace"))
    return pid


def _become(order: Fork, stdio: Stdio, null: int, report: int | None, work: Work) -> None:
    code = 127
    try:
        if order.argv is None:
            # No session: the system would create a scheduling group for each worker (4 % of an attempt).
            setpgid(0, 0)
        else:
            setsid()
        restore_signals(python=order.argv is None)  # ignored signals would be inherited through exec
        umask(_UMASK)
        if order.argv is not None:
            for target, fd in enumerate(stdio):
                if fd != target:
                    dup2(fd, target)
            if report is not None and report != _REPORT:
                dup2(report, _REPORT, inheritable=False)  # closed by a successful exec, which is the report of success
            closerange(_REPORT + 1, _DESCRIPTOR_LIMIT)
            code = _execute(order, order.argv) if order.cwd is None or _enter(order.cwd, _REPORT) else 127
        elif order.cwd is None or report is None or _enter(order.cwd, report):
            enable_collector()  # disabled in a zygote
            code = work(order, *take_frames(stdio, null))
    except BaseException:  # noqa: BLE001  (a crash of the worker: nothing above this frame may run in the child)
        traceback.print_exc()
        code = 1
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)  # never unwinds into the parent's frames


def take_frames(stdio: Stdio, null: int) -> tuple[int, int]:
    """Return descriptors of the kernel's two pipes, above 0-2, and close all other descriptors.

    0 and 1 become /dev/null, so that output of tools is never parsed as a frame, and child processes never read ours.
    """
    stdin, stdout, stderr = stdio
    receive, send = _private(stdin), _private(stdout)
    dup2(null, 0)
    dup2(null, 1)  # frames go over ``send`` from now on
    if stderr != _STDERR:
        dup2(stderr, _STDERR)
    low, high = min(receive, send), max(receive, send)
    closerange(_STDERR + 1, low)
    closerange(low + 1, high)
    closerange(high + 1, _DESCRIPTOR_LIMIT)
    return receive, send


def _private(fd: int) -> int:
    return fd if fd > _STDERR else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)


def _enter(cwd: str, report: int) -> bool:
    try:
        os.chdir(cwd)
    except OSError as error:
        _tell_parent(report, f"{errno_name(error)}: {cwd} (working directory)")
        return False
    return True


def _execute(order: Fork, argv: tuple[str, ...]) -> int:
    env = (order.env or {}) | {COOKIE_VARIABLE: order.cookie}
    if order.sandbox is not None:
        from worker.sandbox import enclose  # noqa: PLC0415  (few commands are confined)

        argv = enclose(argv, order.sandbox, env=env, cwd=order.cwd or "/")
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        _tell_parent(_REPORT, f"{errno_name(error)}: {argv[0]}")
    except (ValueError, IndexError) as error:
        _tell_parent(_REPORT, f"EINVAL: {error}")
    return 127


def _tell_parent(report: int, text: str) -> None:
    # One write, so that the parent gets it with one read. End of file without data means success.
    os.write(report, text.encode("utf-8", "surrogateescape")[:_REPORT_BYTES])


def errno_name(error: OSError) -> str:
    """Return the symbolic name of an error, such as ``ENOENT``."""
    return errno.errorcode.get(error.errno or 0, "EIO")


ROUND_MS: Final = 5
"""Interval between two rounds of killing: long enough for processes to exit; the promise is two seconds."""

_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024

_DESCRIPTORS: Final = 3
_ORDER_BYTES: Final = 65536

_FRAMES: Final[FrameReader[Kill | Bound | Census | Fork]] = FrameReader(Kill | Bound | Census | Fork)
"""Reader of the lifeline. A process has at most one."""


class KernelSocket:
    """A keeper's socket to the kernel."""

    def __init__(self, fd: int) -> None:
        # Not ``socket.socket``, whose class creates enums: 40 copied pages in each keeper.
        self._socket = socket.SocketType(fileno=fd)
        self._socket.setblocking(True)
        self._readable = select.poll()
        self._readable.register(fd, select.POLLIN)
        self.fd = fd
        self.open = True

    def send(self, frame: Started | Counted | Exited) -> None:
        """Send a report; ignored if the kernel has exited."""
        try:
            self._socket.sendall(encode(frame))
        except OSError:
            self.open = False

    def close(self) -> None:
        """Close the connection to the kernel."""
        self._socket.close()

    def is_open(self) -> bool:
        """Return whether the kernel is still running. Discards its requests, because no tree runs now."""
        if self._readable.poll(0):
            self.requests()
        return self.open

    def requests(self) -> list[Kill | Bound | Census]:
        """Return the kernel's requests that have arrived. At the end of the stream, set ``open`` to False."""
        try:
            chunk = self._socket.recv(_ORDER_BYTES, socket.MSG_DONTWAIT)  # the socket itself is blocking, for ``send``
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        self.open = bool(chunk)
        return [frame for frame in _FRAMES.feed(chunk) if isinstance(frame, Kill | Bound | Census)]

    def next_order(self) -> tuple[Fork, Stdio] | None:
        """Wait for the next order and its descriptors; return None at the end. Ignores a late ``kill``."""
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
    """Watch over one tree, from the child's start until all processes of the tree have exited."""

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
        """Set if the kernel asked for the number of processes: answered after ended ones are reaped."""
        self._exceeded: str | None = None

    def wait(self) -> Exited:
        """Return when the child and its whole tree have exited."""
        self._poll_once()
        while True:
            ended, childless = reap(self._cost)
            if self._child in ended:
                self._status = ended[self._child]
                if not (childless and process_tree.LINUX):  # a subreaper without children has no descendants
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
        waits_ms = [] if self._bound is None else [int(process_tree.LOOK_SECONDS * 1000)]
        if self._kill_at is not None:
            waits_ms.append(max(0, int((self._kill_at - time.monotonic()) * 1000)) + 1)
        patience_ms = ROUND_MS if self._must_kill() else min(waits_ms, default=None)
        for fd, _event in self._poll.poll(patience_ms):
            if fd == self._lifeline.fd:
                for asked in self._lifeline.requests():
                    if isinstance(asked, Bound):
                        self._bound = asked
                    elif isinstance(asked, Census):
                        self._asked = True
                    else:
                        self._killed = self._killed or self._status is None  # a child that had exited was not killed
                        if asked.after_seconds > 0 and self._kill_at is None:
                            process_tree.signal_tree(self._child, signal.SIGTERM)
                            # A stopped process would never handle SIGTERM.
                            process_tree.signal_tree(self._child, signal.SIGCONT)
                        at = time.monotonic() + max(asked.after_seconds, 0.0)
                        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)
                if not self._lifeline.open:
                    self._poll.unregister(self._lifeline.fd)  # readable forever after its end
            else:
                self._child_signal.drain()


def run(order: Fork, lifeline_fd: int, stdio: Stdio, work: Work) -> None:
    """Serve ``order``, and each following order after the tree of the last one has exited.

    Returns when the kernel closes the lifeline or an order fails. The caller then exits.
    """
    process_tree.become_subreaper()  # before the first child, so that no orphan escapes
    lifeline = KernelSocket(lifeline_fd)
    keeper = Keeper(lifeline, ChildSignal(), work)
    following: tuple[Fork, Stdio] | None = (order, stdio)
    while following is not None and keeper.serve(*following):
        set_title("keeper")
        following = lifeline.next_order()


class Keeper:
    """Executor of a keeper's orders, one after the other."""

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
        """Close the keeper's descriptors after the last order."""
        self._lifeline.close()
        self._child_signal.close()
        os.close(self._null)

    def serve(self, order: Fork, stdio: Stdio) -> bool:
        """Execute one order until its tree has exited; return whether this keeper may get another order.

        False after a command, because its secrets must not be inherited by a worker.
        """
        try:
            try:
                fd = os.open(order.lock, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise NotStarted(f"ESTALE: {order.lock} ({error.strerror})") from error
            lock = fd
            if not self._lifeline.is_open():  # the lock was free, so another kernel may be running
                return False
            child = start(order, stdio, self._null, self._work)
        except NotStarted as error:
            self._lifeline.send(Exited(failed=str(error)))
            return False
        # Close the child's pipes, or the kernel would never read their end.
        for fd in stdio:
            if fd > 2:
                os.close(fd)
            else:
                os.dup2(self._null, fd)
        child_since = process_tree.since(child)
        # If this keeper is killed, the next kernel finds the tree by pid and start time.
        os.write(lock, f"keeper {self._pid} {self._since}\nchild {child} {child_since}\n".encode())
        self._lifeline.send(Started(pid=child, keeper=self._pid, pid_since=child_since, keeper_since=self._since))
        set_title("keeper", order.attempt)
        exited = TreeWatch(self._lifeline, child, self._child_signal, self._poll).wait()
        os.close(lock)
        self._lifeline.send(exited)
        return order.argv is None
