"""``run/<attempt>/``: the files of one attempt, and the lock that proves that its process tree has exited.

The kernel writes the file ``alive`` (boot id and cookie). Then the keeper locks it, and adds two entries: pid
and start time of itself and of its child. The next kernel waits for the lock. If a keeper was killed, its tree
is found by the entries.
"""

import errno
import fcntl
import itertools
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.procs import procfs
from kernel.procs.procfs import ProcessId, boot_id
from osfiles.safe_open import closing_descriptor

LOCK_FILE: Final = "alive"
MOST: Final = 16
SPARE: Final = ".spare-"
"""Prefix of unused directories; no attempt's name starts with a dot."""
_AS_MADE: Final = stat.S_IFDIR | 0o700


class DirectoryPool:
    """Pool of empty directories of ended attempts, which are renamed for later attempts.

    Removing a directory frees a block, which takes milliseconds on a file system with ``discard``
    and would block the kernel's loop. Directories that a program has modified are removed instead.
    """

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._numbers = itertools.count(1)
        self._closed = False

    def take(self, path: str) -> bool:
        """Rename a pooled directory to ``path``; return False if the pool is empty or ``path`` exists."""
        if not self._waiting or os.path.lexists(path):
            return False
        with suppress(OSError):
            os.rename(self._waiting.pop(), path)  # frees and allocates no block
            return True
        return False

    def keep(self, path: str) -> bool:
        """Add the directory ``path`` to the pool; return False if the caller must remove it. Raises OSError."""
        if self._closed or len(self._waiting) >= MOST or not _is_as_made(path):
            return False
        spare = f"{os.path.dirname(path)}/{SPARE}{next(self._numbers)}"
        os.rename(path, spare)
        self._waiting.append(spare)
        return True

    def close(self) -> None:
        """Remove all pooled directories; ``keep`` returns False from now on."""
        self._closed = True
        while self._waiting:
            with suppress(OSError):
                os.rmdir(self._waiting.pop())


def _is_as_made(path: str) -> bool:
    found = os.lstat(path)
    ours = found.st_mode == _AS_MADE and found.st_uid == os.geteuid()
    return ours and not os.listdir(path) and not _attributes(path)  # a program may have changed it


def _attributes(path: str) -> list[str]:
    with suppress(OSError):
        return os.listxattr(path)  # access control lists are attributes
    return []  # there can be none


class AttemptDir(msgspec.Struct, frozen=True):
    """The directory of an attempt that this kernel started."""

    name: str
    """The path as text: a ``Path`` would be converted to text at each access."""
    spares: DirectoryPool | None = None
    remote: bool = False
    """Whether the directory is on a node, where this process cannot access it and the node removes it."""

    @property
    def path(self) -> Path:
        """Return the path of the directory."""
        return Path(self.name)

    @property
    def lock(self) -> str:
        """Return the path of the file that the keeper locks until its whole tree has exited."""
        return f"{self.name}/{LOCK_FILE}"

    def rename(self, attempt: str) -> "AttemptDir":
        """Rename the directory for ``attempt``, and return it. Raises FileExistsError if that name is in use."""
        if self.remote:
            raise OSError(f"{self.name} is on a node, and cannot be {attempt}'s")
        name = f"{os.path.dirname(self.name)}/{attempt}"
        if os.path.lexists(name):  # a rename would replace an empty directory; no other process creates any
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        os.rename(self.name, name)
        return AttemptDir(name, self.spares)

    def is_bare(self) -> bool:
        """Return whether the directory contains only the lock."""
        return not self.remote and os.listdir(self.name) == [LOCK_FILE]

    def remove(self) -> None:
        """Delete the directory, or return it to the pool if only the lock is in it; ignore a missing directory."""
        if self.remote:
            return
        try:  # usually the lock is the only file, and rmtree needs 20 system calls to find out
            os.unlink(self.lock)
            if self.spares is None or not self.spares.keep(self.name):
                os.rmdir(self.name)
        except OSError:
            shutil.rmtree(self.name, ignore_errors=True)


