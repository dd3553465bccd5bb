"""The process table in /proc: find, identify and kill processes of attempts, and find the owner of a connection.

Systems without /proc get empty results. A process is identified by pid and start time, so a reused pid is never
signalled (fault PF11). ``end`` kills the tree of a keeper that was killed: by descent if possible, then by cookie. The
zygote also kills such trees, and finds more processes, because it adopts every orphan; ``end`` is needed if the zygote
is missing.

The system's table of connections maps ports to sockets, and open descriptors map sockets to processes.
``is_own_child`` answers whether our processes own a connection: in doubt yes, for a process that hides its descriptors
and for a closed connection. ``caller`` answers which attempt owns it: in doubt none. All owners must belong to the
attempt's tree, and the connection must exist from the first check to the last.
"""

import functools
import os
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from osfiles.safe_open import closing_descriptor
from protocol.ipc import COOKIE_VARIABLE

_LINE_BYTES: Final = 4096
_ZOMBIE: Final = b"Z"


class ProcessId(NamedTuple):
    """A process of this boot, uniquely identified. ``start_time`` is in clock ticks since boot."""

    pid: int
    start_time: int


class ProcessRow(NamedTuple):
    """A process in the process table."""

    id: ProcessId
    parent: int


@functools.cache
def boot_id() -> str:
    """Return an id that changes with every boot of the machine; a constant if the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def identify(pid: int) -> ProcessId | None:
    """Identify the process with ``pid``; return None if it does not exist or is a zombie."""
    row = _row(pid)
    return row.id if row is not None else None


def table() -> dict[int, ProcessRow]:
    """Return every living process, by pid."""
    with suppress(OSError):
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return {pid: row for pid in pids if (row := _row(pid)) is not None}
    return {}


def descendants(roots: Iterable[ProcessId], rows: dict[int, ProcessRow]) -> set[ProcessId]:
    """Return the living processes of ``roots`` and their descendants."""
    below: defaultdict[int, list[int]] = defaultdict(list)
    for pid, row in rows.items():
        below[row.parent].append(pid)
    waiting = [root.pid for root in roots if root.pid in rows and rows[root.pid].id == root]
    found: set[ProcessId] = set()
    while waiting:
        row = rows[waiting.pop()]
        if row.id not in found:
            found.add(row.id)
            waiting.extend(below[row.id.pid])
    return found


def root_of(process: ProcessId, roots: Collection[ProcessId]) -> ProcessId | None:
    """Return the element of ``roots`` that is ``process`` or its ancestor.

    None if there is none, if the process has exited, or if a parent is younger than its child (its pid was reused).
    """
    row = _row(process.pid)
    if row is None or row.id != process:
        return None
    while row.id not in roots:
        above = _row(row.parent)
        if above is None or above.id.start_time > row.id.start_time:  # a reused pid
            return None
        row = above
    return row.id


def by_cookie(cookies: Collection[str], rows: dict[int, ProcessRow]) -> set[ProcessId]:
    """Return the processes whose initial environment contains one of ``cookies``."""
    marks = [f"{COOKIE_VARIABLE}={cookie}".encode() for cookie in cookies]
    return {row.id for row in rows.values() if marks and _environment(row.id.pid).intersection(marks)}


def kill(target: ProcessId, number: int = signal.SIGKILL) -> None:
    """Send signal ``number`` to exactly this process; ignored if it has exited or belongs to another user."""
    with suppress(OSError), closing_descriptor(os.pidfd_open(target.pid)) as handle:
        if identify(target.pid) == target:
            signal.pidfd_send_signal(handle, number)


def _row(pid: int) -> ProcessRow | None:
    try:
        state, parent, *fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()  # a name may contain ") "
    except (OSError, ValueError):
        return None
    if state == _ZOMBIE:
        return None
    return ProcessRow(ProcessId(pid, int(fields[17])), int(parent))


def _read(path: str) -> bytes:
    with closing_descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        return os.read(fd, _LINE_BYTES)


def _environment(pid: int) -> frozenset[bytes]:
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return frozenset(file.read().split(b"\0"))
    return frozenset()


ROUND_SECONDS: Final = 0.005
PATIENCE_SECONDS: Final = 2.0
"""Time for a killed process to exit, which takes milliseconds except in an uninterruptible wait."""


async def end(
    roots: Iterable[ProcessId], cookies: Collection[str], patience_seconds: float = PATIENCE_SECONDS
) -> frozenset[ProcessId]:
    """Kill ``roots``, their descendants and all processes with ``cookies``, until none is found.

    Returns:
        Processes that did not exit within ``patience_seconds``; an empty set proves that all have exited.
    """
    known = set(roots)
    deadline = trio.current_time() + patience_seconds
    while known or cookies:
        alive = await trio.to_thread.run_sync(_round, known, cookies)
        if not alive or trio.current_time() >= deadline:
            return frozenset(alive)  # in uninterruptible wait
        known |= alive  # their children may appear after their end
        await trio.sleep(ROUND_SECONDS)
    return frozenset()


def _round(known: set[ProcessId], cookies: Collection[str]) -> set[ProcessId]:
    rows = table()
    found = descendants(known | by_cookie(cookies, rows), rows)
    for target in found:
        kill(target)
    return found


async def reap(pids: Iterable[int]) -> None:
    """Wait for each of ``pids`` that is a child of this process, and reap it; ignore other pids."""
    async with trio.open_nursery() as nursery:
        for pid in frozenset(pids):
            nursery.start_soon(_reap, pid)


async def _reap(pid: int) -> None:
    with suppress(OSError):
        ended = os.pidfd_open(pid)
        try:
            await trio.lowlevel.wait_readable(ended)
            os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222  (it does not wait)
        finally:
            trio.lowlevel.notify_closing(ended)
            os.close(ended)


_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _INODE = 1, 2, 3, 9
_ESTABLISHED: Final = "01"
_LOOKS: Final = 2
"""Number of reads of the connection table: a table that changes during a read may lack a row."""
_NOBODYS: Final = "0"
"""Inode in the table for a socket that its process has closed."""


def is_own_child(
    client_port: int, server_port: int, pid: int, beside: Callable[[], Collection[ProcessId]] = tuple
) -> bool:
    """Return whether ``pid`` or a descendant owns the connection from ``client_port`` to ``server_port``.

    ``beside`` returns trees that another kernel process started. Also True if no process owns the
    connection (then it is still the listener's), on systems that list owners. Reads all of /proc.
    """
    root = identify(pid)
    if root is None:
        return False
    rows: tuple[_Side, ...] = ()
    for _ in range(_LOOKS):
        rows = tuple(_Side(_port(local), _port(remote), inode) for local, remote, _state, inode in _lines())
        sockets = _sockets(rows, client_port, server_port)
        if sockets:
            processes = descendants([root, *beside()], table())
            return any(_has_open(sockets, process, hidden=True) for process in processes)
    return bool(_sockets(rows, server_port, 0))


class AcceptedConnection(NamedTuple):
    """An accepted connection: both addresses, and the unique inode of the server's socket."""

    client: tuple[str, int]
    server: tuple[str, int]
    inode: int


def caller(accepted: AcceptedConnection, roots: Collection[ProcessId], pid: int) -> ProcessId | None:
    """Return the element of ``roots`` whose process tree owns the client's end of the connection.

    None if another process below ``pid`` owns it too, if several or no trees own it, or if it was
    closed. Reads all of /proc.
    """
    other_end = next((found for found in (_other_end(accepted) for _ in range(_LOOKS)) if found is not None), None)
    top = identify(pid)
    if other_end is None or top is None:
        return None
    holders = [
        process for process in descendants([*roots, top], table()) if _has_open({other_end}, process, hidden=False)
    ]
    found = {root_of(holder, roots) for holder in holders}
    # Ports and inodes are reused: the data is valid only if the connection has existed throughout.
    if len(found) != 1 or _other_end(accepted) != other_end:
        return None
    return found.pop()


def _other_end(accepted: AcceptedConnection) -> str | None:
    # An existing connection is the only one between its two addresses.
    ours, theirs = _spellings(*accepted.server), _spellings(*accepted.client)
    found: set[str] = set()
    stands = False
    for local, remote, state, inode in _lines():
        if local in theirs and remote in ours and inode != _NOBODYS:
            found.add(f"socket:[{inode}]")
        elif local in ours and remote in theirs:
            stands = stands or (state, inode) == (_ESTABLISHED, str(accepted.inode))
    return found.pop() if stands and len(found) == 1 else None


def _spellings(host: str, port: int) -> frozenset[str]:
    """Return how the tables write an address: 32-bit words in native byte order; IPv4 also inside IPv6."""
    if ":" in host:
        packed = [socket.inet_pton(socket.AF_INET6, host)]
    else:
        four = socket.inet_pton(socket.AF_INET, host)
        packed = [four, bytes(10) + b"\xff\xff" + four]
    step = -1 if sys.byteorder == "little" else 1
    words = ("".join(one[at : at + 4][::step].hex() for at in range(0, len(one), 4)) for one in packed)
    return frozenset(f"{word.upper()}:{port:04X}" for word in words)


class _Side(NamedTuple):
    """One end of a connection, or a listener, whose remote port is 0."""

    local: int
    remote: int
    inode: str


def _sockets(rows: Iterable[_Side], local: int, remote: int) -> set[str]:
    sides = (row for row in rows if (row.local, row.remote) == (local, remote))
    return {f"socket:[{row.inode}]" for row in sides if row.inode != _NOBODYS}


def _lines() -> Iterator[tuple[str, str, str, str]]:
    for name in _TABLES:
        with suppress(OSError), open(name, encoding="ascii") as file:
            next(file, None)  # the header
            for row in map(str.split, file):
                yield row[_LOCAL], row[_REMOTE], row[_STATE], row[_INODE]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _has_open(sockets: set[str], process: ProcessId, *, hidden: bool) -> bool:
    """Return whether ``process`` has one of ``sockets`` open; ``hidden`` if its descriptors are not readable."""
    folder = f"/proc/{process.pid}/fd"
    try:
        names = os.listdir(folder)
    except PermissionError:  # another user's, or not dumpable
        return hidden
    except OSError:
        return False
    for name in names:
        with suppress(OSError):
            if os.readlink(f"{folder}/{name}") in sockets:
                return True
    return False
