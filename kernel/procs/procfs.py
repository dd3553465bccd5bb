"""The table of processes in /proc: finds, names and kills our own, and tells which process has a connection.

Empty where there is no /proc. A process is named by pid and start time, so a pid that was given to a stranger is never
signalled (fault PF11).

``end`` kills the tree of a keeper that was killed itself: by descent while that can be seen, then by cookie. The zygote
does the same from below, and sees more (it adopts every orphan); this is for the case that it is gone too.

The system's table of connections says which socket has a port, and what a process has open which process has that
socket. Two questions are answered, and in doubt each is answered with no. May this come from none of our processes?
Then one that hides what it has open may have it too, and whoever has let go of a connection after asking is taken for
one of ours. Is this the process tree of that attempt? Then all who have it must be of that tree, and the connection
must stand from the first look to the last.
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
    """One process of this boot, for ever. ``start_time`` is in clock ticks since boot."""

    pid: int
    start_time: int


class ProcessRow(NamedTuple):
    """One row of the table."""

    id: ProcessId
    parent: int


@functools.cache
def boot_id() -> str:
    """Changes with every boot of the machine; a constant where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def identify(pid: int) -> ProcessId | None:
    """Name the process that has ``pid`` now; None if there is none (or it is dead and only waits to be reaped)."""
    row = _row(pid)
    return row.id if row is not None else None


def table() -> dict[int, ProcessRow]:
    """Every living process by pid."""
    with suppress(OSError):
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return {pid: row for pid in pids if (row := _row(pid)) is not None}
    return {}


def descendants(roots: Iterable[ProcessId], rows: dict[int, ProcessRow]) -> set[ProcessId]:
    """Those of ``roots`` that live, and all below them."""
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
    """The one of ``roots`` that ``process`` is, or is below of: looked up now, step by step.

    None, too, where it is gone, or a step leads to a process that is younger: that one only has the pid of a parent.
    """
    row = _row(process.pid)
    if row is None or row.id != process:
        return None
    while row.id not in roots:
        above = _row(row.parent)
        if above is None or above.id.start_time > row.id.start_time:
            return None
        row = above
    return row.id


def by_cookie(cookies: Collection[str], rows: dict[int, ProcessRow]) -> set[ProcessId]:
    """Processes that were executed with one of ``cookies`` in their environment."""
    marks = [f"{COOKIE_VARIABLE}={cookie}".encode() for cookie in cookies]
    return {row.id for row in rows.values() if marks and _environment(row.id.pid).intersection(marks)}


def kill(target: ProcessId, number: int = signal.SIGKILL) -> None:
    """Signal exactly this process, to its end if not told otherwise; one that is gone, or not ours, is left."""
    with suppress(OSError), closing_descriptor(os.pidfd_open(target.pid)) as handle:
        if identify(target.pid) == target:
            signal.pidfd_send_signal(handle, number)


def _row(pid: int) -> ProcessRow | None:
    try:
        state, parent, *fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
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
"""A killed process is gone within milliseconds, unless the system holds it in an uninterruptible wait."""


async def end(
    roots: Iterable[ProcessId], cookies: Collection[str], patience_seconds: float = PATIENCE_SECONDS
) -> frozenset[ProcessId]:
    """SIGKILL ``roots``, all below them and all that carries ``cookies``, until none is found.

    Returns:
        Those that would not die within ``patience_seconds``; empty is the proof that they are gone.
    """
    known = set(roots)
    deadline = trio.current_time() + patience_seconds
    while known or cookies:
        alive = await trio.to_thread.run_sync(_round, known, cookies)
        if not alive or trio.current_time() >= deadline:
            return frozenset(alive)
        known |= alive
        await trio.sleep(ROUND_SECONDS)
    return frozenset()


def _round(known: set[ProcessId], cookies: Collection[str]) -> set[ProcessId]:
    """Kill all that can be found now. What was found before stays known: its own parent may be dead by now."""
    rows = table()
    found = descendants(known | by_cookie(cookies, rows), rows)
    for target in found:
        kill(target)
    return found


async def reap(pids: Iterable[int]) -> None:
    """Wait for each of ``pids`` that is a child of ours, and reap it. One that is not, or no more, is left alone."""
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
    rows: tuple[_Side, ...] = ()
    for _ in range(_LOOKS):
        rows = tuple(_Side(_port(local), _port(remote), inode) for local, remote, _state, inode in _lines())
        sockets = _sockets(rows, client_port, server_port)
        if sockets:
            processes = descendants([root, *beside()], table())
            return any(_has_open(sockets, process, hidden=True) for process in processes)
    return bool(_sockets(rows, server_port, 0))


class AcceptedConnection(NamedTuple):
    """A connection that was accepted: both addresses, and the inode of our side, which no other socket has."""

    client: tuple[str, int]
    server: tuple[str, int]
    inode: int


def caller(accepted: AcceptedConnection, roots: Collection[ProcessId], pid: int) -> ProcessId | None:
    """The one of ``roots`` whose tree has the other end of it, and no process below ``pid`` that is not of that tree.

    None: nobody, somebody else or several have it, or it was let go of meanwhile. Reads all of /proc.
    """
    other_end = next((found for found in (_other_end(accepted) for _ in range(_LOOKS)) if found is not None), None)
    top = identify(pid)
    if other_end is None or top is None:
        return None
    holders = [
        process for process in descendants([*roots, top], table()) if _has_open({other_end}, process, hidden=False)
    ]
    found = {root_of(holder, roots) for holder in holders}
    # Ports and inodes are given away again: what was read is of this connection only if it has stood all the while.
    if len(found) != 1 or _other_end(accepted) != other_end:
        return None
    return found.pop()


def _other_end(accepted: AcceptedConnection) -> str | None:
    """The client's socket, as it is called among what a process has open; None where ``accepted`` stands no more.

    A connection that stands is the only one between its two addresses.
    """
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
    """An address as the tables have it: in words of 32 bits in the order of the machine; IPv4 also inside IPv6."""
    if ":" in host:
        packed = [socket.inet_pton(socket.AF_INET6, host)]
    else:
        four = socket.inet_pton(socket.AF_INET, host)
        packed = [four, bytes(10) + b"\xff\xff" + four]
    step = -1 if sys.byteorder == "little" else 1
    words = ("".join(one[at : at + 4][::step].hex() for at in range(0, len(one), 4)) for one in packed)
    return frozenset(f"{word.upper()}:{port:04X}" for word in words)


class _Side(NamedTuple):
    """One side of a connection, or who listens (from port 0)."""

    local: int
    remote: int
    inode: str


def _sockets(rows: Iterable[_Side], local: int, remote: int) -> set[str]:
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


def _has_open(sockets: set[str], process: ProcessId, *, hidden: bool) -> bool:
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
