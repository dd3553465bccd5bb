"""Entry points of a worker: on stdio, as the keeper of one worker (the exec launcher), or as a zygote of keepers.

The model SDKs take seconds to import, so nothing here imports them: ``worker.main`` is imported when needed.

The zygote forks keepers from an interpreter with all modules loaded. Single-threaded, without durable state, it serves
one control socket: a ``fork`` frame with four descriptors becomes a keeper, whose child becomes the worker. As a
subreaper it adopts and kills processes that a killed keeper leaves behind, but never other keepers' trees. It can be
killed at any time: keepers talk to the kernel directly.
"""

import os
import select
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from protocol.ipc import COOKIE_VARIABLE, STANDBY, Exited, Fork, Ping, Pong, Preloaded, Retire, ZygoteFrame
from protocol.ndjson import FrameReader, encode
from worker import process_tree
from worker.fork import keeper
from worker.fork.keeper import Work, errno_name, take_frames
from worker.process_tree import ChildSignal, reap, receive_descriptors, set_title

Converse = Callable[[int, int, str | None], int]
KEEPER_FLAG: Final = "--keeper"
ZYGOTE_FLAG: Final = "--zygote"
_ORDER_LIMIT_BYTES: Final = 1024 * 1024
GRACE_SECONDS: Final = 1.0
"""Time for keepers to kill their trees after the kernel has exited; then the zygote kills the keepers."""

_DESCRIPTORS: Final = 4


