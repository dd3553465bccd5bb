"""Control over what a launcher starts: knows what was started and has not been closed, and can hold back the rest."""

from collections.abc import Collection

import trio

from kernel.procs.handed_over import HandsOverLauncher
from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.spec import Spec


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
        if isinstance(self._launcher, HandsOverLauncher):
            return await self._launcher.hand_over()
        return ()
