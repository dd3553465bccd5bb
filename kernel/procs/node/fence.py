"""The lease of a node, by a clock that goes on while the machine sleeps, and the highest term it was ever given.

Past its lease a node ends all that it runs: it cannot know whether its kernel has given that work to somebody else.
"""

import os
import select
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import trio

from osfiles.atomic_write import replacing, sync_folder

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOK_SECONDS: Final = 0.5
"""A sleep is measured by a clock that stands still with the machine: so long after it has woken the end is seen."""
TERM_FILE: Final = "term"


def boot_seconds() -> float:
    """The time since this machine started, its sleep included."""
    return time.clock_gettime(_CLOCK)


async def wait_past(until: Callable[[], float]) -> None:
    """Return once a time of ``boot_seconds`` is over, which may be moved meanwhile."""
    while (rest := until() - boot_seconds()) > 0:  # noqa: ASYNC110  (it is moved meanwhile)
        await trio.sleep(min(rest, LOOK_SECONDS))


class Lease:
    """The time up to which a node may run what it was given. It is over until it is renewed for the first time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.until = 0.0
        """Its end, by ``boot_seconds``."""
        self._said_ms = 0

    def beat(self) -> int:
        """The time now, in milliseconds, to be echoed by the kernel."""
        self._said_ms = int(boot_seconds() * 1000)
        return self._said_ms

    def renew(self, at_ms: int) -> None:
        """The beat of that time came back. One that was never sent changes nothing."""
        if at_ms <= self._said_ms:
            self.until = max(self.until, at_ms / 1000 + self._seconds)

    @property
    def is_over(self) -> bool:
        """Return whether the node must not run anything."""
        return boot_seconds() >= self.until

    async def wait_until_over(self) -> None:
        """Return when it is over."""
        await wait_past(lambda: self.until)


class TermUnreadable(Exception):
    """Nobody can tell which kernel of the project is the latest one, so none is served."""


class Terms:
    """The highest term in which this node has served, in a file of its folder."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / TERM_FILE

    def highest(self) -> int:
        """Return it; 0 where it has served nobody. Raises TermUnreadable, OSError."""
        try:
            return int(self._file.read_text("ascii"))
        except FileNotFoundError:
            return 0
        except ValueError:
            raise TermUnreadable(f"{self._file} has no number: write the project's term there, or remove it") from None

    def keep(self, term: int) -> None:
        """Write it down, for good."""
        with replacing(self._file, 0o666, beside=self._file.with_suffix(".new")) as file:
            file.write(str(term).encode("ascii"))
        sync_folder(self._file.parent)


_DEADLINE: Final = struct.Struct("=d")
_NONE: Final = 0.0
_MOST_BYTES: Final = _DEADLINE.size * 512


class Guard:
    """A process beside the node process that kills it when its lease is over and it has not ended its trees itself.

    A process that is stopped, or hangs, cannot fence itself; its keepers end their trees when it is gone. The guard is
    forked before the node process has a loop, holds nothing but a pipe, and goes with it. One that dies is replaced.
    """

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
