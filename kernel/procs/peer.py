"""Finds out which process has the other end of a connection to this machine; without /proc nobody can tell.

The system's table of connections says which socket has a port, and what a process has open which process has that
socket. Two questions are answered, and in doubt each is answered with no. May this come from none of our processes?
Then one that hides what it has open may have it too, and whoever has let go of a connection after asking is taken for
one of ours. Is this the process tree of that attempt? Then all who have it must be of that tree, and the connection
must stand from the first look to the last.
"""

import os
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from kernel.procs.procfs import ProcessId, descendants, identify, root_of, table

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _INODE = 1, 2, 3, 9
_ESTABLISHED: Final = "01"
_LOOKS: Final = 2
"""A table that changes while it is read may lack a row."""
_NOBODYS: Final = "0"
"""The inode of a connection that was closed on its side."""


def is_own_child(
    client_port: int, server_port: int, pid: int, beside: Callable[[], Collection[ProcessId]] = tuple
) -> bool:
    """Return whether ``pid``, or a process below it, has the connection from one port to the other. Reads all of /proc.

    So do those ``beside`` it: trees of ours that another program of this kernel started, as another process.

    True, too, for a connection that nobody has, where the table names owners at all: that of who listens.
    """
    root = identify(pid)
    if root is None:
        return False
    rows: tuple[_Row, ...] = ()
    for _ in range(_LOOKS):
        rows = tuple(_Row(_port(local), _port(remote), inode) for local, remote, _state, inode in _lines())
        sockets = _sockets(rows, client_port, server_port)
        if sockets:
            processes = descendants([root, *beside()], table())
            return any(_has(sockets, process, hidden=True) for process in processes)
    return bool(_sockets(rows, server_port, 0))


class Wire(NamedTuple):
    """A connection that was accepted: both addresses, and the inode of our side, which no other socket has."""

    client: tuple[str, int]
    server: tuple[str, int]
    inode: int


def caller(wire: Wire, roots: Collection[ProcessId], pid: int) -> ProcessId | None:
    """The one of ``roots`` whose tree has the other end of ``wire``, and no process below ``pid`` that is not of it.

    None: nobody, somebody else or several have it, or it was let go of meanwhile. Reads all of /proc.
    """
    other_end = next((found for found in (_other_end(wire) for _ in range(_LOOKS)) if found is not None), None)
    top = identify(pid)
    if other_end is None or top is None:
        return None
    holders = [process for process in descendants([*roots, top], table()) if _has({other_end}, process, hidden=False)]
    found = {root_of(holder, roots) for holder in holders}
    # Ports and inodes are given away again: what was read is of this connection only if it has stood all the while.
    if len(found) != 1 or _other_end(wire) != other_end:
        return None
    return found.pop()


def _other_end(wire: Wire) -> str | None:
    """The client's socket, as it is called among what a process has open; None where ``wire`` stands no more.

    A connection that stands is the only one between its two addresses.
    """
    ours, theirs = _spellings(*wire.server), _spellings(*wire.client)
    found: set[str] = set()
    stands = False
    for local, remote, state, inode in _lines():
        if local in theirs and remote in ours and inode != _NOBODYS:
            found.add(f"socket:[{inode}]")
        elif local in ours and remote in theirs:
            stands = stands or (state, inode) == (_ESTABLISHED, str(wire.inode))
    return found.pop() if stands and len(found) == 1 else None


def _spellings(host: str, port: int) -> frozenset[str]:
    """An address as the tables have it: in words of 32 bits in the order of the machine; IPv4 also inside IPv6."""
    if ":" in host:
        packed = [socket.inet_pton(socket.AF_INET6, host)]
    else:
        four = socket.inet_pton(socket.AF_INET, host)
        packed = [four, bytes(10) + b"\xff\xff" + four]
    step = -1 if sys.byteorder == "little" else 1
    words = ("".join(one[at : at + 4][::step].hex() for at in range(0, len(one), 4)) for one in packed)
    return frozenset(f"{word.upper()}:{port:04X}" for word in words)


class _Row(NamedTuple):
    """One side of a connection, or who listens (from port 0)."""

    local: int
    remote: int
    inode: str


def _sockets(rows: Iterable[_Row], local: int, remote: int) -> set[str]:
    sides = (row for row in rows if (row.local, row.remote) == (local, remote))
    return {f"socket:[{row.inode}]" for row in sides if row.inode != _NOBODYS}


def _lines() -> Iterator[tuple[str, str, str, str]]:
    for name in _TABLES:
        with suppress(OSError), open(name, encoding="ascii") as file:
            next(file, None)
            for row in map(str.split, file):
                yield row[_LOCAL], row[_REMOTE], row[_STATE], row[_INODE]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _has(sockets: set[str], process: ProcessId, *, hidden: bool) -> bool:
    """Return whether the process has one of ``sockets`` open; ``hidden`` where it does not show what it has open."""
    folder = f"/proc/{process.pid}/fd"
    try:
        names = os.listdir(folder)
    except PermissionError:
        return hidden
    except OSError:
        return False
    for name in names:
        with suppress(OSError):
            if os.readlink(f"{folder}/{name}") in sockets:
                return True
    return False
