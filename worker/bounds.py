"""What a tree of processes may use, and whether it uses more. Looked at from outside, once in a while.

Why not the system's own limits: RLIMIT_AS counts address space, of which node and bun reserve gigabytes they never
touch; RLIMIT_NPROC counts all processes of the user, and nothing of root's; and a control group can be made only where
somebody has delegated one. So a tree may go over for a moment: this ends it, it does not hold it back.
"""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from protocol.ipc import Bound
from worker import tree

LOOK_SECONDS: Final = 0.5
"""Between two looks at the tree: some hundred microseconds each."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_MIB: Final = 2**20
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
"""How /proc writes a blank in a path."""


def exceeded(bound: Bound) -> str | None:
    """What the processes below this one use too much of, in words; None where they keep within ``bound``."""
    processes = tree.descendants()
    if bound.processes is not None and len(processes) > bound.processes:
        return f"it had {len(processes)} processes at once, and may have {bound.processes} (limits.processes)"
    if bound.memory_bytes is None:
        return None
    used, kept = memory_bytes(processes), tmpfs_bytes(processes)
    if used + kept > bound.memory_bytes:
        files = f" and {kept / _MIB:.0f} MiB of files in memory (/tmp of a sandbox)" if kept else ""
        may = f"may use {bound.memory_bytes / _MIB:.0f} MiB (limits.memory)"
        return f"its processes used {used / _MIB:.0f} MiB of memory{files}, and {may}"
    return None


def memory_bytes(processes: Collection[int]) -> int:
    """What they have of their own: resident, without files and shared memory, which would count once for each."""
    pages = 0
    for pid in processes:
        with suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:  # one that is gone uses nothing
            _size, resident, shared, *_rest = file.read().split()
            pages += int(resident) - int(shared)
    return pages * _PAGE_BYTES


def tmpfs_bytes(processes: Collection[int]) -> int:
    """What the files hold that lie in memory, in file systems that only ``processes`` see: those of their sandboxes."""
    seen = {_mount_namespace("self")}
    counted = {device for device, _place in _tmpfs_mounts("self")}
    total = 0
    for pid in processes:
        namespace = _mount_namespace(str(pid))
        if namespace in seen:
            continue
        seen.add(namespace)
        for device, place in _tmpfs_mounts(str(pid)):
            if device not in counted:
                counted.add(device)
                total += _held_bytes(f"/proc/{pid}/root{place}", device)
    return total


def _mount_namespace(process: str) -> int | None:
    """Its number; None for a process that is gone, or that nobody may look at."""
    try:
        return os.stat(f"/proc/{process}/ns/mnt").st_ino
    except OSError:
        return None


def _tmpfs_mounts(process: str) -> list[tuple[int, str]]:
    """Device and place of each file system in memory that ``process`` sees."""
    found: list[tuple[int, str]] = []
    with suppress(OSError), open(f"/proc/{process}/mountinfo", "rb") as file:
        for line in file:
            mount, _dash, kind = line.partition(b" - ")
            if kind.startswith(b"tmpfs "):
                _id, _parent, device, _root, place, *_rest = mount.split()
                major, minor = map(int, device.split(b":"))
                found.append((os.makedev(major, minor), os.fsdecode(_ESCAPED.sub(_unescaped, place))))
    return found


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 8),))


def _held_bytes(path: str, device: int) -> int:
    """What is used of the file system at ``path``, if it is ``device``."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        if os.fstat(fd).st_dev != device:
            return 0
        facts = os.fstatvfs(fd)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    finally:
        os.close(fd)
