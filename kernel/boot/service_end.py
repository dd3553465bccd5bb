"""The surroundings of the kernel process: the service that keeps it, and process 1 of a container.

systemd runs a shell once the kernel has ended (``ExecStopPost`` of the unit that ``awk service`` writes), which leaves
its three words in a file. Every kernel takes the file away, so that it never tells of an older end.

In a container the kernel becomes a child, and process 1 does what nobody else can do. Orphans of the whole container
end up with process 1, which has to reap them; the kernel must not, for it would take children away from trio. And a
signal that process 1 has no handler for is dropped, so it passes them on.
"""

import os
import re
import signal
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from types import FrameType
from typing import Final, NamedTuple

from protocol.discovery import ENDED, SERVICE

PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


def serve_as_init() -> int | None:
    """Return None in the process that is to be the kernel; elsewhere stay until that has ended, and give its code.

    To be called before there are threads. When the caller exits, the system kills what is left in the container.
    """
    if os.getpid() != 1:
        return None
    # Nothing may come between the fork and the handlers: it would be dropped.
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
    while True:  # reap whoever ends; the kernel's end is the end
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code  # as a shell shows a signal


_WORDS: Final = re.compile(r"([a-z-]{1,32}) ([a-z]{0,16}) ([A-Z0-9+]{0,16})\n?", re.ASCII)
_UNIT: Final = re.compile(r"[A-Za-z0-9:._@-]{1,200}", re.ASCII)
OTHER_RUNS: Final = "75"
"""EX_TEMPFAIL: the end of a start beside another kernel, and not of that one."""
_RESULTS: Final = {
    "watchdog": "the service's watchdog ended it: its event loop had stood still",
    "oom-kill": "the system killed it: memory was short",
    "timeout": "its service ended it: it had taken too long to start or to stop",
}


class KeptBy(NamedTuple):
    """The service by its name; how the kernel before had ended and when, where that is known."""

    service: str
    how: str | None = None
    at: str | None = None

    @property
    def notice(self) -> str:
        """For people, where the kernel before had died."""
        when = f" at {self.at}" if self.at else ""
        how = self.how or "how it had ended is not known: see kernel.log"
        return f"the kernel before this one died{when} and was started again by its service {self.service}: {how}"


def kept_by(environ: Mapping[str, str], state: str) -> KeptBy | None:
    """Read, and forget, how the kernel before had ended. None: no service keeps this kernel."""
    path = os.path.join(state, ENDED)
    said: bytes = b""
    at_seconds = 0.0
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                said, at_seconds = os.read(descriptor, 100), info.st_mtime
        finally:
            os.close(descriptor)
        os.unlink(path)
    except OSError:
        pass  # there is none
    service = environ.get(SERVICE, "")
    if not _UNIT.fullmatch(service):
        return None
    words = _WORDS.fullmatch(said.decode("ascii", "replace"))
    if words is None or words[3] == OTHER_RUNS:
        return KeptBy(service)
    at = datetime.fromtimestamp(at_seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return KeptBy(service, in_words(*words.groups()), at)


def in_words(result: str, code: str, status: str) -> str:
    """Say what systemd calls $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS (systemd.exec(5))."""
    if result in _RESULTS:
        return _RESULTS[result]
    if code in ("killed", "dumped") and status:
        return f"killed by SIG{status}"
    return f"exit code {status}" if code == "exited" and status else result
