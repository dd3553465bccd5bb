"""Waits until a kernel is gone: the process, not only its port, so that nothing of it runs when ``stop`` returns."""

import os
import select
from typing import Final

from interface.clock import Clock
from interface.discovery import Endpoint, prove
from interface.failure import Unreachable

_PAUSE_SECONDS: Final = 0.02


class ExitWait:
    """Made while the kernel has just proved itself, so the pid is its own; then told to wait.

    On Linux a pidfd names the process itself: it cannot come to mean another (fault PF12). Elsewhere, and for a
    kernel that only the environment names, the end of its answers has to do.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        if endpoint.pid <= 0 or not hasattr(os, "pidfd_open"):
            self._process = None
        else:
            try:
                self._process = os.pidfd_open(endpoint.pid)
            except OSError:
                self._process = None

    def wait(self, seconds: float) -> bool:
        """Return whether it was gone within ``seconds``."""
        if self._process is None:
            deadline = self._clock.now() + seconds
            while self._clock.now() < deadline:
                try:
                    prove(self._endpoint).connection.close()
                except Unreachable:
                    return True
                self._clock.pause(_PAUSE_SECONDS)
            return False
        try:
            poll = select.poll()
            poll.register(self._process, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        finally:
            os.close(self._process)
