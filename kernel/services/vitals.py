"""Whether the kernel itself is well: its event loop turns, and who started it (systemd) is told so.

A turn of the loop that takes long is logged when it is over. One that does not end is shown from below: where every
thread stands is written to the log by a timer that needs neither the loop nor the interpreter's lock.
"""

import faulthandler
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import trio

logger = logging.getLogger(__name__)

LAG_SECONDS: Final = 1.0
"""A turn that takes longer is told of."""
STUCK_SECONDS: Final = 5.0
"""A loop that stands still for so long, and NAP_SECONDS more at most, is dumped."""
NAP_SECONDS: Final = 5.0
"""Between two signs of life: five of them a minute cost an idle kernel nothing."""
_MICROSECONDS: Final = 1_000_000
_SHARE: Final = 3
"""So many signs of life within what systemd allows for one."""


class Notifier:
    """Datagrams to the service manager, as sd_notify(3) sends them. Without an address they go nowhere."""

    def __init__(self, address: str | None, watchdog_seconds: float | None = None) -> None:
        self._address = address
        self.watchdog_seconds = watchdog_seconds if address else None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Notifier":
        """What the environment says: NOTIFY_SOCKET, and WATCHDOG_USEC if it is meant for this process."""
        address = environ.get("NOTIFY_SOCKET")
        microseconds = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID") in {None, str(os.getpid())}
        seconds = int(microseconds) / _MICROSECONDS if ours and microseconds.isdecimal() else None
        return cls(address if address and address[0] in "/@" else None, seconds or None)

    def tell(self, state: str) -> None:
        """Say ``state``, such as ``READY=1``. Never blocks; a manager that does not listen is not told."""
        if self._address is None:
            return
        address = self._address.replace("@", "\0", 1) if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(state.encode(), address)


class Turns(trio.abc.Instrument):
    """Measures each turn of the event loop: from when it wakes up until it has nothing more to do."""

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
            logger.warning(
                "kernel.loop_lag a turn of the event loop took %.1f s: nothing else was done meanwhile", took
            )


class Vitals:
    """Watches the loop it runs in. ``arm`` has all stacks written in so many seconds unless it is called again."""

    def __init__(
        self,
        *,
        notifier: Notifier,
        now: Callable[[], float],
        arm: Callable[[float], None] = faulthandler.dump_traceback_later,
        disarm: Callable[[], None] = faulthandler.cancel_dump_traceback_later,
    ) -> None:
        self._notifier = notifier
        self._turns = Turns(now)
        self._arm = arm
        self._disarm = disarm

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        trio.lowlevel.add_instrument(self._turns)
        task_status.started()
        try:
            while True:
                self._arm(STUCK_SECONDS + NAP_SECONDS)
                self._notifier.tell("WATCHDOG=1")
                await trio.sleep(self._nap_seconds())
        finally:
            self._disarm()
            trio.lowlevel.remove_instrument(self._turns)

    def ready(self, status: str) -> None:
        """The kernel serves."""
        self._notifier.tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """The kernel has been asked to stop."""
        self._notifier.tell("STOPPING=1")

    def _nap_seconds(self) -> float:
        watchdog = self._notifier.watchdog_seconds
        return NAP_SECONDS if watchdog is None else min(NAP_SECONDS, watchdog / _SHARE)
