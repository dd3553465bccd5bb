"""The single interface to start processes, ``spawn(spec) -> handle``: by fork, or with a new interpreter."""

import math
import socket
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

import trio

from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import Handle
from kernel.procs.keeper_link import KeeperLink
from kernel.procs.process_limits import under_first_limit
from kernel.procs.spawn import spawn_keeper
from kernel.procs.spec import TRANSIENT, PipeEnds, SpawnTransient, Spec
from protocol.ipc import Fork

VARIABLE: Final = "AGENT_WORKER_LAUNCHER"


class Launcher(Protocol):
    """Starts processes in keepers. Close the handles before ``run`` is cancelled."""

    def need(self, modules: frozenset[str]) -> None:
        """Announce which SDKs (``anthropic``, ``openai``) workers will import, so that they can be preloaded."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; ``started`` means that ``spawn`` may be called, even if modules still load."""

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command in its own keeper. Raises SpawnTransient; FileExistsError for an attempt in use.

        A command that cannot be executed gets a handle with pid 0 whose ``wait`` returns the reason. Cancellation stops
        the started process.
        """
        ...


class LauncherUnknown(ValueError):
    """AGENT_WORKER_LAUNCHER is neither fork nor exec, or is fork where that is unsafe."""


def choose_launcher(
    asked: str | None,
    *,
    platform: str,
    run_dir: Path,
    environ: Mapping[str, str],
    modules: frozenset[str] = frozenset(),
) -> Launcher:
    """Return the launcher for this machine: fork on Linux unless ``asked`` (the variable) is exec; exec elsewhere.

    ``environ`` is the environment of workers, without secrets. Raises LauncherUnknown.
    """
    kind = asked or ("fork" if platform == "linux" else "exec")
    if kind == "exec":
        return ExecLauncher(run_dir=run_dir, environ=environ)
    if kind == "fork" and platform == "linux":
        return ForkLauncher(run_dir=run_dir, environ=environ, modules=modules)
    raise LauncherUnknown(f"{VARIABLE}={kind} is not supported on {platform}: unset it, or set it to exec")


class SpawnControl:
    """The launcher that the whole kernel uses, with a switch: while it is shut off, ``spawn`` waits."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._opened = trio.Event()
        self._opened.set()
        self._starting = 0
        self._started: list[tuple[Spec, Handle]] = []

    def need(self, modules: frozenset[str]) -> None:
        """Preload ``modules`` for workers, as in Launcher."""
        self._launcher.need(modules)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, as in Launcher."""
        await self._launcher.run(task_status=task_status)

    async def spawn(self, spec: Spec) -> Handle:
        """Start a process as Launcher does; while starts are shut off, wait."""
        while not self._opened.is_set():
            await self._opened.wait()
        self._starting += 1
        try:
            handle = await self._launcher.spawn(spec)
        finally:
            self._starting -= 1
        self._started = [one for one in self._started if not one[1].closed]
        self._started.append((spec, handle))
        return handle

    def shut_off(self) -> None:
        """Make ``spawn`` wait until ``open`` is called."""
        self._opened = trio.Event()

    def open(self) -> None:
        """Allow starts again."""
        self._opened.set()

    def under_way(self, beside: Collection[Handle]) -> tuple[str, ...]:
        """Return the attempts whose processes are not in ``beside`` and must not be stopped.

        Each start in progress adds a "". Processes that can be restarted (``Spec.spare``) are left out.
        """
        running = (
            spec.attempt
            for spec, handle in self._started
            if not handle.closed and not spec.spare and handle not in beside
        )
        return (*running, *[""] * self._starting)

    async def hand_over(self) -> tuple[int, ...]:
        """Leave all processes running for the next kernel process. Returns the pids that it must reap."""
        if isinstance(self._launcher, ForkLauncher | ExecLauncher):
            return await self._launcher.hand_over()
        return ()


_REAP_SECONDS: Final = 3.0
"""Time at the kernel's exit to reap keepers whose lifelines are closed."""


class ExecLauncher:
    """Starts ``python -I -u -m worker --keeper FD``: slow and simple, and supported on macOS.

    ``spawn`` works while ``run`` runs, which reaps the keepers.
    """

    def __init__(self, *, run_dir: Path, environ: Mapping[str, str]) -> None:
        self._run_dir = run_dir
        self._environ = environ
        self._handed_over = trio.Event()
        self._to_reap, self._reaped = trio.open_memory_channel[trio.Process](math.inf)

    def need(self, modules: frozenset[str]) -> None:
        """Do nothing: each worker imports what it needs."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reap keepers until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            async for process in self._reaped:
                nursery.start_soon(self._reap, process)

    async def _reap(self, process: trio.Process) -> None:
        # At the kernel's exit the handles are closed before this is cancelled.
        try:
            await process.wait()
        finally:
            if not self._handed_over.is_set():
                with trio.move_on_after(_REAP_SECONDS, shield=True):
                    await process.wait()

    async def hand_over(self) -> tuple[int, ...]:
        """Leave all keepers running. Returns no pids: the owner of a keeper's handle reaps it."""
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
