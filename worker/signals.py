"""Ignores signals in zygote and keepers, and restores them in a child.

By name and not by asking about each of 64: this runs in every fork. SIGUSR1 has every thread's stack written to
standard error instead: a worker that answers no ping is asked so where it stands. Its handler is inherited, so that no
worker pays for it; what a worker executes has the default again.
"""

import _signal as bare  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
import faulthandler
import signal
from typing import Final

_IGNORED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR2,
)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python raises OSError instead. A worker wants that; a command must not inherit it."""
_OF_WORKERS: Final = tuple(map(int, (*_IGNORED, signal.SIGCHLD)))
_OF_COMMANDS: Final = tuple(map(int, (*_IGNORED, signal.SIGCHLD, *_IGNORED_BY_PYTHON)))


def ignore() -> None:
    """Let no careless tool, and no Ctrl-C meant for the kernel, end this process: its socket does that."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)


def restore(*, python: bool) -> None:
    """Give a child its defaults and an empty mask; ``python``: it stays in this interpreter.

    By ``_signal``: the wrappers in ``signal`` make each number an enum, and copy 40 pages of a fresh fork by it.
    """
    bare.set_wakeup_fd(-1)
    for number in _OF_WORKERS if python else _OF_COMMANDS:
        bare.signal(number, bare.SIG_DFL)
    bare.pthread_sigmask(bare.SIG_SETMASK, ())
