"""Named points at which tests can kill this process, to prove that the kernel recovers from a crash at any point.

A disarmed point costs one lookup of a global. Only ``kernel.__main__`` arms them, from the environment:
AGENT_WORKER_CRASH_AT selects the point (``n``: the n-th of all, ``NAME:n``: the n-th of that name), with an optional
signal other than SIGKILL after a slash (``store.commit:3/SIGINT``); AGENT_WORKER_CRASH_LOG names a file to which all
reached points are appended.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

AT: Final = "AGENT_WORKER_CRASH_AT"
LOG: Final = "AGENT_WORKER_CRASH_LOG"

_reached: Callable[[str], None] | None = None


def fault_point(name: str) -> None:
    """Mark a point as reached; safe to call from any thread."""
    if _reached is not None:
        _reached(name)


def arm(environ: Mapping[str, str]) -> None:
    """Arm the points configured in the environment, if any. Raises ValueError for invalid values."""
    global _reached  # noqa: PLW0603  (a disarmed hook must cost nothing)
    if AT in environ or LOG in environ:
        _reached = _Crash(environ.get(AT, ""), environ.get(LOG)).reached


class _Crash:
    def __init__(self, at: str, log: str | None) -> None:
        place, _, name = at.partition("/")
        self._name, _, count = place.rpartition(":")
        self._count = int(count) if count else 0
        self._signal = signal.Signals[name or "SIGKILL"]
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reached(self, name: str) -> None:
        with self._lock:
            self._seen[name] += 1
            now = self._seen[name] if self._name else self._seen.total()
            if self._log is not None:
                os.write(self._log, f"{name}\n".encode())
            if now == self._count and self._name in {"", name}:
                os.kill(os.getpid(), self._signal)
