"""The pauses of a conversation with a worker: of its time limit, while a person is waited for, and of all of it, while
the kernel's program is replaced; and what the next program needs to go on with it.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
import trio


class PausableDeadline(msgspec.Struct, eq=False):
    """A deadline that stands still while calls of the worker are kept waiting for a person. Uses Trio's clock."""

    _calls: int = 0
    _ended_at: float = -math.inf
    _deadline: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    _left_seconds: float = math.inf

    @property
    def lasts(self) -> bool:
        """True while a call is kept waiting."""
        return self._calls > 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """Count one more call that is kept waiting, while the block lasts."""
        self._calls += 1
        if self._calls == 1:
            self._stop_clock()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._ended_at = trio.current_time()
                self._deadline.deadline = self._ended_at + self._left_seconds

    @property
    def left_seconds(self) -> float | None:
        """The time that is left; None where there is no end to it."""
        left = self._left_seconds if self.lasts else self._deadline.deadline - trio.current_time()
        return None if left == math.inf else max(0.0, left)

    def excused_at(self) -> float:
        """Return the time, by Trio's clock, until which silence is no fault of the worker's."""
        return trio.current_time() if self.lasts else self._ended_at

    @contextmanager
    def move_on_after(self, seconds: float) -> Generator[trio.CancelScope]:
        """Open a scope that is cancelled after ``seconds`` in which no call was kept waiting. One at a time."""
        with trio.move_on_after(seconds) as self._deadline:
            if self.lasts:
                self._stop_clock()
            yield self._deadline

    def _stop_clock(self) -> None:
        self._left_seconds = self._deadline.deadline - trio.current_time()
        self._deadline.deadline = math.inf


class SessionPause(msgspec.Struct, eq=False):
    """A conversation that may be asked to stand still: between two frames, where nothing is half done, until released.

    What its worker says meanwhile waits in the pipe.
    """

    stands: bool = False
    _released: trio.Event | None = None
    """Set once it may go on; None where it was not asked to stand still."""
    _nap: trio.CancelScope | None = None

    @property
    def asked(self) -> bool:
        """Return whether it is to stand still."""
        return self._released is not None

    def ask(self) -> None:
        """Have it stand still from its next such point on."""
        self._released = self._released or trio.Event()
        if self._nap is not None:
            self._nap.cancel()

    def release(self) -> None:
        """Let it go on."""
        if self._released is not None:
            self._released.set()
            self._released = None

    @contextmanager
    def may_interrupt(self, nap: trio.CancelScope) -> Generator[None]:
        """While the block lasts, only the next frame is waited for, in ``nap``."""
        self._nap = nap
        try:
            yield
        finally:
            self._nap = None

    async def wait(self) -> None:
        """Stand still until released."""
        self.stands = True
        try:
            if self._released is not None:
                await self._released.wait()
        finally:
            self.stands = False


class HandedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as the next program of the kernel goes on with it. Its clocks of silence begin anew there.

    ``left_seconds`` is what is left of the total limit; None: all of it.
    """

    ready: bool = False
    left_seconds: float | None = None
    pings: int = 0
    tool_runs: bool = False
    doing: str = ""
    log_lines: int = 0
    noise_lines: int = 0
    noise_in_a_row: int = 0
