"""What the trees of processes below our workers use, as psutil measures it. Reads /proc: call it in a thread."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What one tree uses. ``cpu_percent`` is of one core, since the last measurement or else since it began."""

    cpu_percent: float = 0.0
    rss_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ms: int
    cpu_seconds: float


class ResourceSampler:
    """Remembers the last measurement of each tree, so that the next one can tell a rate."""

    def __init__(self) -> None:
        self._last: dict[int, _Sample] = {}

    def measure(self, roots: Mapping[str, int], now_ms: int) -> dict[str, ResourceUsage]:
        """The load of each tree by its name, at wall time ``now_ms``. A root that is gone is left out."""
        import psutil  # noqa: PLC0415  (only those who look at a process table pay for it)

        children: defaultdict[int, list[psutil.Process]] = defaultdict(list)
        alive: dict[int, psutil.Process] = {}
        for process in psutil.process_iter(["ppid"]):
            alive[process.pid] = process
            children[process.info["ppid"]].append(process)
        loads = {name: self._load(alive[pid], children, now_ms) for name, pid in roots.items() if pid in alive}
        wanted = set(roots.values())
        self._last = {pid: sample for pid, sample in self._last.items() if pid in wanted}
        return loads

    def _load(
        self, root: "psutil.Process", children: Mapping[int, list["psutil.Process"]], now_ms: int
    ) -> ResourceUsage:
        cpu_seconds, rss_bytes = 0.0, 0
        for process in _tree(root, children):
            # Seconds of CPU and resident bytes; nothing of a process that has just ended.
            usage: tuple[float, int]
            import psutil  # noqa: PLC0415

            try:
                with process.oneshot():
                    times = process.cpu_times()
                    usage = times.user + times.system, int(process.memory_info().rss)
            except psutil.Error:
                usage = 0.0, 0
            cpu_seconds += usage[0]
            rss_bytes += usage[1]
        before = self._last.get(root.pid) or _Sample(_started_ms(root, now_ms), 0.0)
        self._last[root.pid] = _Sample(now_ms, cpu_seconds)
        elapsed_ms = max(now_ms - before.at_ms, 1)
        return ResourceUsage(round(max(cpu_seconds - before.cpu_seconds, 0.0) / elapsed_ms * 100_000, 1), rss_bytes)


def _tree(root: "psutil.Process", children: Mapping[int, list["psutil.Process"]]) -> Iterator["psutil.Process"]:
    waiting = [root]
    while waiting:
        process = waiting.pop()
        yield process
        waiting.extend(children.get(process.pid, ()))


def _started_ms(process: "psutil.Process", now_ms: int) -> int:
    import psutil  # noqa: PLC0415

    try:
        return round(process.create_time() * 1000)
    except psutil.Error:
        return now_ms
