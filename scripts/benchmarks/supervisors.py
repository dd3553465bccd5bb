"""Comparison with circus and a loop of Popen: the time until WORKERS processes are ready, and our memory.

The others start a Python process that writes a file when it is ready. Our workers are ready when the kernel has stored
the start of their attempt.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.fleet import MIB, WAITS, WORKERS, files_of, from_nothing, send_all, until_all_run
from scripts.benchmarks.load import by_turns
from scripts.benchmarks.running_kernel import MOCK, SETTLE_SECONDS, running

ROUNDS: Final = 3
PROGRAM: Final = "import os, sys, time; open(f'{sys.argv[1]}/{os.getpid()}', 'w').close(); time.sleep(600)"
CIRCUS: Final = """
import json, sys
from circus import get_arbiter
folder, count, command = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
watcher = {"cmd": command[0], "args": command[1:], "numprocesses": count, "warmup_delay": 0, "name": "workers"}
points = {f"{name}_endpoint": f"ipc://{folder}/../{name}" for name in ("pubsub", "multicast")}
get_arbiter([watcher], controller=f"ipc://{folder}/../controller", pubsub_endpoint=points["pubsub_endpoint"]).start()
"""
EXEC: Final = 'backend: exec\ncommand: [sleep, "600"]\n'


def measure_supervisors(python: str) -> Iterator[Figure]:
    """Yield our times as shares of the others' times. ``python`` has circus."""
    starts: dict[str, Callable[[], float]] = {
        "ours": from_nothing,
        "circus": lambda: _circus(python),
        "bulk": _bulk,
        "loop": _loop,
    }
    taken = {name: p50(found) for name, found in by_turns(starts, ROUNDS).items()}
    print(f"     {WORKERS} processes: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in taken.items()), flush=True)
    share = taken["ours"] / taken["circus"]
    yield Figure(f"{WORKERS} workers from nothing, share of circus", share, 1.2, "x")
    share = taken["bulk"] / taken["loop"]
    yield Figure(f"{WORKERS} workers by one bulk POST, share of a Popen loop", share, 0.6, "x")


def measure_memory() -> Iterator[Figure]:
    """Yield the PSS of an idle kernel with its zygote, and of all processes that supervise WORKERS exec workers."""
    with running({".agents/a0.yaml": MOCK}) as measured:
        time.sleep(SETTLE_SECONDS)
        yield Figure("PSS of an idle kernel and its zygote", _pss(measured.pid), 50, "MiB")
    with running(files_of(EXEC)) as measured:
        send_all(measured)
        deadline = time.perf_counter() + 60
        while _sleeping(measured.pid) < WORKERS and time.perf_counter() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        yield Figure(f"PSS of {WORKERS} exec workers with their kernel", _pss(measured.pid), 60, "MiB")


def _bulk() -> float:
    """Return the milliseconds from one POST of WORKERS messages until all workers run, on an idle kernel."""
    with running(files_of(WAITS)) as measured:
        connection = measured.connect()
        connection.call("GET", "/status")
        time.sleep(SETTLE_SECONDS)
        begin = time.perf_counter()
        connection.call("POST", "/messages", {"messages": [{"to": f"a{n}", "text": "x"} for n in range(WORKERS)]})
        until_all_run(measured)
        return (time.perf_counter() - begin) * 1000


@contextmanager
def _ready_folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        (Path(folder) / "ready").mkdir()
        yield Path(folder) / "ready"


def _until_ready(folder: Path, begin: float) -> float:
    while sum(1 for _ in folder.iterdir()) < WORKERS:
        if time.perf_counter() - begin > 60:
            raise TimeoutError(f"{sum(1 for _ in folder.iterdir())} of {WORKERS} processes are ready")
        time.sleep(0.002)
    return (time.perf_counter() - begin) * 1000


def _circus(python: str) -> float:
    """Return the milliseconds from the start of circus until all its processes are ready."""
    with _ready_folder() as folder, open(folder.parent / "log", "w") as log:
        command = f'["{sys.executable}", "-I", "-c", "{PROGRAM}", "{folder}"]'
        begin = time.perf_counter()
        words = [python, "-I", "-c", CIRCUS, str(folder), str(WORKERS), command]
        with subprocess.Popen(words, stdout=log, stderr=log) as arbiter:
            try:
                return _until_ready(folder, begin)
            finally:
                for child in psutil.Process(arbiter.pid).children(recursive=True):
                    child.kill()
                arbiter.kill()


def _loop() -> float:
    """Return the milliseconds of a loop that starts the processes, until all are ready."""
    with _ready_folder() as folder:
        begin = time.perf_counter()
        started = [subprocess.Popen([sys.executable, "-I", "-c", PROGRAM, str(folder)]) for _ in range(WORKERS)]
        try:
            return _until_ready(folder, begin)
        finally:
            for process in started:
                process.kill()
                process.wait()


def _tree(pid: int) -> list[psutil.Process]:
    kernel = psutil.Process(pid)
    return [kernel, *kernel.children(recursive=True)]


def _sleeping(pid: int) -> int:
    return sum(process.name() == "sleep" for process in _tree(pid))


def _pss(pid: int) -> float:
    return sum(process.memory_full_info().pss for process in _tree(pid)) / MIB
