"""Replacement of the program in this process by another version, with the same pid and descriptors;
and the return to the old program if the new one fails.

The state is handed over in a memory file: one line of JSON, which this module reads, and a table for kernel.adoption.
Before the exec, a *guardian* is forked, which holds duplicates of all descriptors. If the new program exits or sends
nothing for PATIENCE_SECONDS, the guardian kills it and continues as the kernel: it still has the old program in memory,
even if its files on disk have changed. The new program dismisses the guardian once its start can no longer fail."""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import sys
import warnings
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kernel.boot.arguments import Boot, KernelArguments
from kernel.boot.service_end import KeptBy
from kernel.boot.state_dir import Locked
from kernel.fault_injection import fault_point
from kernel.procs.process_limits import restore_limit

FORMAT: Final = 1
"""Version of the JSON line; the table has a version of its own."""
PATIENCE_SECONDS: Final = 60.0
PATIENCE: Final = "AGENT_WORKER_UPGRADE_SECONDS"
"""Environment variable that replaces PATIENCE_SECONDS in tests."""
BLOCKED: Final = frozenset({signal.SIGTERM, signal.SIGINT})
"""Signals that stay pending while the program is replaced."""
_READY: Final = b"ready\n"
_LINE_BYTES: Final = 4096


class ProcessHoldings(NamedTuple):
    """Resources that the process keeps when its program is replaced. Only ``pid`` and
    ``guardian`` differ afterwards."""

    pid: int
    """Pid of the process that wrote this record."""
    version: str
    """Version of the program that hands over."""
    listening: int
    locks: tuple[int, int | None]
    token: str
    started_at: str
    clock_offset_ns: int
    service: str | None
    descriptors: tuple[int, ...]
    """All descriptors that stay open, including the descriptors in the fields above."""
    guardian: tuple[int, int] | None = None
    """Pid of the guardian, and the descriptor of the pipe to it."""
    program: tuple[str, ...] = ()
    """Command line of the program that hands over, if its files are unchanged on disk."""
    record_token: str = ""
    """Limited token of the discovery record. Empty if the old version's record contained the administrator's token."""


class Returned(NamedTuple):
    """The new program did not take over; the old one continues."""

    why: str


def patience() -> float:
    """Return the time in seconds within which a new version has to respond."""
    return float(os.environ.get(PATIENCE, PATIENCE_SECONDS))


def pack(held: ProcessHoldings, table: bytes) -> int:
    """Write the handover into a memory file. Return its descriptor, which outlives an exec."""
    fd = os.memfd_create("agent-worker-handover", 0)
    _write(fd, held, table)
    return fd


def _write(fd: int, held: ProcessHoldings, table: bytes) -> None:
    data = json.dumps({"format": FORMAT, **held._asdict()}).encode() + b"\n" + table
    os.ftruncate(fd, 0)
    at, view = 0, memoryview(data)
    while at < len(data):
        at += os.pwrite(fd, view[at:], at)


def unpack(fd: int) -> tuple[ProcessHoldings, bytes]:
    """Read the handover. Raises ValueError for another format."""
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    line, _, table = data.partition(b"\n")
    found: dict[str, Any] = json.loads(line)
    if found.pop("format", None) != FORMAT:
        raise ValueError("handover has an unknown format: the two versions are too different")
    held = ProcessHoldings(**{name: value for name, value in found.items() if name in ProcessHoldings._fields})
    guardian = None if held.guardian is None else (held.guardian[0], held.guardian[1])
    locks = held.locks[0], held.locks[1]
    return held._replace(
        guardian=guardian, locks=locks, descriptors=tuple(held.descriptors), program=tuple(held.program)
    ), table


def boot_from(held: ProcessHoldings, arguments: KernelArguments, version: str, early_signals: list[int]) -> Boot:
    """Return the facts of a start by handover: all but the version come from the earlier program."""
    for fd in held.descriptors:
        os.set_inheritable(fd, False)
    return Boot(
        arguments=arguments,
        listener=socket.socket(fileno=held.listening),
        lock=Locked(*held.locks),
        # A token that an earlier version published in its record becomes the limited token.
        token=held.token if held.record_token else secrets.token_urlsafe(32),
        record_token=held.record_token or held.token,
        version=version,
        started_at=held.started_at,
        kept_by=None if held.service is None else KeptBy(held.service),
        clock_offset_ns=held.clock_offset_ns,
        early_signals=early_signals,
    )


def _hold_signals(kept: Iterable[int]) -> None:
    """Block stop signals, and raise the signals in ``kept``: all stay pending until
    ``keep_signals``, here or after an exec."""
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    for number in BLOCKED:  # another thread may receive a signal: raise it here, as an exec keeps only this thread's
        signal.signal(number, lambda caught, _frame: signal.raise_signal(caught))
    for one in kept:
        signal.raise_signal(one)


