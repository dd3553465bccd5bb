"""What a tree of processes may use, and whether it uses more. Looked at from outside, once in a while.

Why not the system's own limits: RLIMIT_AS counts address space, of which node and bun reserve gigabytes they never
touch; RLIMIT_NPROC counts all processes of the user, and nothing of root's; and a control group can be made only where
somebody has delegated one. So a tree may go over for a moment: this ends it, it does not hold it back.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from protocol.ipc import Bound
from worker import tree

LOOK_SECONDS: Final = 0.5
"""Between two looks at the tree: some hundred microseconds each."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_MIB: Final = 2**20


def exceeded(bound: Bound) -> str | None:
    """What the processes below this one use too much of, in words; None where they keep within ``bound``."""
    processes = tree.descendants()
    if bound.processes is not None and len(processes) > bound.processes:
        return f"it had {len(processes)} processes at once, and may have {bound.processes} (limits.processes)"
    if bound.memory_bytes is not None and (used := memory_bytes(processes)) > bound.memory_bytes:
        may = f"may use {bound.memory_bytes / _MIB:.0f} MiB (limits.memory)"
        return f"its processes used {used / _MIB:.0f} MiB of memory, and {may}"
    return None


def memory_bytes(processes: Collection[int]) -> int:
    """What they have of their own: resident, without files and shared memory, which would count once for each."""
    pages = 0
    for pid in processes:
        with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:  # one that is gone uses nothing
            _size, resident, shared, *_rest = file.read().split()
            pages += int(resident) - int(shared)
    return pages * _PAGE_BYTES
