"""The exec launcher: a fresh interpreter per attempt becomes the keeper. Slow, simple, and what macOS can do."""

import math
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import trio

from kernel.procs.descriptors import under_first_limit
from kernel.procs.handle import Handle
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.spawn import spawn_keeper
from kernel.procs.spec import TRANSIENT, PipeEnds, SpawnTransient, Spec
from protocol.ipc import Fork

_REAP_SECONDS: Final = 3.0
"""At the end: for keepers whose lifelines are closed by then."""


class ExecLauncher:
    """Starts ``python -I -u -m worker --keeper FD``. ``spawn`` works while ``run`` does, which reaps the keepers."""

    def __init__(self, *, run_dir: Path, environ: Mapping[str, str]) -> None:
        self._run_dir = run_dir
        self._environ = environ
        self._handed_over = trio.Event()
        self._to_reap, self._reaped = trio.open_memory_channel[trio.Process](math.inf)

    def need(self, modules: frozenset[str]) -> None:
        """Nothing to do: each worker imports what it needs."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reap keepers until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            async for process in self._reaped:
                nursery.start_soon(self._reap, process)

    async def _reap(self, process: trio.Process) -> None:
        """Wait for a keeper. When the kernel ends, its handles are closed before this is cancelled."""
        try:
            await process.wait()
        finally:
            if not self._handed_over.is_set():
                with trio.move_on_after(_REAP_SECONDS, shield=True):
                    await process.wait()

    async def hand_over(self) -> tuple[int, ...]:
        """Leave all keepers alone: those that are handed over are reaped by whoever has their handles."""
        self._handed_over.set()
        await trio.lowlevel.checkpoint()
        return ()

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command. Raises SpawnTransient; FileExistsError for an attempt that is in use."""
        return await spawn_keeper(spec, self._run_dir, self._execute)

    async def _execute(self, order: Fork, theirs: PipeEnds) -> KeeperLink:
        ours, end = socket.socketpair()
        link = KeeperLink(ours)
        try:
            with end:
                fd = end.fileno()
                try:
                    process = await trio.lowlevel.open_process(
                        under_first_limit([sys.executable, "-I", "-u", "-m", "worker", "--keeper", str(fd)]),
                        stdin=theirs.stdin,
                        stdout=theirs.stdout,
                        stderr=theirs.stderr,
                        pass_fds=(fd,),
                        env=dict(self._environ),
                        start_new_session=True,
                    )
                except OSError as error:
                    if error.errno in TRANSIENT:
                        raise SpawnTransient(f"cannot start {order.attempt}: {error.strerror}") from error
                    raise
                self._to_reap.send_nowait(process)
            await link.send(order)
        except BaseException:
            link.close()
            raise
        return link
