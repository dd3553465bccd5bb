"""Resource usage of the process trees below our workers, measured by psutil. Reads /proc: call it in a thread."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import msgspec


class ResourceUsage(msgspec.Struct, frozen=True):
    """CPU and memory of one tree. ``cpu_percent``: percent of one core since the last measurement,
    at first since the start of the process."""

    cpu_percent: float = 0.0
    rss_bytes: int = 0


class _Sample(msgspec.Struct, frozen=True):
    at_ms: int
    cpu_seconds: float


class ResourceSampler:
    """Measures trees, and stores the last measurement of each to compute rates."""

    def __init__(self) -> None:
        self._last: dict[int, _Sample] = {}

    def measure(self, roots: Mapping[str, int], now_ms: int) -> dict[str, ResourceUsage]:
        """Return the usage of each tree by name, at wall time ``now_ms``. Exited roots are omitted."""
        import psutil  # noqa: PLC0415  (only a process table needs it)

        children: defaultdict[int, list[psutil.Process]] = defaultdict(list)
        alive: dict[int, psutil.Process] = {}
        for process in psutil.process_iter(["ppid"]):
            alive[process.pid] = process
            children[process.info["ppid"]].append(process)
        usage: dict[str, ResourceUsage] = {}
        samples: dict[int, _Sample] = {}
        for name, pid in roots.items():
            if pid not in alive:
                continue
            cpu_seconds, rss_bytes = 0.0, 0
            waiting = [alive[pid]]
            while waiting:
                process = waiting.pop()
                waiting.extend(children.get(process.pid, ()))
                with suppress(psutil.Error), process.oneshot():  # A process that has just exited counts nothing.
                    times = process.cpu_times()
                    rss_bytes += int(process.memory_info().rss)
                    cpu_seconds += times.user + times.system
            before = self._last.get(pid)
            if before is None:
                since_ms = now_ms
                with suppress(psutil.Error):
                    since_ms = round(alive[pid].create_time() * 1000)
                before = _Sample(since_ms, 0.0)
            samples[pid] = _Sample(now_ms, cpu_seconds)
            elapsed_ms = max(now_ms - before.at_ms, 1)
            cpu_percent = round(max(cpu_seconds - before.cpu_seconds, 0.0) / elapsed_ms * 100_000, 1)
            usage[name] = ResourceUsage(cpu_percent, rss_bytes)
        wanted = set(roots.values())
        self._last = {pid: sample for pid, sample in (self._last | samples).items() if pid in wanted}
        return usage
