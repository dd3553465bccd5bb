"""Trees of processes that do not want to die, and how to see that they did."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from kernel.procs import procfs

T = TypeVar("T")
PATIENCE: Final = 60.0
"""For what must happen at all; what must be fast names its own limit."""

NASTY: Final = """
trap '' TERM HUP
sh -c 'echo $$; exec sleep 1000' &
setsid sh -c 'echo $$; exec sleep 1000' &
setsid sh -c '(setsid sh -c "trap \\"\\" TERM; echo \\$\\$; exec sleep 1000" &); exit 0'
sh -c 'echo $$; kill -STOP $$; exec sleep 1000' &
echo $$
"""
"""Children that ignore SIGTERM, have their own session, were double-forked, or are stopped. Prints SIZE pids."""
SIZE: Final = 5

STAYS: Final = ("sh", "-c", NASTY + "sleep 1000; exit 0")
LEAVES: Final = ("sh", "-c", NASTY + "read line; exit 3")
"""Ends with 3 when it is written to, and leaves the others behind."""

ENV: Final = {"PATH": os.environ["PATH"]}


async def within(seconds: float, call: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    with trio.fail_after(seconds):
        return await call(*args, **kwargs)


async def read_pids(stream: trio.abc.ReceiveStream, count: int = SIZE) -> list[int]:
    """The pids that a tree prints, as soon as there are ``count``."""
    text = b""
    with trio.fail_after(PATIENCE):
        while text.count(b"\n") < count:
            chunk = await stream.receive_some()
            assert chunk, f"the tree said no more than {text!r}"
            text += chunk
    return [int(word) for word in text.split()]


async def gone(pids: list[int], seconds: float = 2.0) -> None:
    """Return once none of ``pids`` runs; fail after ``seconds``."""
    with trio.fail_after(seconds):
        for pid in pids:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    await trio.lowlevel.wait_readable(handle)
                finally:
                    os.close(handle)


def left_in(run_dir: Path) -> list[str]:
    return sorted(path.name for path in run_dir.iterdir())


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if procfs.identify(pid) is not None]
