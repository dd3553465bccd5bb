"""The kernel's own time: the wall clock as it stood at boot, and what has passed since, suspension included.

So somebody who sets the wall clock changes no order, no deadline and no lease while a kernel lives (promise P21);
what was stored by an earlier kernel is set right by recovery. Only a schedule that names hours asks for the wall.
"""

import time
from typing import Final

_ELAPSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops CLOCK_MONOTONIC while suspended; macOS does not, and has no other."""
_PER_MS: Final = 1_000_000


class KernelClock:
    """The kernel's clock, in milliseconds since 1970."""

    def __init__(self, offset_ns: int | None = None) -> None:
        """``offset_ns`` is ``wall_offset_ns`` as the kernel's first program has found it; None: as it is now."""
        self._offset_ns = wall_offset_ns() if offset_ns is None else offset_ns

    def now_ms(self) -> int:
        """Return the kernel's time: it never goes back and never jumps."""
        return (self._offset_ns + time.clock_gettime_ns(_ELAPSING)) // _PER_MS

    @property
    def offset_ms(self) -> int:
        """The kernel's time at the machine's boot. Two kernels of one boot that differ in it were set differently."""
        return self._offset_ns // _PER_MS

    def wall_ms(self) -> int:
        """Return the machine's own wall clock."""
        return time.time_ns() // _PER_MS


def wall_offset_ns() -> int:
    """The wall clock at the machine's boot, as it is set now."""
    return time.time_ns() - time.clock_gettime_ns(_ELAPSING)
