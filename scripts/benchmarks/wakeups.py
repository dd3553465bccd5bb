"""Ten thousand sleeping agents whose schedules wake RATE of them a second: delay, missed wake-ups, and memory.

``--seconds`` sets the duration (default: SECONDS). An hour shows whether the memory stays constant.
"""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import apsw
import psutil

from protocol.discovery import DATABASE
from scripts.benchmarks.figure import Figure, p99
from scripts.benchmarks.load import LoadConnection
from scripts.benchmarks.running_kernel import MOCK, cpu_seconds, empty_project
from tests.project import Project

AGENTS: Final = 10_000
RATE: Final = 20
PERIOD_MS: Final = AGENTS * 1000 // RATE
SECONDS: Final = 60
MARGIN_MS: Final = 5_000
MIB: Final = 1024 * 1024
SPREAD: Final = "UPDATE timers SET next_ms = ? + 1000 / ? * CAST(substr(agent, 2) AS INTEGER)"
STARTS: Final = "SELECT agent, at_ms FROM events WHERE type = 'attempt.started' ORDER BY seq"
ENDS: Final = """
SELECT i.agent, t.ended_ms FROM attempts AS t JOIN instructions AS i ON i.id = t.instruction
WHERE t.ended_ms IS NOT NULL ORDER BY t.ended_ms
"""


def measure() -> Iterator[Figure]:
    """Yield the figures of one project with a running kernel."""
    seconds = int(os.environ.get("AWK_BENCH_SECONDS", SECONDS))
    with empty_project() as project:
        for number in range(AGENTS):
            project.write(f".agents/a{number}.yaml", f"{MOCK}schedule: {{ wakeup: {PERIOD_MS // 1000}s }}\n")
        started = project.awk("start", "--trust")
        assert started.code == 0, started.err
        _until_armed(project)
        record = project.record()
        first_ms = _spread(project, LoadConnection(record["port"], {"authorization": f"Bearer {record['token']}"}))
        sizes, used = _watched(record["pid"], first_ms / 1000, seconds)
        delays, missed = _delays(project, first_ms, first_ms + seconds * 1000)
    print(f"     {len(delays)} wake-ups in {seconds} s, p50 {statistics.median(delays):.0f} ms, {used:.0f} % core")
    yield Figure(f"due to worker ready, {AGENTS} agents, p99", p99(delays), 50, "ms")
    yield Figure("wake-ups not missed", len(delays) / (len(delays) + missed), 1, "x", least=True)
    tenth = max(len(sizes) // 10, 1)
    yield Figure(f"RSS of the kernel, {AGENTS} agents", max(sizes), 150, "MiB")
    growth = statistics.median(sizes[-tenth:]) - statistics.median(sizes[tenth : 2 * tenth])
    yield Figure(f"growth of the RSS in {seconds} s", growth, 3, "MiB")


def _rows(project: Project, query: str) -> list[tuple[object, ...]]:
    store = apsw.Connection(str(project.state / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    found = store.execute(query).fetchall()
    store.close()
    return list(found)


def _until_armed(project: Project) -> None:
    """Wait until all files were read and all schedules set. Raises TimeoutError."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        armed = _rows(project, "SELECT agent FROM timers")
        if len(armed) == AGENTS and "still being read" not in project.awk("status").out:
            return
        time.sleep(0.2)
    raise TimeoutError("the schedules were not set")


def _spread(project: Project, admin: LoadConnection) -> int:
    """Distribute the schedules over a period; return the time of the first. A new agent makes the kernel read them."""
    first_ms = time.time_ns() // 1_000_000 + MARGIN_MS
    store = apsw.Connection(str(project.state / DATABASE))
    store.set_busy_timeout(5000)
    store.execute(SPREAD, (first_ms, RATE))
    store.close()
    admin.call("POST", "/agents", {"name": "extra", "model": "mock/m", "mock": [{"text": "hi"}]})
    return first_ms


def _watched(pid: int, begin: float, seconds: int) -> tuple[list[float], float]:
    """Return the RSS in MiB of each second from ``begin``, and the mean CPU use in percent of a core."""
    kernel, sizes = psutil.Process(pid), list[float]()
    time.sleep(max(begin - time.time(), 0))
    before = cpu_seconds(pid)
    for number in range(1, seconds + 1):
        time.sleep(max(begin + number - time.time(), 0))
        sizes.append(kernel.memory_info().rss / MIB)
    used = (cpu_seconds(pid) - before) / seconds * 100
    time.sleep(1)
    return sizes, used


def _delays(project: Project, first_ms: int, until_ms: int) -> tuple[list[float], int]:
    """Return the delay in ms of each wake-up that was due before ``until_ms``, and the number of missed ones.

    A schedule is due again a period after the end of the agent's last attempt.
    """
    starts, ends = _rows(project, STARTS), _rows(project, ENDS)
    due = {f"a{number}": [first_ms + number * 1000 // RATE] for number in range(AGENTS)}
    for agent, ended_ms in ends:
        due[str(agent)].append(int(str(ended_ms)) + PERIOD_MS)
    started: defaultdict[str, list[int]] = defaultdict(list)
    for agent, at_ms in starts:
        started[str(agent)].append(int(str(at_ms)))
    pairs = [(times[n], started[name][n : n + 1]) for name, times in due.items() for n in range(len(times))]
    delays = [float(at - due_ms) for due_ms, found in pairs for at in found if due_ms < until_ms]
    return delays, sum(due_ms < until_ms and not found for due_ms, found in pairs)
