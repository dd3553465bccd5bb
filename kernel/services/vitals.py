"""Whether the kernel's own event loop turns, and what it does when it does not (promises.md 4.5).

A turn that takes long is logged when it is over. One that does not end is shown from below: a timer that needs neither
the loop nor the interpreter's lock writes to the log where every thread stands. A service manager that wants to know
is told as long as the loop turns.
"""

import faulthandler
import logging
from collections.abc import Callable
from typing import Final

import trio

from kernel.services.notify import Notifier

logger = logging.getLogger(__name__)

LAG_SECONDS: Final = 1.0
"""A turn that takes longer is told of."""
STUCK_SECONDS: Final = 5.0
"""A loop that stands still for so long is dumped, NAP_SECONDS later at the latest."""
NAP_SECONDS: Final = 5.0
"""Between two signs of life. Each takes 0.2 ms."""
SIGNS: Final = 3
"""So many signs of life within the time that the service manager allows for one."""


class Turns(trio.abc.Instrument):
    """Measures each turn of the event loop: from when it wakes up until it has nothing more to do. Costs it 1 us."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()

    def after_io_wait(self, timeout: float) -> None:
        """A turn begins."""
        self._began = self._now()

    def before_io_wait(self, timeout: float) -> None:
        """A turn is over."""
        took = self._now() - self._began
        if took > LAG_SECONDS:
            logger.warning("kernel.loop_lag one turn of the event loop took %.1f s; everything else waited", took)


class Vitals:
    """Watches the loop it runs in; ``now`` in monotonic seconds.

    ``arm`` has every stack written in so many seconds, unless it is called again before; ``disarm`` takes that back.
    """

    def __init__(
        self,
        *,
        notifier: Notifier,
        now: Callable[[], float],
        arm: Callable[[float], None] = faulthandler.dump_traceback_later,
        disarm: Callable[[], None] = faulthandler.cancel_dump_traceback_later,
    ) -> None:
        self._notifier = notifier
        self._now = now
        self._arm = arm
        self._disarm = disarm

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        turns = Turns(self._now)
        trio.lowlevel.add_instrument(turns)
        task_status.started()
        try:
            while True:
                self._arm(STUCK_SECONDS + NAP_SECONDS)
                self._notifier.tell("WATCHDOG=1")
                await trio.sleep(self._nap_seconds())
        finally:
            self._disarm()
            trio.lowlevel.remove_instrument(turns)

    def ready(self, status: str) -> None:
        """The kernel serves; ``status`` is for people."""
        self._notifier.tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """The kernel was asked to stop."""
        self._notifier.tell("STOPPING=1")

    def _nap_seconds(self) -> float:
        watchdog = self._notifier.watchdog_seconds
        return NAP_SECONDS if watchdog is None else min(NAP_SECONDS, watchdog / SIGNS)
