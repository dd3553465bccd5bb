"""SIGCHLD as a descriptor, for the poll loops of zygote and keeper."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress


class ChildSignal:
    """Becomes readable when a child has ended. One in a process; a forked process makes its own."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        # The handler does nothing: it is there because a signal with the default action wakes no one.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def drain(self) -> None:
        """Take notice of every signal so far; call it before reaping, so that none is missed."""
        with suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def close(self) -> None:
        """Give the signal back, in a process that was forked from the one that made this."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self.fd)
        os.close(self._write)


def reap() -> Iterator[tuple[int, int]]:
    """Take every ended child: (pid, wait status). Includes orphans that a subreaper adopted."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            yield pid, status


def childless() -> bool:
    """Whether no child is left, alive or to be reaped: for a subreaper, that its whole tree is gone."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False
