"""Process 1 of a container: the kernel becomes a child, and process 1 does what nobody else can do.

Orphans of the whole container end up with process 1, which has to reap them; the kernel must not, for it would take
children away from trio. And a signal that process 1 has no handler for is dropped, so it passes them on.
"""

import os
import signal
from types import FrameType
from typing import Final

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
