"""The limits of a kernel and of what it starts. Imported before requests are accepted, so without the event loop.

Each connection and worker needs descriptors: the kernel raises its soft limit to the hard one. The programs that it
starts get the first limit back: ``select`` fails with high descriptors, and some close every number up to the limit.
"""

import os
import resource
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
NEEDED_FILES: Final = 64
"""Below it a kernel starts, and its launcher fails."""
NEEDED_TASKS: Final = 16
"""The threads of a kernel, its launcher and a worker."""


def open_standard() -> None:
    """Open /dev/null in the place of each standard descriptor that is closed: no file or socket may become one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def raise_limit() -> None:
    """Let this process have as many as the system allows. Where that is refused it stays as it is."""
    with suppress(OSError, ValueError):  # macOS allows fewer than its hard limit says
        resource.setrlimit(resource.RLIMIT_NOFILE, (_HARD, _HARD))


def limits_fault() -> str | None:
    """Return why the limits of this user are too low for a kernel; None where they suffice. Starts threads for that.

    The limit of processes counts threads, and all that the user runs: only the system knows what is left of it.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files != resource.RLIM_INFINITY and files < NEEDED_FILES:
        return f"a process may open {files} files, and a kernel needs {NEEDED_FILES}: raise it with ulimit -n"
    end, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(NEEDED_TASKS):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        need = f"a kernel needs {NEEDED_TASKS} processes and threads, and only {len(started)} can be started"
        return f"{need}: raise the limit with ulimit -u, or end other processes"
    finally:
        end.set()
        for thread in started:
            thread.join()
    return None


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
    return ["/bin/sh", "-c", 'ulimit -S -n "$0" && exec "$@"', soft, *argv]
