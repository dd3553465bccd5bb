"""SIGCHLD as a descriptor, for the poll loops of zygote and keeper."""

import os
import signal
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


def reap() -> tuple[dict[int, int], bool]:
    """Take every ended child, orphans that a subreaper adopted included.

    Returns:
        Wait status by pid, and whether no child is left: for a subreaper, that its whole tree is gone.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if not pid:
            return ended, False
        ended[pid] = status
