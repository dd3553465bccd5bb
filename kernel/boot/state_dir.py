"""State directory: private, owned by the user, and locked by one kernel for its whole life (promise P23)."""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from kernel.source.safe_paths import parents_fault
from osfiles.safe_open import closing_descriptor

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


class StateDirRefused(Exception):
    """The state directory cannot be trusted or used. The text names the path and the remedy."""


def prepare_state_dir(path: str) -> None:
    """Create ``path`` and its parents with mode 0700, or check their owner and deny others access."""
    fault = parents_fault(path)
    if fault is not None:
        raise StateDirRefused(fault)
    missing: list[str] = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    for directory in missing or [path]:
        info = os.lstat(directory)
        if not stat.S_ISDIR(info.st_mode):
            raise StateDirRefused(f"{directory} is not a directory; move it away or set AGENT_WORKER_HOME")
        if info.st_uid != os.geteuid():
            raise StateDirRefused(
                f"{directory} belongs to user {info.st_uid}; set AGENT_WORKER_HOME to a directory of your own"
            )
        if info.st_mode & 0o077:
            os.chmod(directory, 0o700)


class Locked(NamedTuple):
    """Open descriptors that hold the lock: of the lock file and, if possible, of its directory."""

    file: int
    directory: int | None


def take_lock(path: str) -> Locked | None:
    """Lock ``path`` for the life of the process; return None if another process holds the lock.

    The lock is the kernel's identity: a pid can be reused, a held flock cannot. The directory is locked too, if
    possible, so that deleting the file does not admit a second kernel. Raises OSError; StateDirRefused if locks do not
    exclude other processes.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # Clients briefly take a shared lock to test it (interface.discovery); retry if no kernel holds the lock.
        while _refused(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)):
            if _refused(lambda: fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)):
                os.close(descriptor)
                return None
    except OSError as error:
        error.filename = path
        raise
    if not _keeps_others_out(path):
        raise StateDirRefused(
            f"locks on {path} are ineffective, so two kernels could write to one database; "
            f"set AGENT_WORKER_HOME to a directory on a local disk"
        )
    try:
        return Locked(descriptor, _lock_directory(os.path.dirname(path)))
    except BlockingIOError:
        os.close(descriptor)
        return None


def _keeps_others_out(path: str) -> bool:
    """Return whether locks on this file system exclude others: flock, and the byte-range locks of SQLite."""
    with closing_descriptor(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)) as other:
        if not _refused(lambda: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)):
            return False
        if not hasattr(fcntl, "F_OFD_SETLK"):  # only these locks can be tested by two descriptors of one process
            return True
        whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        first = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.fcntl(first, fcntl.F_OFD_SETLK, whole)
            return _refused(lambda: fcntl.fcntl(other, fcntl.F_OFD_SETLK, whole))
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(first)


def _refused(lock: Callable[[], object]) -> bool:
    try:
        lock()
    except (BlockingIOError, PermissionError):
        return True
    return False


def _lock_directory(path: str) -> int | None:
    """Lock a directory; return None if that is unsupported, as on NFS. Raises BlockingIOError if it is locked."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor


def remedy(error: OSError, directory: str) -> str:
    """Explain ``error``, which occurred while the state ``directory`` was prepared: the problem, the path and the
    remedy.
    """
    place = str(error.filename or directory)
    said = error.strerror or str(error)
    if error.errno in _FULL:
        return f"the disk of {place} is full: free some space there, then start again ({said})"
    if error.errno in _NO_LOCKS:
        return f"the file system of {place} has no locks: set AGENT_WORKER_HOME to a directory on a local disk ({said})"
    return f"cannot use {place}: {said}; make it writable or set AGENT_WORKER_HOME"
