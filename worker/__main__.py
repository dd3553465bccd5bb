"""Ways into a worker: run directly on stdio, or as the keeper of one (``--keeper``, the exec launcher).

The model SDKs take seconds to import, so nothing here touches them: ``worker.main`` is imported once it is needed.
"""

import os
import socket
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from protocol.ipc import COOKIE_VARIABLE, Fork
from worker import process_setup
from worker.fork.child import take_frames
from worker.process_setup import set_title

Converse = Callable[[int, int, str | None], int]
KEEPER_FLAG: Final = "--keeper"
_ORDER_LIMIT_BYTES: Final = 1024 * 1024


def run_worker(cookie: str | None) -> int:
    """Be a worker that speaks frames on stdin and stdout, and return its exit code. Stderr stays."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    return _converse(*take_frames((0, 1, 2), null), cookie)


def work(order: Fork, receive: int, send: int, converse: Converse | None = None) -> int:
    """Be the worker of ``order``, in the child that a keeper forked. ``converse`` is ``worker.main``'s, if loaded."""
    set_title("worker", order.attempt)
    return (converse or _converse)(receive, send, order.cookie)


def _converse(receive: int, send: int, cookie: str | None) -> int:
    from worker.main import main as converse  # noqa: PLC0415  (late: a keeper never needs it)

    return converse(receive, send, cookie)


def run_keeper(lifeline_fd: int) -> int:
    """Be a keeper without a zygote: stdio is the child's, and the order is the first line on the lifeline."""
    from worker.fork import keeper  # noqa: PLC0415  (a worker that is run directly has none)

    os.set_inheritable(lifeline_fd, False)
    process_setup.ignore()
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
