"""The kernel's own health: memory pressure, the service manager's notifications, a watchdog over the event loop."""

import faulthandler
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.policy.metrics import Durations

logger = logging.getLogger(__name__)

FRESH_SECONDS: Final = 1.0
CGROUPS: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")


def free_part(cgroups: Path = CGROUPS, own: Path = OWN) -> float:
    """Return the free fraction of the memory, here or in the control group that has least. Reads /proc and /sys."""
    parts = [_free_in_machine()]
    for group in _groups(cgroups, own):
        part = _free_in(group)
        if part is not None:
            parts.append(part)
    return min(parts)


def _free_in_machine() -> float:
    """Return the free fraction of the machine's memory. What Linux tells in a file is not worth 15 ms of psutil."""
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
    """Return the free fraction of a control group; None without a limit. The page cache counts as free."""
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
    """Tells whether memory is short: then nothing more is started, and what runs goes on.

    The tighter of two counts: the machine, and the control group we are in (a container's limit). Asked before every
    lease, looks once a second. ``clock`` is in seconds.
    """

    clock: Callable[[], float]
    look: Callable[[], float] = free_part
    _looked_at: float | None = None
    _free: float = 1.0

    def pressed(self, reserve: float) -> bool:
        """Return whether less than ``reserve`` (a fraction) of the memory is free."""
        now = self.clock()
        if self._looked_at is None or now - self._looked_at >= FRESH_SECONDS:
            self._looked_at = now
            self._free = self.look()
        return self._free < reserve


_MICROSECONDS: Final = 1_000_000


class SystemdNotifier(msgspec.Struct, frozen=True):
    """Tells the service manager (systemd) how the kernel is, as sd_notify(3) does; without an ``address`` nobody.

    ``watchdog_seconds``: so often ``WATCHDOG=1`` is expected; without it the kernel would be killed.
    """

    address: str | None = None
    watchdog_seconds: float | None = None

    def tell(self, state: str) -> None:
        """Send ``state``, such as ``READY=1``. Never blocks, never fails."""
        if self.address is None:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(state.encode(), address)


def notifier_from(environ: Mapping[str, str], pid: int) -> SystemdNotifier:
    """Make the notifier that the environment of process ``pid`` asks for: NOTIFY_SOCKET, and its WATCHDOG_USEC."""
    address = environ.get("NOTIFY_SOCKET", "")
    microseconds = environ.get("WATCHDOG_USEC", "")
    if not address.startswith(("/", "@")):
        return SystemdNotifier()
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid) or not microseconds.isdecimal() or not int(microseconds):
        return SystemdNotifier(address)
    return SystemdNotifier(address, int(microseconds) / _MICROSECONDS)


LAG_SECONDS: Final = 1.0
"""A turn that takes longer is told of."""
STUCK_SECONDS: Final = 5.0
"""A loop that stands still for so long is dumped, NAP_SECONDS later at the latest."""
NAP_SECONDS: Final = 5.0
"""Between two signs of life. Each takes 0.2 ms."""
SIGNS_PER_WATCHDOG: Final = 3
"""So many signs of life within the time that the service manager allows for one."""


class LoopTicks(trio.abc.Instrument):
    """Measures each turn of the event loop: from when it wakes up until it has nothing more to do. Costs it 1 us."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self.turns = Durations()

    def after_io_wait(self, timeout: float) -> None:
        """A turn begins."""
        self._began = self._now()

    def before_io_wait(self, timeout: float) -> None:
        """A turn is over."""
        took = self._now() - self._began
        self.turns.add(took)
        if took > LAG_SECONDS:
            logger.warning("kernel.loop_lag one turn of the event loop took %.1f s; everything else waited", took)


class LoopWatchdog:
    """Watches the event loop it runs in; tells the service manager as long as it turns. ``now``: monotonic seconds.

    A turn that takes long is logged when it is over. One that does not end is shown from below: a timer that needs
    neither the loop nor the interpreter's lock writes to the log where every thread stands.

    ``arm`` has every stack written in so many seconds, unless it is called again before; ``disarm`` takes that back.
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
        """The kernel serves; ``status`` is for people."""
        self._notifier.tell(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """The kernel was asked to stop."""
        self._notifier.tell("STOPPING=1")