def keep_signals() -> list[int]:
    """Return a list to which each stop signal is appended until the kernel installs its own handlers."""
    kept: list[int] = []
    for number in BLOCKED:
        signal.signal(number, lambda caught, _frame: kept.append(caught))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
    return kept


def tell_main_pid() -> None:
    """Notify the service manager of the kernel's new main pid, if its unit accepts messages of all processes."""
    pid, environ = str(os.getpid()), os.environ
    if "WATCHDOG_PID" in environ:
        environ["WATCHDOG_PID"] = pid
    address = environ.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(f"MAINPID={pid}".encode(), f"\0{address[1:]}" if address[0] == "@" else address)


def replace(
    held: ProcessHoldings, table: bytes, command: tuple[str, ...], signals: Iterable[int] = ()
) -> tuple[ProcessHoldings, bytes, Returned]:
    """Execute ``command`` in this process, with ``--handover`` and the descriptor added; it receives ``signals``.

    Returns only in the guardian, if it has to continue as the kernel, or if the command cannot be executed.
    """
    _hold_signals(signals)
    sys.stdout.flush()
    sys.stderr.flush()
    us = os.pidfd_open(os.getpid())
    listens, speaks = os.pipe()
    os.set_blocking(listens, False)
    fd = pack(held, table)
    fault_point("upgrade.packed")
    pending = signal.sigpending()  # a fork does not inherit pending signals
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # all other threads are idle
        guardian = os.fork()
    if not guardian:
        os.close(speaks)
        os.close(fd)
        why = _guard(us, listens)
        _hold_signals(pending)
        return held._replace(pid=os.getpid(), guardian=None), table, Returned(why)
    os.close(us)
    os.close(listens)
    _write(fd, held._replace(guardian=(guardian, speaks)), table)
    for one in (*held.descriptors, speaks):
        os.set_inheritable(one, True)
    fault_point("upgrade.exec")
    why = _execute((*command, "--handover", str(fd)))
    os.close(fd)
    dismiss(held._replace(guardian=(guardian, speaks)))
    return held, table, Returned(why)


def _execute(command: tuple[str, ...]) -> str:
    with contextlib.suppress(OSError, ValueError):
        restore_limit()
    try:
        os.execv(command[0], command)
    except OSError as error:
        return f"{command[0]} cannot be executed: {error.strerror}"


def _guard(kernel: int, listens: int) -> str:
    """Wait until the new program in the process of the pidfd ``kernel`` is ready, and exit. If it
    fails, kill it and return the reason; the caller continues as the kernel.
    """
    seconds = patience()
    poll = select.poll()
    for fd in (kernel, listens):
        poll.register(fd, select.POLLIN)
    heard = b""
    why = f"the new version did not respond for {seconds:g} s"
    while events := poll.poll(seconds * 1000):
        if any(fd == listens for fd, _ in events):
            piece = os.read(listens, _LINE_BYTES)
            heard += piece
            if heard.endswith(_READY):
                fault_point("upgrade.dismissed")
                os._exit(0)
            if not piece:
                poll.unregister(listens)
        if any(fd == kernel for fd, _ in events):
            said = heard.decode("utf-8", "replace").strip()
            why = said or "the new version ended before it was ready"
            break
    fault_point("upgrade.guard")
    tell_main_pid()  # before the main process ends
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(kernel, signal.SIGKILL)
    gone = select.poll()
    gone.register(kernel, select.POLLIN)
    gone.poll()
    os.close(kernel)
    os.close(listens)
    return why


def dismiss(held: ProcessHoldings) -> None:
    """End the guardian and wait for its exit, so that no other process holds the resources of this one."""
    if held.guardian is None:
        return
    pid, speaks = held.guardian
    with contextlib.suppress(OSError):  # the guardian was killed
        os.write(speaks, _READY)
    os.close(speaks)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def give_up(held: ProcessHoldings, fd: int, why: str, signals: Iterable[int] = ()) -> int:
    """Return control to the old program: execute it if its files are unchanged, else let the guardian continue.

    Return the exit code of this process, whose exit wakes the guardian; only an executed program gets ``signals``.
    """
    text = " ".join(why.split())[: _LINE_BYTES // 2]
    if held.guardian is not None and not held.program:
        with contextlib.suppress(OSError):
            os.write(held.guardian[1], f"{text}\n".encode())
        return os.EX_SOFTWARE
    if held.program:
        for one in (*held.descriptors, fd, *(held.guardian or ())[1:]):
            os.set_inheritable(one, True)
        _hold_signals(signals)
        text = _execute((*held.program, "--handover", str(fd), "--returned", text))
    sys.stderr.write(f"error: {text}\n")
    return os.EX_SOFTWARE
