"""Limits and standard descriptors of this process. Imports no other module of the project, to be loaded first.

Each connection and each worker takes some descriptors, so the kernel raises its soft limit to the hard limit.
Programs that it starts get the original limit back: ``select`` fails with high descriptors, and some programs
close every number up to the limit before they do anything.
"""

import os
import resource
import threading
from collections.abc import Sequence
from typing import Final

_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
NEEDED_FILES: Final = 64
"""Minimum limit of open files: below it a kernel starts, but its launcher fails."""
NEEDED_TASKS: Final = 16
"""Minimum number of free threads: for a kernel, its launcher and a worker."""
_SHELL: Final = "/bin/sh"


def open_standard() -> None:
    """Open /dev/null for each closed descriptor 0-2: otherwise a file or socket opened later would become it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit. If the system refuses, the limit is unchanged."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_HARD, _HARD))
    except (OSError, ValueError):  # macOS allows fewer than its hard limit says
        return


def limits_fault() -> str | None:
    """Return why the limits of this user are too low for a kernel, or None.

    Starts threads to find out: the limit of processes counts all threads of all programs of the user.
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
    """Restore the original limit for a program that replaces this one. Open files remain open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_SOFT, _HARD))


def under_first_limit(argv: Sequence[str]) -> list[str]:
    """Return a command that executes ``argv`` (same pid) with the original limit.

    A shell sets the limit: between fork and exec no Python may run, because the kernel has threads.
    """
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == _SOFT:
        return list(argv)
    soft = "unlimited" if _SOFT == resource.RLIM_INFINITY else str(_SOFT)
    return [_SHELL, "-c", 'ulimit -S -n "$0" && exec "$@"', soft, *argv]
