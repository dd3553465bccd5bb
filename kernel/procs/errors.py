"""How starting a process can fail for the kernel. What fails in the child itself is ``Exited.failed``."""

import errno
from typing import Final

TRANSIENT: Final = frozenset(
    {
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOSPC,
        errno.ETOOMANYREFS,
    }
)
"""The machine is short of something: descriptors, processes, memory. It was not the command's fault."""

TRANSIENT_NAMES: Final = frozenset(errno.errorcode[number] for number in TRANSIENT)


class SpawnTransient(Exception):
    """Nothing was started and nothing is left of it; the same may work in a few seconds.

    Raised for exhausted descriptors, processes, memory or disk, and where no zygote answers. Not raised for a command
    that cannot be executed: that is an ``Exited`` with ``failed``.
    """


class KeeperLost(SpawnTransient):
    """The keeper went away before it had started anything, mostly because its zygote was killed."""
