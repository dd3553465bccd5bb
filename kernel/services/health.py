"""Health of the kernel: memory pressure, notifications of the service manager, and a watchdog of the event loop."""

import faulthandler
import logging
import socket
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.policy.metrics import BOUNDS_SECONDS, Durations

logger = logging.getLogger(__name__)

FRESH_SECONDS: Final = 1.0
CGROUPS: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")


def free_part(cgroups: Path = CGROUPS, own: Path = OWN) -> float:
    """Return the free fraction of memory, of the machine or of the tightest control group. Reads /proc and /sys."""
    parts = [_free_in_machine()]
    for group in _groups(cgroups, own):
        part = _free_in(group)
        if part is not None:
            parts.append(part)
    return min(parts)


def _free_in_machine() -> float:
    """Return the free fraction of the machine's memory; reading the file avoids the 15 ms import of psutil on Linux."""
    try:
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(facts["MemAvailable"].split()[0]) / int(facts["MemTotal"].split()[0])
    except (OSError, KeyError, ValueError):
        import psutil  # noqa: PLC0415  (macOS)

        machine = psutil.virtual_memory()
        return machine.available / machine.total if machine.total else 1.0


def _groups(cgroups: Path, own: Path) -> tuple[Path, ...]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return ()
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if path is None:
        return ()
    group = cgroups / path.strip().lstrip("/")
    return tuple(one for one in (group, *group.parents) if one.is_relative_to(cgroups))


def _free_in(group: Path) -> float | None:
    """Return the free fraction of a control group, with the page cache as free; None without a limit."""
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if not limit.isdecimal() or int(limit) == 0:
        return None
    cached = int(counts.get("inactive_file", 0)) + int(counts.get("active_file", 0))
    return max(0.0, 1 - max(0, used - cached) / int(limit))


class MemoryPressure(msgspec.Struct, eq=False, kw_only=True):
    """Detects short memory, in which case no attempt starts and running ones continue.

    The tighter of two values counts: the machine, and the kernel's control group (a container's limit). The dispatcher
    checks before each lease; values are cached for a second. ``clock`` is in seconds.
    """

    clock: Callable[[], float]
    look: Callable[[], float] = free_part
    _looked_at: float | None = None
    _free: float = 1.0

    def pressed(self, reserve: float) -> bool:
        """Return whether less than the fraction ``reserve`` of the memory is free."""
        now = self.clock()
        if self._looked_at is None or now - self._looked_at >= FRESH_SECONDS:
            self._looked_at = now
            self._free = self.look()
        return self._free < reserve


_MICROSECONDS: Final = 1_000_000


class SystemdNotifier(msgspec.Struct, frozen=True):
    """Notifies systemd of the kernel's state, like sd_notify(3); without an ``address`` it does nothing.

    ``watchdog_seconds``: expected interval of ``WATCHDOG=1``; without the messages systemd kills the kernel.
    """

    address: str | None = None
    watchdog_seconds: float | None = None

    def tell(self, state: str) -> None:
        """Send ``state``, such as ``READY=1``; never blocks and never fails."""
        if self.address is None:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(state.encode(), address)


def notifier_from(environ: Mapping[str, str], pid: int) -> SystemdNotifier:
    """Return the notifier configured in the environment of process ``pid`` (NOTIFY_SOCKET, WATCHDOG_USEC)."""
    address = environ.get("NOTIFY_SOCKET", "")
    microseconds = environ.get("WATCHDOG_USEC", "")
    if not address.startswith(("/", "@")):
        return SystemdNotifier()
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid) or not microseconds.isdecimal() or not int(microseconds):
        return SystemdNotifier(address)
    return SystemdNotifier(address, int(microseconds) / _MICROSECONDS)


LAG_SECONDS: Final = 1.0
"""Turns of the event loop that take longer are logged."""
STUCK_SECONDS: Final = 5.0
"""Time after which the stacks of a blocked event loop are dumped, at most NAP_SECONDS later."""
NAP_SECONDS: Final = 5.0
"""Interval of keep-alives, each of which takes 0.2 ms."""
SIGNS_PER_WATCHDOG: Final = 3
"""Keep-alives within the interval that the service manager expects."""


class LoopTicks(trio.abc.Instrument):
    """Measures each turn of the event loop, from wake-up until it is idle; costs 1 us per turn."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self.turns = Durations()

    def after_io_wait(self, timeout: float) -> None:
        """Record the start of a turn."""
        self._began = self._now()

    def before_io_wait(self, timeout: float) -> None:
        """Record the end of a turn."""
        took = self._now() - self._began
        self.turns.counts[bisect_left(BOUNDS_SECONDS, took)] += 1  # as ``add``, without a call in each turn
        self.turns.total_seconds += took
        if took > LAG_SECONDS:
            logger.warning("kernel.loop_lag one turn of the event loop took %.1f s; everything else waited", took)


class LoopWatchdog:
    """Watches its event loop, and sends keep-alives to the service manager; ``now`` is in monotonic seconds.

    A slow turn is logged when it ends. For a turn that does not end, a timer that needs neither the loop nor the
    interpreter's lock dumps the stacks of all threads to the log.

    ``arm`` schedules the dump unless it is called again in time; ``disarm`` cancels it.
    """

    def __init__(
        self,
        *,
        notifier: SystemdNotifier,
        now: Callable[[], float],
        arm: Callable[[float], None] = faulthandler.dump_traceback_later,
        disarm: Callable[[], None] = faulthandler.cancel_dump_traceback_later,
    ) -> None:
        self._notifier = notifier
        self.ticks = LoopTicks(now)
        self._arm = arm
        self._disarm = disarm

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled."""
        trio.lowlevel.add_instrument(self.ticks)
        task_status.started()
        try:
            while True:
                self._arm(STUCK_SECONDS + NAP_SECONDS)
                self._notifier.tell("WATCHDOG=1")
                watchdog = self._notifier.watchdog_seconds
                await trio.sleep(NAP_SECONDS if watchdog is None else min(NAP_SECONDS, watchdog / SIGNS_PER_WATCHDOG))
        finally:
            self._disarm()
            trio.lowlevel.remove_instrument(self.ticks)

    def ready(self, status: str) -> None:
        """Report that the kernel serves; ``status`` is for people."""
        self._notifier.tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Report that the kernel is stopping."""
        self._notifier.tell("STOPPING=1")
