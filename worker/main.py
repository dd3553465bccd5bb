"""A worker, put together: the link, the model the start frame names, the tools, the loop.

It learns everything from the link and says everything to it: nothing is printed, and standard error holds
nothing but tracebacks of our own bugs.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Final

import trio

from protocol.agent import MockExit
from protocol.codec import encode
from protocol.ipc import COOKIE_VARIABLE, Error, Ready, Result, Start
from protocol.version import VERSION
from worker.conversation import Conversation
from worker.fit import TooLarge
from worker.link import Link, LinkLost
from worker.loop import run
from worker.mcp import DaemonMcp
from worker.models.errors import Failed
from worker.models.mock import SHELL, MockModel, die
from worker.models.model import ListTools, Model
from worker.shell import Shell
from worker.titles import set_title
from worker.tool import Hand, Hands

EXIT_DONE: Final = 0
"""The terminal frame was sent."""
EXIT_LOST: Final = 1
"""The kernel hung up before."""


def main(stdin_fd: int, stdout_fd: int) -> int:
    """Be a worker on these two descriptors (they become ours) until the work ends; the exit code.

    Commands that tools run inherit what the start frame gives, and nothing of this process's environment.
    """
    # Before the event loop is set up: the kernel sends the start meanwhile.
    _greet(stdout_fd)
    # The kernel asks a worker that answers no ping where it stands; this costs 50 us, while the start is on its way.
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True, chain=False)
    return trio.run(_leave, stdin_fd, stdout_fd, os.environ)  # noqa: TID251  (the entry point of a worker)


async def _leave(stdin_fd: int, stdout_fd: int, environ: MutableMapping[str, str]) -> int:
    """Work, and end the process where it stands: to take an event loop down in order costs a worker a tenth."""
    code = await _converse(stdin_fd, stdout_fd, environ, die, _entitle)
    sys.stderr.flush()
    os._exit(code)


async def work(
    stdin_fd: int, stdout_fd: int, environ: MutableMapping[str, str], die: Callable[[MockExit], None] = die
) -> int:
    """One attempt over the link on these descriptors; the exit code. ``environ`` becomes the start frame's."""
    _greet(stdout_fd)
    return await _converse(stdin_fd, stdout_fd, environ, die, lambda _start: None)


def _greet(stdout_fd: int) -> None:
    """Say ``ready``. A kernel that is gone already shows when it is listened to."""
    with contextlib.suppress(OSError):
        os.write(stdout_fd, encode(Ready(pid=os.getpid(), version=VERSION)))


def _entitle(start: Start) -> None:
    """One that stood by did not know its attempt when it was forked."""
    set_title("worker", start.attempt)


async def _converse(
    stdin_fd: int,
    stdout_fd: int,
    environ: MutableMapping[str, str],
    die: Callable[[MockExit], None],
    started: Callable[[Start], None],
) -> int:
    async with trio.lowlevel.FdStream(stdin_fd) as receive, trio.lowlevel.FdStream(stdout_fd) as send:
        link = Link(receive, send)
        ended: Result | Error | None = None
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                nursery.start_soon(link.listen, scope)
                ended = await _attempt(link, environ, die, started)
            if link.stop is not None and ended is None:
                ended = Error(cause="cancelled", text=f"stopped: {link.stop.reason}")
            if ended is not None:
                await link.finish(ended)
            lost = link.lost
            nursery.cancel_scope.cancel()
    return EXIT_LOST if lost else EXIT_DONE


async def _attempt(
    link: Link,
    environ: MutableMapping[str, str],
    die: Callable[[MockExit], None],
    started: Callable[[Start], None],
) -> Result | Error | None:
    """The terminal frame; None where nobody is left to hear it."""
    conversation: Conversation | None = None
    try:
        start = await link.start()
        started(start)
        _become(environ, start.env)
        conversation = Conversation.of(start)
        return await _play(start, dict(environ), conversation, link, die)
    except LinkLost:
        return None
    except (Failed, TooLarge) as error:
        return _error(error, conversation)
    except Exception as error:  # noqa: BLE001  (the boundary: a bug of ours becomes a crash the kernel can name)
        traceback.print_exc()
        return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


def _become(environ: MutableMapping[str, str], env: Mapping[str, str]) -> None:
    """Have exactly ``env``, and the cookie by which a keeper knows the processes of its tree."""
    cookie = {COOKIE_VARIABLE: environ[COOKIE_VARIABLE]} if COOKIE_VARIABLE in environ else {}
    environ.clear()
    environ.update({**env, **cookie})


async def _play(
    start: Start, env: dict[str, str], conversation: Conversation, link: Link, die: Callable[[MockExit], None]
) -> Result:
    kernel = DaemonMcp(start.mcp.url, start.token)
    dialect = _dialect(start)
    own: dict[str, Hand] = {}
    if dialect == "mock":
        own[SHELL] = Shell(cwd=start.cwd, env=env, idempotency_key=start.idempotency_key)
    hands = Hands(kernel=kernel, own=own, seconds=start.limits.tool_seconds)
    model = _model(dialect, start, kernel.tools, die)
    try:
        return await run(conversation=conversation, model=model, hands=hands, limits=start.limits, link=link, allowance=start.allowance)
    finally:
        await model.aclose()
        await kernel.aclose()


def _dialect(start: Start) -> str:
    if start.backend == "mock":
        return "mock"
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent's file")
    return start.provider.dialect


def _model(dialect: str, start: Start, list_tools: ListTools, die: Callable[[MockExit], None]) -> Model:
    """The model for ``dialect``. Only here, and only for its own dialect, is an SDK imported."""
    if dialect == "mock":
        return MockModel(start.mock, start.mock_counts, die)
    connect: Callable[[Start, ListTools], Model] = import_module(f"worker.models.{dialect}").connect
    return connect(start, list_tools)


def _error(error: Failed | TooLarge, conversation: Conversation | None) -> Error:
    partial = conversation.text if conversation else ""
    if isinstance(error, TooLarge):
        return Error(cause="resource", text=str(error), partial=partial)
    return Error(
        cause=error.cause,
        text=error.text,
        http_status=error.http_status,
        retry_after=error.retry_after_seconds,
        code=error.code,
        partial=partial,
        fired=error.fired,
    )
