"""Finds out whether a connection to this machine comes from a process that we run; without /proc nobody can tell.

The kernel's table of connections says which socket has a port, and what a process has open which process has that
socket. One that hides what it has open may have it too; and whoever has let go of a connection after asking, so that
nobody can be told any more, is taken for one of ours.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from kernel.procs.procfs import descendants, identify, table

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _INODE = 1, 2, 9
_LOOKS: Final = 2
"""A table that changes while it is read may lack a row."""
_NOBODYS: Final = "0"
"""The inode of a connection that was closed on its side."""


def is_own_child(client_port: int, server_port: int, pid: int) -> bool:
    """Return whether ``pid``, or a process below it, has the connection from one port to the other. Reads all of /proc.

    True, too, for a connection that nobody has, where the table names owners at all: that of who listens.
    """
    root = identify(pid)
    if root is None:
        return False
    rows: tuple[_Row, ...] = ()
    for _ in range(_LOOKS):
        rows = tuple(_rows())
        sockets = _sockets(rows, client_port, server_port)
        if sockets:
            processes = descendants([root], table())
            return any(_has(sockets, f"/proc/{process.pid}/fd") for process in processes)
    return bool(_sockets(rows, server_port, 0))


class _Row(NamedTuple):
    """One side of a connection, or who listens (from port 0)."""

    local: int
    remote: int
    inode: str


def _sockets(rows: Iterable[_Row], local: int, remote: int) -> set[str]:
    """Those that somebody has, as they are called among what a process has open."""
    sides = (row for row in rows if (row.local, row.remote) == (local, remote))
    return {f"socket:[{row.inode}]" for row in sides if row.inode != _NOBODYS}


def _rows() -> Iterator[_Row]:
    for name in _TABLES:
        with suppress(OSError), open(name, encoding="ascii") as file:
            next(file, None)
            for row in map(str.split, file):
                yield _Row(_port(row[_LOCAL]), _port(row[_REMOTE]), row[_INODE])


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _has(sockets: set[str], folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except PermissionError:
        return True
    except OSError:
        return False
    for name in names:
        with suppress(OSError):
            if os.readlink(f"{folder}/{name}") in sockets:
                return True
    return False
