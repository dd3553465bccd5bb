"""Whether a worker's event loop still turns: pings, pongs, and the time between them. Pure: times are handed in.

It says nothing about progress: a worker that answers every ping may still be stuck, and is then silent
(fault IF12). Whatever a worker says shows that it lives, so only one that is silent is asked.
"""

import math
from typing import Final

from protocol.ipc import Ping

EVERY_SECONDS: Final = 5.0
"""Of silence before a ping."""
WITHIN_SECONDS: Final = 30.0
"""After which one that has not answered is taken for dead. The loop of a worker never blocks on purpose."""


class Pulse:
    """The heartbeat of one worker, in seconds of a monotonic clock. Nothing is due before ``begin``."""

    def __init__(self, every_seconds: float = EVERY_SECONDS, within_seconds: float = WITHIN_SECONDS) -> None:
        self._every = every_seconds
        self.within_seconds = within_seconds
        self._n = 0
        self._heard_at = math.inf
        self._asked_at: float | None = None

    @property
    def due_at(self) -> float:
        """When a ping is to be sent, or its answer was to be there."""
        return self._heard_at + self._every if self._asked_at is None else self._asked_at + self.within_seconds

    def begin(self, now: float) -> None:
        """The worker speaks frames from now on."""
        self._heard_at = now

    def heard(self, now: float) -> None:
        """It said something."""
        if self._heard_at < math.inf:
            self._heard_at = now
            self._asked_at = None

    def pong(self, n: int, now: float) -> None:
        """It answered ping ``n``. What answers another ping, or none, is passed over (fault IF13)."""
        if self._asked_at is not None and n == self._n:
            self.heard(now)

    def ask(self, now: float) -> Ping | None:
        """The ping that is due. None: the last one was not answered in time, so the worker is dead."""
        if self._asked_at is not None:
            return None
        self._n += 1
        self._asked_at = now
        return Ping(n=self._n)

    def forgive(self, seconds: float) -> None:
        """Let ``seconds`` not count: they were the kernel's own."""
        self._heard_at += seconds
        if self._asked_at is not None:
            self._asked_at += seconds
