"""The one seam through which anything is run: ``spawn(spec) -> handle``."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

import trio

from kernel.procs.exec import ExecLauncher
from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import Handle
from kernel.procs.spec import Spec

VARIABLE: Final = "AGENT_WORKER_LAUNCHER"


class Launcher(Protocol):
    """Starts processes in keepers. Close the handles before ``run`` is cancelled."""

    def need(self, modules: frozenset[str]) -> None:
        """Say which of ``anthropic`` and ``openai`` workers will import, so that it can be done before they start."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; ``started`` means that ``spawn`` may be called, not that anything is preloaded."""

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command in a keeper of its own. Raises SpawnTransient; FileExistsError for one in use.

        A command that cannot be executed gives a handle with pid 0 whose ``wait`` tells why. Cancellation ends what
        was started.
        """
        ...


class LauncherUnknown(ValueError):
    """AGENT_WORKER_LAUNCHER says neither fork nor exec, or fork where it is not safe."""


def choose_launcher(
    asked: str | None,
    *,
    platform: str,
    run_dir: Path,
    environ: Mapping[str, str],
    modules: frozenset[str] = frozenset(),
) -> Launcher:
    """The launcher for this machine: fork on Linux unless ``asked`` (the variable's value) is exec; exec elsewhere.

    ``environ`` is the environment of workers: no secret belongs there. Raises LauncherUnknown.
    """
    kind = asked or ("fork" if platform == "linux" else "exec")
    if kind == "exec":
        return ExecLauncher(run_dir=run_dir, environ=environ)
    if kind == "fork" and platform == "linux":
        return ForkLauncher(run_dir=run_dir, environ=environ, modules=modules)
    raise LauncherUnknown(f"{VARIABLE}={kind} is not possible on {platform}: unset it, or set it to exec")


class SpawnControl:
    """The launcher that a kernel starts everything by. While it is shut off, ``spawn`` waits."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._opened = trio.Event()
        self._opened.set()
        self._starting = 0
        self._started: list[tuple[Spec, Handle]] = []

    def need(self, modules: frozenset[str]) -> None:
        """See Launcher."""
        self._launcher.need(modules)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See Launcher."""
        await self._launcher.run(task_status=task_status)

    async def spawn(self, spec: Spec) -> Handle:
        """See Launcher. Waits while it is shut off."""
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
        """Hold back whatever is to be started from now on."""
        self._opened = trio.Event()

    def open(self) -> None:
        """Let it be started."""
        self._opened.set()

    def under_way(self, beside: Collection[Handle]) -> tuple[str, ...]:
        """Return the names of what runs ``beside`` these handles, and may not be ended; "" for what is being started.

        Those that may be started again at any time do not count.
        """
        running = (
            spec.attempt
            for spec, handle in self._started
            if not handle.closed and not spec.spare and handle not in beside
        )
        return (*running, *[""] * self._starting)

    async def hand_over(self) -> tuple[int, ...]:
        """Leave all that runs alone. Returns children of ours that are to be reaped later."""
        if isinstance(self._launcher, ForkLauncher | ExecLauncher):
            return await self._launcher.hand_over()
        return ()
