"""Named points at which this process can be made to die, for the tests that prove that it may die anywhere.

Not armed, a point costs one look at a global. Armed from the environment by ``kernel.__main__``, and never otherwise:
AGENT_WORKER_CRASH_AT says where (``n``: at the n-th point of all, ``NAME:n``: at the n-th of that name), with a signal
other than SIGKILL behind a slash (``store.commit:3/SIGINT``); AGENT_WORKER_CRASH_LOG names a file that every point is
appended to. It knows nothing of what happens around it.
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
    """This point has been reached. Any thread may say so."""
    if _reached is not None:
        _reached(name)


def arm(environ: Mapping[str, str]) -> None:
    """Do from now on what the environment says; nothing where it says nothing. Raises ValueError on nonsense."""
    global _reached  # noqa: PLW0603  (the one place: a hook must cost nothing where nobody asked)
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
