"""An attempt under way, as those see it who show it or want to stop it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import trio

from kernel.services.standstill import Standstill
from kernel.store.commits.lease import Leased
from kernel.store.commits.started import Beginning

StopReason = Literal["cancelled", "stopped", "restarted", "made room", "shutdown"]


@dataclass(slots=True)
class Live:
    """An attempt under way, as those see it who may want to stop it."""

    leased: Leased
    pid: int | None = None
    doing: str = ""
    settling: bool = False
    """Its ending is being booked: nobody takes it away any more."""
    steps: int = 0
    """Replies it has made."""
    untold: Beginning | None = None
    """Its worker runs, and the log does not know it yet."""
    probing: tuple[str, ...] = ()
    """Breakers: its first reply tells that what is behind them answers again."""
    preempted: bool = False
    """It was told to make room for something more urgent."""
    reached: bool = False
    """It has come to Daemon MCP: its token was shown there."""
    standstill: Standstill = field(default_factory=Standstill)
    """While calls of it are kept waiting for a person."""
    stop_reason: StopReason | None = None
    grace_seconds: float = 0.0
    spawning: trio.CancelScope = field(default_factory=trio.CancelScope)
    _stop: Callable[[], None] | None = None
    """What is done about being asked to leave."""

    @contextmanager
    def obeying(self, stop: Callable[[], None]) -> Generator[None]:
        """While the block lasts, ``stop`` is called once it is asked to leave: at once, where it was before."""
        if self.stop_reason is not None:
            stop()
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def stop(self, reason: StopReason, grace_seconds: float) -> None:
        """Ask the worker to leave, and have its tree killed ``grace_seconds`` later. The first reason wins."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.grace_seconds = grace_seconds
            self.spawning.cancel()
            if self._stop is not None:
                self._stop()
