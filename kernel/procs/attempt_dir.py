"""``run/<attempt>/``: what belongs to one attempt on disk, and the lock that proves its tree gone.

The file ``alive`` is written by the kernel (boot id and cookie), then locked and signed by the keeper (its own and its
child's pid with start time). The next kernel waits for the lock; what a dead keeper left is found by what it signed.
"""

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from kernel.procs.directory_pool import DirectoryPool
from kernel.procs.procfs import ProcessId, boot_id

LOCK_FILE: Final = "alive"


class AttemptDir(msgspec.Struct, frozen=True):
    """The directory of an attempt that this kernel started."""

    name: str
    """Its path. A ``Path`` would be made text again for each look at it."""
    spares: DirectoryPool | None = None

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.name)

    @property
    def lock(self) -> str:
        """The file that the keeper holds locked until its whole tree is gone."""
        return f"{self.name}/{LOCK_FILE}"

    def rename(self, attempt: str) -> "AttemptDir":
        """The same directory under another name. Raises FileExistsError if that is in use."""
        name = f"{os.path.dirname(self.name)}/{attempt}"
        if os.path.lexists(name):  # a rename alone would not tell; nobody else makes any
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        os.rename(self.name, name)
        return AttemptDir(name, self.spares)

    def is_bare(self) -> bool:
        """Return whether there is nothing in it but the lock."""
        return os.listdir(self.name) == [LOCK_FILE]

    def remove(self) -> None:
        """Delete the directory, or let it be used again if it is empty; what is gone already is fine."""
        try:  # as a rule the lock is all there is, and rmtree takes 20 system calls to find that out
            os.unlink(self.lock)
            if self.spares is None or not self.spares.keep(self.name):
                os.rmdir(self.name)
        except OSError:
            shutil.rmtree(self.name, ignore_errors=True)


class Signature(msgspec.Struct, frozen=True):
    """The contents of ``alive``: processes started in this boot of the machine, and the cookie of all below them."""

    cookie: str | None
    processes: tuple[ProcessId, ...]


def create_attempt_dir(run_dir: Path, attempt: str, cookie: str, spares: DirectoryPool | None = None) -> AttemptDir:
    """Make the directory (0700) and its lock file (0600). Raises FileExistsError if the attempt is in use.

    ``spares`` is where empty ones come from, and go to.
    """
    directory = AttemptDir(f"{run_dir}/{attempt}", spares)
    if spares is None or not spares.take(directory.name):
        try:
            os.mkdir(directory.name, 0o700)
        except FileNotFoundError:  # the first attempt of all
            run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.mkdir(directory.name, 0o700)
    fd = os.open(directory.lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, f"boot {boot_id()}\ncookie {cookie}\n".encode())
    finally:
        os.close(fd)
    return directory


def read_signature(text: str) -> Signature:
    """Parse ``alive``. Of another boot, or where a line is torn, nothing is believed: those processes are gone."""
    words = [line.split() for line in text.splitlines()]
    facts = {line[0]: line[1] for line in words if len(line) == 2}
    if not facts.get("boot") or facts["boot"] != boot_id():
        return Signature(None, ())
    signed = (line for line in words if len(line) == 3 and line[1].isdecimal() and line[2].isdecimal())
    return Signature(facts.get("cookie"), tuple(ProcessId(int(pid), int(start)) for _role, pid, start in signed))


def lock_is_free(lock: Path) -> bool:
    """Return whether nobody holds ``lock``: nothing is left of the tree that it stands for."""
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
