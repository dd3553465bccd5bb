"""The cost of agents that have nothing to do."""

import time
from collections.abc import Iterator

import psutil

from scripts.benchmarks.figure import Figure
from scripts.benchmarks.running_kernel import MOCK, running

AGENTS = 200
SETTLE_SECONDS = 5.0
SECONDS = 30.0


def cpu_seconds(pid: int) -> float:
    """CPU time of the kernel and everything below it."""
    kernel = psutil.Process(pid)
    times = [process.cpu_times() for process in (kernel, *kernel.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def measure() -> Iterator[Figure]:
    """Watch a kernel of many agents for half a minute."""
    with running({f".agents/a{number}.yaml": MOCK for number in range(AGENTS)}) as measured:
        measured.connect().call("GET", "/ps")
        time.sleep(SETTLE_SECONDS)
        before = cpu_seconds(measured.pid)
        time.sleep(SECONDS)
        share = (cpu_seconds(measured.pid) - before) / SECONDS * 100
        yield Figure(f"{AGENTS} idle agents", share, 0.2, "% core")
