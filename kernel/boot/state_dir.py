"""The state directory: private, ours, and locked by one kernel for its whole life (promises P23, XF13, XF14)."""

import fcntl
import os
import stat


class StateDirRefused(Exception):
    """The state directory cannot be trusted or used. The text names the path and the remedy."""


def prepare_state_dir(path: str) -> None:
    """Create ``path`` and its parents with mode 0700, or check that it is ours and that nobody else reads it."""
    missing: list[str] = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    for directory in missing or [path]:
        _check_private(directory)


def _check_private(path: str) -> None:
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise StateDirRefused(f"{path} is not a directory; move it away or set AGENT_WORKER_HOME")
    if info.st_uid != os.geteuid():
        raise StateDirRefused(f"{path} belongs to user {info.st_uid}; set AGENT_WORKER_HOME to a directory of yours")
    if info.st_mode & 0o077:
        os.chmod(path, 0o700)


def take_lock(path: str) -> int | None:
    """Lock ``path`` for life and return its descriptor; None where another process holds it.

    The lock is the kernel's identity: a pid proves nothing (it can be reused), a held flock does.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
