"""The main function of a worker: sends ``ready``, reads the start frame, and runs the attempt that it describes.

All input and output is frames: nothing is printed, and standard error holds nothing but tracebacks of our own bugs.
Until it is started it needs no event loop, and a script needs none at all.
"""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from importlib import import_module
from typing import Final

from protocol.agent import MockExit
from protocol.backends import CLIS
from protocol.ipc import COOKIE_VARIABLE, Error, Ready, Result, Start
from protocol.ndjson import encode
from protocol.version import VERSION
from worker.attempt import Connect, attempt
from worker.io.base import WorkerIO, run_blocking
from worker.io.poll import PollIO
from worker.kernel_link import ControlChannel, Link, LinkLost, Stopped
from worker.models.errors import Failed
from worker.models.mock import SHELL, MockModel, is_script, kill_self
from worker.models.model import ListTools, Model
from worker.process_setup import set_title
from worker.shell import Confine, Shell
from worker.tool import BuiltinTool

EXIT_DONE: Final = 0
"""The terminal frame was sent."""
EXIT_LOST: Final = 1
"""The kernel hung up before."""

Die = Callable[[MockExit], None]
Leave = Callable[[bool], None]
"""Told whether the kernel was lost, when all has been said."""


def main(stdin_fd: int, stdout_fd: int, cookie: str | None) -> int:
    """Be a worker on these two descriptors (they become ours) until the work ends. Does not return.

    Commands that tools run inherit what the start frame gives, and nothing of this process's environment.
    """
    serve(
        stdin_fd,
        stdout_fd,
        os.environ,  # noqa: TID251  (the entry point)
        cookie=cookie,
        # To take an event loop or an interpreter down in order costs a worker a tenth of its CPU, and nothing is left
        # in standard error, which keeps no line back.
        leave=lambda lost: os._exit(EXIT_LOST if lost else EXIT_DONE),
        # A standby worker did not know its attempt when it was forked.
        started=lambda start: set_title("worker", start.attempt),
    )
    raise AssertionError("a worker ends without returning")


def serve(
    stdin_fd: int,
    stdout_fd: int,
    environ: MutableMapping[str, str],
    *,
    cookie: str | None = None,
    die: Die = kill_self,
    connect: Connect | None = None,
    started: Callable[[Start], None] = lambda _start: None,
    leave: Leave = lambda _lost: None,
) -> None:
    """Run one attempt over the link on these descriptors, which are closed then.

    Processes that tools start have the start frame's variables and ``cookie``, by which a keeper knows the processes
    of its tree. A model's client looks at the environment itself: for one, ``environ`` becomes the same; a script is
    spared the hundred pages that this copies. ``connect`` makes the model where it is none of the known ones (a
    rehearsal).
    """
    hearing = ControlChannel()
    desk = PollIO(hearing, stdin_fd, stdout_fd)
    # None where the kernel does not want us any more.
    start: Start | None
    try:
        run_blocking(desk.send(encode(Ready(pid=os.getpid(), version=VERSION))))
        start = desk.start()
    except (LinkLost, Stopped):
        start = None
    if start is not None:
        started(start)
    if start is None or (connect is None and is_script(start) and not _has_tools(start)):
        _play(start, desk, cookie, die, leave)
        os.close(stdin_fd)
        os.close(stdout_fd)
        return
    environ.clear()
    environ.update(_env(start, cookie))
    from worker.io import trio_io  # noqa: PLC0415  (a worker that plays a script needs no event loop)

    work: trio_io.Attempt = (
        partial(import_module("worker.backends.attempt").attempt, start, env=_env(start, cookie))
        if start.backend in CLIS
        else _attempt(start, connect or partial(_adapter, die=die), _env(start, cookie))
    )
    trio_io.run(hearing, stdin_fd, stdout_fd, work, leave)


def _env(start: Start, cookie: str | None) -> dict[str, str]:
    return start.env if cookie is None else {**start.env, COOKIE_VARIABLE: cookie}


def _attempt(
    start: Start, connect: Connect, env: dict[str, str]
) -> Callable[[Link, WorkerIO], Awaitable[Result | Error | None]]:
    """Return an attempt for Trio's loop. Only one that has tools loads any."""
    if not _has_tools(start):
        return partial(attempt, start, connect=connect, own={})
    return partial(import_module("worker.builtin_tools").attempt_with_tools, start, connect=connect, env=env)


def _has_tools(start: Start) -> bool:
    """Return whether it has tools of its own, which need an event loop."""
    return bool(start.tools or start.mcp_servers or start.skills)


def _play(start: Start | None, desk: PollIO, cookie: str | None, die: Die, leave: Leave) -> None:
    """Play a script from its start to its terminal frame, blocking."""
    hearing = desk.hearing
    link = Link(desk, hearing)
    ended: Result | Error | None = None
    if start is not None:
        confine: Confine
        if start.sandbox is None:
            confine = tuple
        else:
            from worker.sandbox import wrap  # noqa: PLC0415  (few scripts are confined)

            confine = partial(wrap, start=start)
        shell = Shell(
            desk=desk,
            cwd=start.cwd,
            env=_env(start, cookie),
            idempotency_key=start.idempotency_key,
            confine=confine,
        )
        ended = run_blocking(
            attempt(start, link, desk, partial(_script, desk=desk, die=die), {SHELL: BuiltinTool(hand=shell)})
        )
    if hearing.stop is not None and ended is None:
        ended = Error(cause="cancelled", text=f"stopped: {hearing.stop.reason}")
    if ended is not None:
        run_blocking(link.finish(ended))
    leave(link.lost or ended is None)


def _script(start: Start, _list_tools: ListTools, *, desk: PollIO, die: Die) -> Model:
    return MockModel(start.mock, start.mock_counts, desk, die)


def _adapter(start: Start, list_tools: ListTools, *, die: Die) -> Model:
    """The model of a provider. Only here, and only for its own dialect, is an SDK imported."""
    if is_script(start):
        from worker.io.trio_io import TrioIO  # noqa: PLC0415  (loaded by now)

        return MockModel(start.mock, start.mock_counts, TrioIO(), die)
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent's file")
    connect: Connect = import_module(f"worker.models.{start.provider.dialect}").connect
    return connect(start, list_tools)
