"""Reaps children that an earlier program of this kernel has started: exec keeps them ours, and nobody else waits."""

import os
from collections.abc import Iterable
from contextlib import suppress

import trio


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