def run_worker(cookie: str | None) -> int:
    """Run a worker that exchanges frames on stdin and stdout, and return its exit code. Stderr stays open."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    return _converse(*take_frames((0, 1, 2), null), cookie)


def work(order: Fork, receive: int, send: int, converse: Converse | None = None) -> int:
    """Run the worker of ``order`` in the child of a keeper. ``converse``: ``worker.main.main``, if it is loaded."""
    set_title("worker", order.attempt)
    if order.attempt.startswith(STANDBY) and (warmup := sys.modules.get("worker.fork.warmup")):
        warmup.rehearse()
    return (converse or _converse)(receive, send, order.cookie)


def _converse(receive: int, send: int, cookie: str | None) -> int:
    from worker.main import main as converse  # noqa: PLC0415  (late: a keeper never needs it)

    return converse(receive, send, cookie)


def run_keeper(lifeline_fd: int) -> int:
    """Run a keeper without a zygote: stdio belongs to the child, and the order is the first line on the lifeline."""
    os.set_inheritable(lifeline_fd, False)  # a child that held it would hide the kernel's end
    process_tree.ignore_signals()
    line = _first_line(lifeline_fd)
    if line is None:
        return 1
    keeper.run(msgspec.json.decode(line, type=Fork), lifeline_fd, (0, 1, 2), work)
    return 0


def _first_line(fd: int) -> bytes | None:
    """Read exactly one line, because the bytes after it belong to the keeper. None at the end of the stream."""
    link = socket.socket(fileno=os.dup(fd))
    with link:
        while True:
            seen = link.recv(_ORDER_LIMIT_BYTES, socket.MSG_PEEK)  # stays in the socket
            end = seen.find(b"\n")
            if end >= 0:
                return link.recv(end + 1)
            if not seen:
                return None


class KeeperZygote:
    """The poll loop of a zygote."""

    def __init__(self, control: socket.socket, work: Work) -> None:
        self._control = control
        self._work = work
        self._frames: FrameReader[ZygoteFrame] = FrameReader(ZygoteFrame)
        self._descriptors: deque[list[int]] = deque()
        self._keepers: set[int] = set()
        self._child_signal = ChildSignal()
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)
        self._poll.register(self._child_signal.fd, select.POLLIN)
        self._open = True
        self._retired = False
        self._orphans = False
        self._spare_until: float | None = None

    def serve(self) -> None:
        """Fork keepers and reap them, until the kernel has closed the control socket and no keeper remains."""
        while self._open or self._keepers or self._orphans:
            patience_ms = keeper.ROUND_MS if self._orphans else None
            if self._spare_until is not None and not self._orphans:
                patience_ms = max(keeper.ROUND_MS, int((self._spare_until - time.monotonic()) * 1000) + 1)
            for fd, _event in self._poll.poll(patience_ms):
                if fd == self._child_signal.fd:
                    self._child_signal.drain()
                else:
                    self._listen()
            self._bury()

    def _bury(self) -> None:
        """Reap exited children, and kill orphans. A process in uninterruptible wait is reaped later."""
        ended, _childless = reap()
        overdue = self._spare_until is not None and time.monotonic() >= self._spare_until
        lost_keeper = not self._keepers.isdisjoint(ended)
        self._keepers.difference_update(ended)
        if lost_keeper or self._orphans or overdue:
            spare = frozenset[int]() if overdue else self._keepers
            self._orphans = process_tree.signal_descendants(signal.SIGKILL, spare=spare) > 0

    def _listen(self) -> None:
        try:
            chunk, descriptors, flags = receive_descriptors(self._control)
        except OSError:
            chunk, descriptors, flags = b"", [], 0
        if descriptors or flags & socket.MSG_CTRUNC:
            # Linux ends a read at each message with descriptors: one group, possibly truncated, belongs to one frame.
            self._descriptors.append(descriptors)
        for frame in self._frames.feed(chunk):
            match frame:
                case Fork():
                    fork_descriptors = self._descriptors.popleft() if self._descriptors else []
                    try:
                        if len(fork_descriptors) == _DESCRIPTORS:
                            self._fork_keeper(frame, fork_descriptors)
                    finally:
                        for fd in fork_descriptors:
                            os.close(fd)
                case Retire():
                    self._retired = True
                case Ping():
                    with suppress(OSError):
                        self._control.sendall(encode(Pong(n=frame.n)))
                case _:
                    sys.stderr.write(f"zygote: unreadable frame: {frame.why}\n")
        if not chunk:
            self._open = False
            self._poll.unregister(self._control.fileno())
            if not self._retired:
                self._spare_until = time.monotonic() + GRACE_SECONDS  # the keepers have noticed the end, too

    def _fork_keeper(self, order: Fork, descriptors: list[int]) -> None:
        stdin, stdout, stderr, lifeline = descriptors
        try:
            pid = os.fork()
        except OSError as error:
            why = f"{errno_name(error)}: fork"
            with suppress(OSError):
                os.write(lifeline, encode(Exited(failed=why)))  # in place of the keeper: the kernel waits for a report
            return
        if pid:
            self._keepers.add(pid)
            return
        # Leave the zygote. Never returns.
        stdio = (stdin, stdout, stderr)
        code = 70
        try:
            os.setsid()
            os.close(self._control.detach())  # only the zygote may hold its control socket
            self._child_signal.close()  # the keeper creates its own
            keeper.run(order, lifeline, stdio, self._work)
            code = 0
        except BaseException:  # noqa: BLE001  (a bug in the keeper: the zygote adopts and kills its tree)
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stderr.flush()
            os._exit(code)


def _work() -> Work:
    """Return ``work`` with ``worker.main`` already looked up: the lookup would copy 14 pages in each fork."""
    loaded = sys.modules.get("worker.main")
    return work if loaded is None else partial(work, converse=loaded.main)


def run_zygote(control_fd: int, modules: str) -> int:
    """Run a zygote with ``modules`` (``mock,anthropic``) loaded, and return its exit code."""
    from worker.fork import preload  # noqa: PLC0415  (a worker without a zygote needs none)

    process_tree.ignore_signals()
    os.set_inheritable(control_fd, False)
    os.chdir("/")
    process_tree.become_subreaper()
    set_title("zygote", modules)
    control = socket.socket(fileno=control_fd)
    preload.load(frozenset(filter(None, modules.split(","))))
    set_title("zygote", modules)  # the warm-up has named it a keeper
    preload.freeze()
    with suppress(OSError):
        control.sendall(encode(Preloaded(pid=os.getpid(), modules=len(sys.modules))))
    KeeperZygote(control, _work()).serve()
    return 0


def main() -> int:
    """Run ``python -I -u -m worker [--keeper FD | --zygote FD MODULES]``.

    Parsed without argparse, whose imports would add 30 mappings and 300 pages to copy in every fork.
    """
    match sys.argv[1:]:
        case [flag, fd] if flag == KEEPER_FLAG:
            return run_keeper(int(fd))
        case [flag, fd, modules] if flag == ZYGOTE_FLAG:
            return run_zygote(int(fd), modules)
        case _:
            return run_worker(os.environ.get(COOKIE_VARIABLE))


if __name__ == "__main__":
    sys.exit(main())
