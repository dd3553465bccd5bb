"""The main function of a worker: sends ``ready``, reads the start frame, and runs the attempt that it describes.

All input and output is frames: nothing is printed, and standard error contains only tracebacks of bugs. Before the
start frame no event loop is needed, and a script never needs one.
"""

import gc
import os
import sys
from collections.abc import Callable, MutableMapping
from collections.abc import Set as AbstractSet
from functools import partial
from importlib import import_module
from typing import Final

from protocol.agent import MockExit
from protocol.backends import CLIS
from protocol.discovery import VERSION
from protocol.ipc import COOKIE_VARIABLE, Error, Ready, Result, Start
from protocol.ndjson import encode
from worker.attempt import Connect, attempt, attempt_with_tools
from worker.io.poll import PollIO
from worker.kernel_link import ControlChannel, KernelLink, LinkLost, StopRequested, run_blocking
from worker.models.mock import SHELL, Confine, MockModel, Shell, is_script, kill_self
from worker.models.model import Failed, ListTools, Model
from worker.process_tree import set_title
from worker.tool import BuiltinTool

EXIT_DONE: Final = 0
"""The terminal frame was sent."""
EXIT_LOST: Final = 1
"""The kernel closed the pipe before the terminal frame was sent."""
_IDLE_THREAD: Final = "Trio thread "
"""Prefix of the names of Trio's idle threads. A busy thread is named after its function."""

Die = Callable[[MockExit], None]
Told = Result | Error | None
"""The terminal frame; None if the kernel did not receive it."""
Leave = Callable[[Told], None]
"""Ends the worker process after its terminal frame."""


def main(stdin_fd: int, stdout_fd: int, cookie: str | None) -> int:
    """Run a worker on these two descriptors, which it owns, until its last attempt ends. Does not return.

    A reusable worker (``Start.reuse``) accepts more attempts of its agent, unless an attempt left something
    behind. Commands of tools inherit the environment of the start frame, and nothing of this process.
    """
    while True:
        told = serve(
            stdin_fd,
            stdout_fd,
            os.environ,  # noqa: TID251  (the entry point)
            cookie=cookie,
            # A regular shutdown of event loop or interpreter costs a tenth of a worker's CPU time, and standard error
            # is unbuffered.
            leave=_exit,
            # A standby worker did not know its attempt when it was forked.
            started=lambda start: set_title("worker", start.attempt),
        )
        if not (isinstance(told, Result) and told.status == "done") or anything_left({stdin_fd, stdout_fd}):
            _exit(told)


def _exit(told: Told) -> None:
    os._exit(EXIT_LOST if told is None else EXIT_DONE)


def anything_left(own: AbstractSet[int]) -> bool:
    """Return whether an attempt left a busy thread, or a descriptor that is neither 0-2 nor in ``own``.

    Processes are not checked: the kernel asks the keeper, because some are not children of this one.
    """
    gc.collect()  # closes descriptors of unreferenced objects, also in cycles
    threading = sys.modules.get("threading")
    if threading is not None:
        others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        if not all(name.startswith(_IDLE_THREAD) for name in others):
            return True
    try:
        found = {int(name) for name in os.listdir("/dev/fd")}
    except OSError:  # unknown
        return True
    return any(_is_open(fd) for fd in found - own - {0, 1, 2})


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def serve(
    stdin_fd: int,
    stdout_fd: int,
    environ: MutableMapping[str, str],
    *,
    cookie: str | None = None,
    die: Die = kill_self,
    connect: Connect | None = None,
    started: Callable[[Start], None] = lambda _start: None,
    leave: Leave = lambda _told: None,
) -> Told:
    """Run one attempt over the link on these descriptors, close them, and call ``leave`` with the terminal frame.

    With ``reuse``, the descriptors stay open, and the terminal frame is only returned. Processes of tools get the
    start frame's variables and ``cookie``, which identifies them to a keeper. Model clients read the environment
    directly, so ``environ`` is replaced for them; scripts skip this, which saves a hundred copied pages. ``connect``
    overrides the model (for the warm-up).
    """
    hearing = ControlChannel()
    desk = PollIO(hearing, stdin_fd, stdout_fd)
    # None if the kernel no longer needs this worker.
    start: Start | None
    try:
        run_blocking(desk.send(encode(Ready(pid=os.getpid(), version=VERSION))))
        start = desk.start()
    except (LinkLost, StopRequested):
        start = None
    stays: list[Told] = []
    if start is not None:
        started(start)
        if start.reuse:
            leave = stays.append
    if start is None or (connect is None and is_script(start) and not _has_tools(start)):
        _play(start, desk, cookie, die, leave)
        if not stays:
            os.close(stdin_fd)
            os.close(stdout_fd)
        return stays[0] if stays else None
    environ.clear()
    environ.update(_env(start, cookie))
    from worker.io import trio_io  # noqa: PLC0415  (a worker that plays a script needs no event loop)

    work: trio_io.Attempt
    connect = connect or partial(_adapter, die=die)
    if start.backend in CLIS:
        work = partial(import_module("worker.backends.attempt").attempt, start, env=_env(start, cookie))
    elif _has_tools(start):
        work = partial(attempt_with_tools, start, connect=connect, env=_env(start, cookie))
    else:
        work = partial(attempt, start, connect=connect, own={})
    if not start.reuse:
        trio_io.run(hearing, stdin_fd, stdout_fd, work, leave)
        return None
    trio_io.run(hearing, os.dup(stdin_fd), os.dup(stdout_fd), work, leave)  # it closes its copies
    environ.clear()
    return stays[0]


def _env(start: Start, cookie: str | None) -> dict[str, str]:
    return start.env if cookie is None else {**start.env, COOKIE_VARIABLE: cookie}


def _has_tools(start: Start) -> bool:
    return bool(start.tools or start.mcp_servers or start.skills)


def _play(start: Start | None, desk: PollIO, cookie: str | None, die: Die, leave: Leave) -> None:
    hearing = desk.hearing
    link = KernelLink(desk, hearing)
    ended: Result | Error | None = None
    if start is not None:
        confine: Confine
        if start.sandbox is None:
            confine = tuple
        else:
            from worker.sandbox import wrap  # noqa: PLC0415  (few scripts are confined)

            confine = partial(wrap, start=start)
        shell = Shell(
            desk=desk, cwd=start.cwd, env=_env(start, cookie), idempotency_key=start.idempotency_key, confine=confine
        )
        model = MockModel(start.mock, start.mock_counts, desk, die)
        own = {SHELL: BuiltinTool(hand=shell)}
        ended = run_blocking(attempt(start, link, desk, lambda _start, _tools: model, own))
    if hearing.stop is not None and ended is None:
        ended = Error(cause="cancelled", text=f"stopped: {hearing.stop.reason}")
    if ended is not None:
        run_blocking(link.finish(ended))
    leave(None if link.lost else ended)


def _adapter(start: Start, list_tools: ListTools, *, die: Die) -> Model:
    if is_script(start):
        from worker.io.trio_io import TrioIO  # noqa: PLC0415  (loaded by now)

        return MockModel(start.mock, start.mock_counts, TrioIO(), die)
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent file")
    try:
        connect: Connect = import_module(f"worker.models.{start.provider.dialect}").connect
    except ModuleNotFoundError as absent:
        raise Failed("spawn_permanent", str(absent)) from absent
    return connect(start, list_tools)
