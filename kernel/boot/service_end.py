"""Surroundings of the kernel process: the service that restarts it, and process 1 of a container.

When the kernel has ended, systemd runs a shell (``ExecStopPost`` of the unit that ``awk service``
writes), which stores the three words of ``in_words`` in a file. Every kernel deletes the file at
its start, so that no later kernel reports the same end again.

In a container the kernel runs as a child of process 1, which has two duties. It reaps the
orphans of the whole container; the kernel must not, because it would reap trio's children. And
it forwards signals, because the system drops signals to a process 1 without a handler."""

import os
import re
import signal
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from types import FrameType
from typing import Final, NamedTuple

from osfiles.safe_open import closing_descriptor
from protocol.discovery import ENDED, SERVICE

PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


def serve_as_init() -> int | None:
    """Return None in the process that becomes the kernel; elsewhere wait for its end and return its exit code.

    Call this before any thread starts. When the caller exits, the system kills all processes of the container.
    """
    if os.getpid() != 1:
        return None
    # Signals between the fork and the handlers would be dropped.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    kernel = os.fork()
    if kernel:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            os.kill(kernel, number)

        for number in PASSED_ON:
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    if not kernel:
        return None
    while True:  # reap all children until the kernel ends
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code  # the shell's exit code for a signal


_WORDS: Final = re.compile(r"([a-z-]{1,32}) ([a-z]{0,16}) ([A-Z0-9+]{0,16})\n?", re.ASCII)
_UNIT: Final = re.compile(r"[A-Za-z0-9:._@-]{1,200}", re.ASCII)
OTHER_RUNS: Final = "75"
"""EX_TEMPFAIL: the exit code of a start while another kernel runs."""
_RESULTS: Final = {
    "watchdog": "the service's watchdog killed it: its event loop was blocked",
    "oom-kill": "the system killed it: out of memory",
    "timeout": "its service killed it: it took too long to start or to stop",
}


class KeptBy(NamedTuple):
    """Service that restarts this kernel, and how and when the previous kernel ended, if known."""

    service: str
    how: str | None = None
    at: str | None = None

    @property
    def notice(self) -> str:
        """Return the notice to people about the death of the previous kernel."""
        when = f" at {self.at}" if self.at else ""
        how = self.how or "the cause is unknown: see kernel.log"
        return f"the previous kernel died{when} and was restarted by its service {self.service}: {how}"


def kept_by(environ: Mapping[str, str], state: str) -> KeptBy | None:
    """Read and delete the record of the previous kernel's end. Return None if no service runs this kernel."""
    path = os.path.join(state, ENDED)
    said: bytes = b""
    at_seconds = 0.0
    try:
        with closing_descriptor(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        ) as descriptor:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                said, at_seconds = os.read(descriptor, 100), info.st_mtime
        os.unlink(path)
    except OSError:
        pass  # the previous kernel's end was not recorded
    service = environ.get(SERVICE, "")
    if not _UNIT.fullmatch(service):
        return None
    words = _WORDS.fullmatch(said.decode("ascii", "replace"))
    if words is None or words[3] == OTHER_RUNS:
        return KeptBy(service)
    at = datetime.fromtimestamp(at_seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return KeptBy(service, in_words(*words.groups()), at)


def in_words(result: str, code: str, status: str) -> str:
    """Describe systemd's $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS (systemd.exec(5))."""
    if result in _RESULTS:
        return _RESULTS[result]
    if code in ("killed", "dumped") and status:
        return f"killed by SIG{status}"
    return f"exit code {status}" if code == "exited" and status else result
