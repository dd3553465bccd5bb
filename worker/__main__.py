"""Ways into a worker: run directly on stdio, or as the keeper of one (``--keeper``, the exec launcher).

The model SDKs take seconds to import, so nothing here touches them: ``worker.main`` is imported once it is needed.
"""

import fcntl
import os
import socket
import sys
from typing import Final

import msgspec

from protocol.ipc import COOKIE_VARIABLE, Fork
from worker import signals
from worker.titles import set_title

KEEPER_FLAG: Final = "--keeper"
_ORDER_LIMIT_BYTES: Final = 1024 * 1024


def run_worker(cookie: str | None, stdin_fd: int = 0, stdout_fd: int = 1) -> int:
    """Be a worker that speaks frames on these descriptors, and return its exit code.

    The frames move to private descriptors, and 0 and 1 become /dev/null: what a tool prints is never a frame, and what
    a program below reads is never ours. Stderr stays.
    """
    frames_in, frames_out = _private(stdin_fd), _private(stdout_fd)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    from worker.main import main as converse  # noqa: PLC0415  (late: a keeper never needs it)

    return converse(frames_in, frames_out, cookie)


def work(order: Fork) -> int:
    """Be the worker of ``order``, in the child that a keeper forked: stdio is in place."""
    set_title("worker", order.attempt)
    return run_worker(order.cookie)


def _private(fd: int) -> int:
    """A copy above the standard three that no program below inherits."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def run_keeper(lifeline_fd: int) -> int:
    """Be a keeper without a zygote: stdio is the child's, and the order is the first line on the lifeline."""
    from worker import keeper  # noqa: PLC0415  (a worker that is run directly has none)

    os.set_inheritable(lifeline_fd, False)
    signals.ignore()
    line = _first_line(lifeline_fd)
    if line is None:
        return 1
    keeper.run(msgspec.json.decode(line, type=Fork), lifeline_fd, (0, 1, 2), work)
    return 0


def _first_line(fd: int) -> bytes | None:
    """One line, and not a byte more, since what follows belongs to the keeper. None at the end of the stream."""
    link = socket.socket(fileno=os.dup(fd))
    with link:
        while True:
            seen = link.recv(_ORDER_LIMIT_BYTES, socket.MSG_PEEK)
            end = seen.find(b"\n")
            if end >= 0:
                return link.recv(end + 1)
            if not seen:
                return None


def main() -> int:
    """``python -I -u -m worker [--keeper FD]``."""
    if sys.argv[1:2] == [KEEPER_FLAG]:
        return run_keeper(int(sys.argv[2]))
    return run_worker(os.environ.get(COOKIE_VARIABLE))


if __name__ == "__main__":
    sys.exit(main())
