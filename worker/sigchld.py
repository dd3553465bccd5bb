"""SIGCHLD as a descriptor, for the poll loops of zygote and keeper."""

import operator
import os
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass


class ChildSignal:
    """Becomes readable when a child has ended. One in a process; a forked process makes its own."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        # The handler does nothing, in C: it is there because a signal with the default action wakes no one.
        signal.signal(signal.SIGCHLD, operator.is_)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def drain(self) -> None:
        """Take notice of the signals so far; call it when readable, and before reaping, so that none is missed."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def close(self) -> None:
        """Give the signal back, in a process that was forked from the one that made this."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self.fd)
        os.close(self._write)


@dataclass(slots=True)
class Cost:
    """What those that were reaped had used: seconds of CPU in all, peak resident memory of the largest."""

    user_seconds: float = 0.0
    system_seconds: float = 0.0
    max_rss: int = 0

    def add(self, usage: resource.struct_rusage) -> None:
        """Take in one process, with the children it had waited for."""
        self.user_seconds += usage.ru_utime
        self.system_seconds += usage.ru_stime
        self.max_rss = max(self.max_rss, usage.ru_maxrss)


def reap(cost: Cost | None = None) -> tuple[dict[int, int], bool]:
    """Take every ended child, orphans that a subreaper adopted included; what they used is added to ``cost``.

    Returns:
        Wait status by pid, and whether no child is left: for a subreaper, that its whole tree is gone.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if not pid:
            return ended, False
        ended[pid] = status
        if cost is not None:
            cost.add(usage)
