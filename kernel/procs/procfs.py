"""The table of processes in /proc: finds, names and kills our own. Empty where there is no /proc.

A process is named by pid and start time, so a pid that was given to a stranger is never signalled (fault PF11).

``end`` kills the tree of a keeper that was killed itself: by descent while that can be seen, then by cookie. The zygote
does the same from below, and sees more (it adopts every orphan); this is for the case that it is gone too.
"""

import functools
import os
import signal
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from protocol.ipc import COOKIE_VARIABLE

_LINE_BYTES: Final = 4096
_ZOMBIE: Final = b"Z"


class ProcessId(NamedTuple):
    """One process of this boot, for ever. ``start_time`` is in clock ticks since boot."""

    pid: int
    start_time: int


class Process(NamedTuple):
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


def table() -> dict[int, Process]:
    """Every living process by pid."""
    with suppress(OSError):
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        return {pid: row for pid in pids if (row := _row(pid)) is not None}
    return {}


def descendants(roots: Iterable[ProcessId], rows: dict[int, Process]) -> set[ProcessId]:
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


def by_cookie(cookies: Collection[str], rows: dict[int, Process]) -> set[ProcessId]:
    """Processes that were executed with one of ``cookies`` in their environment."""
    marks = [f"{COOKIE_VARIABLE}={cookie}".encode() for cookie in cookies]
    return {row.id for row in rows.values() if marks and _environment(row.id.pid).intersection(marks)}


def kill(target: ProcessId, number: int = signal.SIGKILL) -> None:
    """Signal exactly this process, to its end if not told otherwise; one that is gone, or not ours, is left."""
    with suppress(OSError):
        handle = os.pidfd_open(target.pid)
        try:
            if identify(target.pid) == target:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _row(pid: int) -> Process | None:
    try:
        state, parent, *fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    if state == _ZOMBIE:
        return None
    return Process(ProcessId(pid, int(fields[17])), int(parent))


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LINE_BYTES)
    finally:
        os.close(fd)


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
