"""Cost of fifty concurrent workers of a real kernel: start, wait, kill and stop; and CPU of idle agents."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.running_kernel import MOCK, SETTLE_SECONDS, MeasuredProject, cpu_share, running
from tests.project import Project

WORKERS = 50
IDLE = 200
CLIENTS = 8
ROUNDS = 3
KILLS = 7
MIB = 1024 * 1024
LIMITS = f"limits: {{ workers: {2 * WORKERS} }}\n"
WAITS = "backend: mock\nmock:\n  - sleep: 600\n"
NEVER_SPEAKS = 'backend: exec\ncommand: [sleep, "600"]\n'


def measure() -> Iterator[Figure]:
    """Yield the figures, each from a new project with its own kernel."""
    yield Figure(
        f"{WORKERS} workers from nothing, p50 of {ROUNDS}", p50([from_nothing() for _ in range(ROUNDS)]), 900, "ms"
    )
    rounds = [_running() for _ in range(ROUNDS)]
    yield Figure(f"{WORKERS} workers on a running kernel, p50 of {ROUNDS}", p50(rounds), 300, "ms")
    yield from _waiting()
    yield Figure(f"kill -9 to the next worker, p50 of {KILLS}", p50(_first_restarts()), 60, "ms")
    yield from _exec_workers()
    with running({f".agents/a{number}.yaml": MOCK for number in range(IDLE)}) as measured:
        measured.connect().call("GET", "/ps")
        yield Figure(f"{IDLE} idle agents", cpu_share(measured.pid), 0.2, "% core")


def files_of(text: str, count: int = WORKERS) -> dict[str, str]:
    """Return the files of a project with ``count`` agents a0, a1, ..., each defined by ``text``."""
    return {".agents.yaml": LIMITS, **{f".agents/a{number}.yaml": text for number in range(count)}}


def send_all(measured: MeasuredProject, count: int = WORKERS) -> None:
    """Send a message to each of ``count`` agents, with CLIENTS clients."""

    def send(first: int) -> None:
        connection = measured.connect()
        for number in range(first, count, CLIENTS):
            connection.call("POST", "/messages", {"to": f"a{number}", "text": "x"})

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(send, range(CLIENTS)))


def until_all_run(measured: MeasuredProject, count: int = WORKERS) -> None:
    """Wait until ``count`` attempts have started."""
    with measured.events("since=0&type=attempt.started") as started:
        for _ in range(count):
            next(started)


def from_nothing() -> float:
    """Return the milliseconds from ``awk start`` until all workers run."""
    begin = time.perf_counter()
    with running(files_of(WAITS)) as measured:
        send_all(measured)
        until_all_run(measured)
        return (time.perf_counter() - begin) * 1000


def _running() -> float:
    """Return the milliseconds from the first message until all workers run, after SETTLE_SECONDS of an idle kernel."""
    with running(files_of(WAITS)) as measured:
        time.sleep(SETTLE_SECONDS)
        begin = time.perf_counter()
        send_all(measured)
        until_all_run(measured)
        return (time.perf_counter() - begin) * 1000


def _waiting() -> Iterator[Figure]:
    """Yield the CPU share of the kernel and its workers while all workers sleep."""
    with running(files_of(WAITS)) as measured:
        send_all(measured)
        until_all_run(measured)
        yield Figure(f"{WORKERS} waiting workers", cpu_share(measured.pid), 0.2, "% core")


def _first_restarts() -> list[float]:
    """Return the milliseconds from SIGKILL of each worker until the next attempt of its agent starts."""
    taken: list[float] = []
    with running(files_of(WAITS, KILLS)) as measured:
        send_all(measured, KILLS)
        until_all_run(measured, KILLS)
        time.sleep(SETTLE_SECONDS)
        pids = [row["pid"] for row in measured.connect().call("GET", "/ps")["agents"]]
        with measured.events("since=0&type=attempt.started") as started:
            for _ in range(KILLS):
                next(started)
            for pid in pids:
                begin = time.perf_counter()
                os.kill(pid, signal.SIGKILL)
                next(started)
                taken.append((time.perf_counter() - begin) * 1000)
    return taken


def _exec_workers() -> Iterator[Figure]:
    """Yield the memory of the keepers of ``exec`` workers without output, and the time to stop these workers."""
    with running(files_of(NEVER_SPEAKS)) as measured:
        send_all(measured)
        deadline = time.perf_counter() + 30
        while len(keepers := _keepers(measured.pid)) < WORKERS:
            assert time.perf_counter() < deadline, f"{len(keepers)} of {WORKERS} keepers"
            time.sleep(0.05)
        time.sleep(1)
        kept = sum(psutil.Process(pid).memory_full_info().pss for pid in keepers) / MIB
        yield Figure(f"PSS of the keepers of {WORKERS} exec workers", kept, 60, "MiB")
        yield Figure(f"stop of {WORKERS} exec workers", _stop_seconds(measured.project), 1.5, "s")


def _keepers(kernel: int) -> list[int]:
    """Return the pids of the kernel's keeper processes that have started their worker."""
    found: list[int] = []
    for process in psutil.Process(kernel).children(recursive=True):
        words = Path(f"/proc/{process.pid}/cmdline")
        if words.exists() and b"keeper i" in words.read_bytes():
            found.append(process.pid)
    return found


def _stop_seconds(project: Project) -> float:
    begin = time.perf_counter()
    stopped = project.awk("stop", "--yes")
    assert stopped.code == 0, stopped.err
    return time.perf_counter() - begin
