"""A process beside the node process that ends it when its lease is over and it has not ended its trees itself.

A process that is stopped, or hangs, cannot fence itself; its keepers end their trees when it is gone. The guard is
forked before the node process has a loop, holds nothing but a pipe, and goes with it. One that dies is replaced.
"""

import os
import select
import signal
import struct
from typing import Final, NoReturn

from kernel.procs.node.fence import LOOK_SECONDS, boot_seconds

_DEADLINE: Final = struct.Struct("=d")
_NONE: Final = 0.0
_MOST_BYTES: Final = _DEADLINE.size * 512


class Guard:
    """The node process's end of the pipe to its guard."""

    def __init__(self, patience_seconds: float) -> None:
        """Fork it. ``patience_seconds``: what the node process has to end its trees, once its lease is over."""
        self._patience_seconds = patience_seconds
        self._fork()

    def _fork(self) -> None:
        parent = os.getpid()
        read, self._write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.closerange(0, read)
            os.closerange(read + 1, os.sysconf("SC_OPEN_MAX"))
            _watch(parent, read, self._patience_seconds)
        os.close(read)
        os.set_blocking(self._write, False)

    def expect(self, until: float) -> None:
        """The lease lasts until then, by ``boot_seconds``. A guard that has died is replaced."""
        try:
            try:
                os.write(self._write, _DEADLINE.pack(until))
            except BrokenPipeError:  # it was killed: the machine was short of memory, say
                dead = self.pid
                os.close(self._write)
                self._fork()
                os.write(self._write, _DEADLINE.pack(until))
                os.waitpid(dead, 0)
        except BlockingIOError:  # it is stopped itself: a later one will do
            return

    def stand_down(self) -> None:
        """Nothing runs that would have to be ended."""
        self.expect(_NONE)


def _watch(parent: int, pipe: int, patience_seconds: float) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until = _NONE
    while True:
        rest = None if until == _NONE else until + patience_seconds - boot_seconds()
        if rest is not None and rest < 0:
            if os.getppid() == parent:
                os.kill(parent, signal.SIGKILL)
            os._exit(1)
        ready, _, _ = select.select([pipe], [], [], None if rest is None else min(rest + 0.001, LOOK_SECONDS))
        if ready:
            said = os.read(pipe, _MOST_BYTES)
            if not said:
                os._exit(0)
            (until,) = _DEADLINE.unpack_from(said, len(said) - _DEADLINE.size)
