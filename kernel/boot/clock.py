"""The kernel's time: the wall clock at boot plus the time that has passed since, including suspension.

Changes of the wall clock therefore affect no order, deadline or lease while a kernel runs (promise P21); recovery
corrects the times of an earlier kernel. Only schedules with clock times use the wall clock.
"""

import time
from typing import Final

_ELAPSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Clock that also advances while the machine is suspended: on Linux CLOCK_BOOTTIME, on macOS CLOCK_MONOTONIC."""
_PER_MS: Final = 1_000_000


class KernelClock:
    """The kernel's clock, in milliseconds since 1970."""

    def __init__(self, offset_ns: int | None = None) -> None:
        """Start the clock at ``offset_ns``, the ``wall_offset_ns`` of the kernel's first program; None: the current
        offset.
        """
        self._offset_ns = wall_offset_ns() if offset_ns is None else offset_ns

    def now_ms(self) -> int:
        """Return the kernel's time, which never goes back and never jumps."""
        return (self._offset_ns + time.clock_gettime_ns(_ELAPSING)) // _PER_MS

    @property
    def offset_ms(self) -> int:
        """Return the kernel's time at the machine's boot. Two kernels differ if the wall clock
        was set between their starts."""
        return self._offset_ns // _PER_MS

    def wall_ms(self) -> int:
        """Return the machine's wall clock."""
        return time.time_ns() // _PER_MS


def wall_offset_ns() -> int:
    """Return the wall clock at the machine's boot, according to its current setting."""
    return time.time_ns() - time.clock_gettime_ns(_ELAPSING)
