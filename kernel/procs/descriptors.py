"""Limits of open descriptors: the hard one for the kernel, the original one for the programs that it starts.

A connection or a worker each take some: the kernel raises its soft limit to the hard one. What it starts gets the limit
back that the kernel was started with: a program that calls ``select`` fails with high descriptors, and some close every
number up to the limit before they do anything.
"""

import os
import resource
from collections.abc import Sequence
from typing import Final

_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
SHELL: Final = "/bin/sh"


def open_standard() -> None:
    """Open /dev/null in the place of each standard descriptor that is closed: no file or socket may become one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def raise_limit() -> None:
    """Let this process have as many as the system allows. Where that is refused it stays as it is."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_HARD, _HARD))
    except (OSError, ValueError):  # macOS allows fewer than its hard limit says
        return


def restore_limit() -> None:
    """Take the first limit again, for a program that takes this one's place and asks what it was. All stays open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_SOFT, _HARD))


def under_first_limit(argv: Sequence[str]) -> list[str]:
    """``argv``, executed (by the same pid) with the limit that we were started with.

    A shell does it: between fork and exec Python may run nothing here, for the kernel has threads.
    """
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == _SOFT:
        return list(argv)
    soft = "unlimited" if _SOFT == resource.RLIM_INFINITY else str(_SOFT)
    return [SHELL, "-c", 'ulimit -S -n "$0" && exec "$@"', soft, *argv]
