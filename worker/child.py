"""Starting what a keeper keeps: a worker in a forked copy of this interpreter, or a command.

The child gets its own session (so ``kill 0`` in a tool reaches nothing of ours), descriptors 0-2 and no others, no
blocked or ignored signal it did not ask for. Whether the command could be executed is known before ``start`` returns.
"""

import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from protocol.ipc import COOKIE_VARIABLE, Fork
from worker import signals

Stdio = tuple[int, int, int]
Work = Callable[[Fork], int]
"""Be the worker that the order asks for, and return its exit code."""

_REPORT: Final = 3
_REPORT_BYTES: Final = 4096
_UMASK: Final = 0o077


class NotStarted(Exception):
    """The child could not be started. The text begins with the errno's name, as ``Exited.failed`` does."""


def start(order: Fork, stdio: Stdio, work: Work) -> int:
    """Fork the child that ``order`` describes and return its pid. Raises NotStarted, and then there is no child."""
    if order.argv is None and order.cwd is None:
        return _fork_worker(order, stdio, work)
    read, write = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(read)
        os.close(write)
        raise NotStarted(f"{errno_name(error)}: fork") from error
    if not pid:
        _become(order, stdio, write, work)
    os.close(write)
    problem = os.read(read, _REPORT_BYTES)
    os.close(read)
    if problem:
        os.waitpid(pid, 0)
        raise NotStarted(problem.decode("utf-8", "replace"))
    return pid


def _fork_worker(order: Fork, stdio: Stdio, work: Work) -> int:
    """Nothing can go wrong between this fork and the worker, so nobody waits for a report."""
    try:
        pid = os.fork()
    except OSError as error:
        raise NotStarted(f"{errno_name(error)}: fork") from error
    if not pid:
        _become(order, stdio, None, work)
    return pid


def _become(order: Fork, stdio: Stdio, report: int | None, work: Work) -> None:
    """Turn this process into the child. Never returns."""
    code = 127
    try:
        os.setsid()
        _take_descriptors(stdio, report)
        signals.restore(python=order.argv is None)
        os.umask(_UMASK)
        if _enter(order.cwd):
            code = _be_worker(order, report, work) if order.argv is None else _execute(order, order.argv)
    except BaseException:  # noqa: BLE001  (a crash of the worker: nothing above this frame may run in the child)
        traceback.print_exc()
        code = 1
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _take_descriptors(stdio: Stdio, report: int | None) -> None:
    for target, fd in enumerate(stdio):
        if fd != target:
            os.dup2(fd, target)
    if report is not None and report != _REPORT:
        os.dup2(report, _REPORT, inheritable=False)
    os.closerange(_REPORT if report is None else _REPORT + 1, os.sysconf("SC_OPEN_MAX"))


def _enter(cwd: str | None) -> bool:
    try:
        if cwd is not None:
            os.chdir(cwd)
    except OSError as error:
        _report(f"{errno_name(error)}: {cwd} (working directory)")
        return False
    return True


def _be_worker(order: Fork, report: int | None, work: Work) -> int:
    if report is not None:
        os.close(_REPORT)
    gc.enable()  # a zygote has it off
    return work(order)


def _execute(order: Fork, argv: tuple[str, ...]) -> int:
    env = (order.env or {}) | {COOKIE_VARIABLE: order.cookie}
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        _report(f"{errno_name(error)}: {argv[0]}")
    except (ValueError, IndexError) as error:
        _report(f"EINVAL: {error}")
    return 127


def _report(text: str) -> None:
    """One write, so that one read takes it all; its end of file is the sign that nothing went wrong."""
    os.write(_REPORT, text.encode("utf-8", "surrogateescape")[:_REPORT_BYTES])


def errno_name(error: OSError) -> str:
    """``ENOENT`` for 2, and so on."""
    return errno.errorcode.get(error.errno or 0, "EIO")
