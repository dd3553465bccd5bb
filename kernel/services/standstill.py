"""The time of one attempt in which a call of it is kept waiting for a person: it is no time of the worker's.

It knows no clock but Trio's. Budgets of time are not its business: those are of the whole attempt, standstill and all.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager

import trio


class Standstill:
    """Counts the calls that are kept waiting, and stops a deadline while there are any."""

    def __init__(self) -> None:
        self._calls = 0
        self._ended_at = -math.inf
        self._deadline = trio.CancelScope()
        self._left_seconds = math.inf

    @property
    def lasts(self) -> bool:
        """Whether a call is kept waiting now."""
        return self._calls > 0

    @contextmanager
    def hold(self) -> Generator[None]:
        """One more call is kept waiting while the block lasts."""
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

    def excused_at(self) -> float:
        """Until when silence is no fault of the worker's, by Trio's clock."""
        return trio.current_time() if self.lasts else self._ended_at

    @contextmanager
    def move_on_after(self, seconds: float) -> Generator[trio.CancelScope]:
        """A scope that is cancelled once so much time has passed that was none of standstill. One at a time."""
        with trio.move_on_after(seconds) as self._deadline:
            if self.lasts:
                self._stop_clock()
            yield self._deadline

    def _stop_clock(self) -> None:
        self._left_seconds = self._deadline.deadline - trio.current_time()
        self._deadline.deadline = math.inf
