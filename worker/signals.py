"""Which signals zygote and keepers ignore, and how a child gets all of them back.

By name and not by asking about each of 64: this runs in every fork.
"""

import signal
from typing import Final

_IGNORED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python raises OSError instead. A worker wants that; a command must not inherit it."""


def ignore() -> None:
    """Let no careless tool, and no Ctrl-C meant for the kernel, end this process: its socket does that."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def restore(*, python: bool) -> None:
    """Give a child its defaults and an empty mask; ``python``: it stays in this interpreter."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGCHLD, *(() if python else _IGNORED_BY_PYTHON)):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