class Signature(msgspec.Struct, frozen=True):
    """The contents of ``alive``: processes of the current boot, and the cookie in their descendants' environment."""

    cookie: str | None
    processes: tuple[ProcessId, ...]


def create_attempt_dir(run_dir: Path, attempt: str, cookie: str, spares: DirectoryPool | None = None) -> AttemptDir:
    """Create the directory (0700) and its lock file (0600). Raises FileExistsError if the attempt is in use.

    ``spares`` is the pool of unused directories.
    """
    directory = AttemptDir(f"{run_dir}/{attempt}", spares)
    if spares is None or not spares.take(directory.name):
        try:
            os.mkdir(directory.name, 0o700)
        except FileNotFoundError:  # the first attempt of all
            run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.mkdir(directory.name, 0o700)
    fd = os.open(directory.lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with closing_descriptor(fd):
        os.write(fd, f"boot {boot_id()}\ncookie {cookie}\n".encode())
    return directory


def read_signature(text: str) -> Signature:
    """Parse the text of ``alive``. Entries of an earlier boot are ignored, because those processes have exited."""
    words = [line.split() for line in text.splitlines()]
    facts = {line[0]: line[1] for line in words if len(line) == 2}
    if not facts.get("boot") or facts["boot"] != boot_id():
        return Signature(None, ())
    signed = (line for line in words if len(line) == 3 and line[1].isdecimal() and line[2].isdecimal())
    return Signature(facts.get("cookie"), tuple(ProcessId(int(pid), int(start)) for _role, pid, start in signed))


def lock_is_free(lock: Path) -> bool:
    """Return whether no keeper holds ``lock``, which proves that the attempt's tree has exited."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


PATIENCE_SECONDS: Final = 2.0
_ROUND_SECONDS: Final = 0.005


class SweepResult(msgspec.Struct, frozen=True):
    """The attempts that an earlier kernel left. ``survivors`` did not exit after SIGKILL; their directories remain."""

    attempts: tuple[str, ...]
    survivors: tuple[int, ...]


async def sweep(run_dir: Path, patience_seconds: float = PATIENCE_SECONDS, beside: Collection[str] = ()) -> SweepResult:
    """Wait until every attempt below ``run_dir`` has ended, kill its remaining processes, and remove its directory.

    Skips attempts in ``beside``. A keeper releases its lock milliseconds after its kernel has died. If a lock is held
    for ``patience_seconds``, its keeper is stuck and is killed with its tree. Call this function with the project's
    lock held, before any process is started.
    """
    left = [path for path in _directories(run_dir) if path.name not in beside]
    deadline = trio.current_time() + patience_seconds
    for path in left:
        # flock cannot be awaited, and a blocked thread cannot be cancelled.
        while not lock_is_free(path / LOCK_FILE) and trio.current_time() < deadline:  # noqa: ASYNC110
            await trio.sleep(_ROUND_SECONDS)
    fault_point("sweep.locked")
    signatures = [_signature(path / LOCK_FILE) for path in left]
    survivors = await procfs.end(
        [process for signature in signatures for process in signature.processes],
        {signature.cookie for signature in signatures if signature.cookie},
    )
    for path in left:
        if not survivors or lock_is_free(path / LOCK_FILE):
            shutil.rmtree(path, ignore_errors=True)
    fault_point("sweep.swept")
    attempts = tuple(path.name for path in left if not path.name.startswith(SPARE))
    return SweepResult(attempts, tuple(sorted(process.pid for process in survivors)))


def _directories(run_dir: Path) -> list[Path]:
    return sorted(path for path in run_dir.glob("*") if path.is_dir() and not path.is_symlink())


def _signature(lock: Path) -> Signature:
    try:
        return read_signature(lock.read_text("utf-8", "replace"))
    except OSError:
        return Signature(None, ())
