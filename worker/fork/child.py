"""Starting what a keeper keeps: a worker in a forked copy of this interpreter, or a command.

The child leads its own process group (so ``kill 0`` reaches nothing of ours), a command its own session: for a worker,
which gives one to all that it starts, the system would make a scheduling group each time (4 % of an attempt). It has
descriptors 0-2 and no others but a worker's frames, and no blocked or ignored signal it did not ask for. Whether the
command could be executed is known before ``start`` returns.
"""

import errno
import fcntl
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from gc import enable as enable_collector

# By name: in a fresh fork an attribute of a module copies two pages.
from os import closerange, dup2, setpgid, setsid, umask
from typing import Final

from protocol.ipc import COOKIE_VARIABLE, Fork
from worker.process_setup import restore

Stdio = tuple[int, int, int]
Work = Callable[[Fork, int, int], int]
"""Be the worker that the order asks for, with these descriptors for its frames, and return its exit code."""

_STDERR: Final = 2
_REPORT: Final = 3
_REPORT_BYTES: Final = 4096
_UMASK: Final = 0o077
_DESCRIPTOR_LIMIT: Final = os.sysconf("SC_OPEN_MAX")
"""Asked for once: nobody below changes it."""


class NotStarted(Exception):
    """The child could not be started. The text begins with the errno's name, as ``Exited.failed`` does."""


def start(order: Fork, stdio: Stdio, null: int, work: Work) -> int:
    """Fork the child that ``order`` describes and return its pid. Raises NotStarted, and then there is no child.

    ``null`` is /dev/null, which a worker gets in place of its stdin and stdout.
    """
    if order.argv is None and order.cwd is None:
        # Nothing can go wrong between this fork and the worker, so nobody waits for a report.
        try:
            pid = os.fork()
        except OSError as error:
            raise NotStarted(f"{errno_name(error)}: fork") from error
        if not pid:
            _become(order, stdio, null, None, work)
        return pid
    read, write = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(read)
        os.close(write)
        raise NotStarted(f"{errno_name(error)}: fork") from error
    if not pid:
        _become(order, stdio, null, write, work)
    os.close(write)
    problem = os.read(read, _REPORT_BYTES)
    os.close(read)
    if problem:
        os.waitpid(pid, 0)
        raise NotStarted(problem.decode("utf-8", "replace"))
    return pid


def _become(order: Fork, stdio: Stdio, null: int, report: int | None, work: Work) -> None:
    """Turn this process into the child. Never returns."""
    code = 127
    try:
        if order.argv is None:
            setpgid(0, 0)
        else:
            setsid()
        restore(python=order.argv is None)
        umask(_UMASK)
        if order.argv is not None:
            for target, fd in enumerate(stdio):
                if fd != target:
                    dup2(fd, target)
            if report is not None and report != _REPORT:
                dup2(report, _REPORT, inheritable=False)
            closerange(_REPORT + 1, _DESCRIPTOR_LIMIT)
            code = _execute(order, order.argv) if order.cwd is None or _enter(order.cwd, _REPORT) else 127
        elif order.cwd is None or report is None or _enter(order.cwd, report):
            enable_collector()  # a zygote has it off
            code = work(order, *take_frames(stdio, null))
    except BaseException:  # noqa: BLE001  (a crash of the worker: nothing above this frame may run in the child)
        traceback.print_exc()
        code = 1
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def take_frames(stdio: Stdio, null: int) -> tuple[int, int]:
    """The kernel's two pipes, above the standard three and inherited by nobody, and nothing else that we have.

    0 and 1 become /dev/null: what a tool prints is never a frame, and what a program below reads is never ours.
    """
    stdin, stdout, stderr = stdio
    receive, send = _private(stdin), _private(stdout)
    dup2(null, 0)
    dup2(null, 1)
    if stderr != _STDERR:
        dup2(stderr, _STDERR)
    low, high = min(receive, send), max(receive, send)
    closerange(_STDERR + 1, low)
    closerange(low + 1, high)
    closerange(high + 1, _DESCRIPTOR_LIMIT)
    return receive, send


def _private(fd: int) -> int:
    return fd if fd > _STDERR else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)


def _enter(cwd: str, report: int) -> bool:
    try:
        os.chdir(cwd)
    except OSError as error:
        _tell(report, f"{errno_name(error)}: {cwd} (working directory)")
        return False
    return True


def _execute(order: Fork, argv: tuple[str, ...]) -> int:
    env = (order.env or {}) | {COOKIE_VARIABLE: order.cookie}
    if order.sandbox is not None:
        from worker.sandbox import enclose  # noqa: PLC0415  (few commands are confined)

        argv = enclose(argv, order.sandbox, env=env, cwd=order.cwd or "/")
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        _tell(_REPORT, f"{errno_name(error)}: {argv[0]}")
    except (ValueError, IndexError) as error:
        _tell(_REPORT, f"EINVAL: {error}")
    return 127


def _tell(report: int, text: str) -> None:
    """One write, so that one read takes it all; its end of file is the sign that nothing went wrong."""
    os.write(report, text.encode("utf-8", "surrogateescape")[:_REPORT_BYTES])


def errno_name(error: OSError) -> str:
    """``ENOENT`` for 2, and so on."""
    return errno.errorcode.get(error.errno or 0, "EIO")
