"""Times that users wait for a command: from the start of its process to its exit."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import LoadConnection, timed
from scripts.benchmarks.running_kernel import MOCK, empty_project, running
from tests.project import AWK, Project

TIMES = 31
STARTS = 7


def _seconds_to_health(project: Project) -> float:
    """Return the seconds from ``awk start`` until /health answers, which happens before the command exits."""
    begin = time.perf_counter()
    deadline = begin + 30
    with project.spawn("start") as command:
        while time.perf_counter() < deadline:
            try:
                LoadConnection(project.record()["port"]).call("GET", "/health")
                break
            except (OSError, ValueError, RuntimeError):
                time.sleep(0.001)
        taken = time.perf_counter() - begin
        command.wait(timeout=30)
    project.stop()
    return taken


def _seconds_to_ready(project: Project) -> float:
    begin = time.perf_counter()
    project.awk("start")
    taken = time.perf_counter() - begin
    project.stop()
    return taken


def _seconds_to_reply(project: Project) -> float:
    """Return the seconds of ``awk send --wait`` if it has to start the kernel."""
    begin = time.perf_counter()
    said = project.awk("send", "a0", "hi", "--wait")
    taken = time.perf_counter() - begin
    if said.code:
        raise RuntimeError(said.err)
    project.stop()
    return taken


def measure_queries() -> Iterator[Figure]:
    """Yield the times of query commands."""
    with running({f".agents/a{number}.yaml": MOCK for number in range(5)}) as measured:
        environ = measured.project.environ

        def run(program: str | os.PathLike[str], *words: str) -> None:
            subprocess.run([program, *words], cwd=measured.project.root, env=environ, check=True, capture_output=True)

        run(AWK, "status")
        floor = p50(timed(lambda: run(sys.executable, "-I", "-c", "pass"), TIMES))
        for words, limit in ((("ps", "--json"), 50), (("ps",), 50), (("status",), 50)):
            taken_ms = p50(timed(partial(run, AWK, *words), TIMES))
            name = f"awk {' '.join(words)}, whole process, p50 (Python alone {floor:.0f})"
            yield Figure(name, taken_ms, limit, "ms")


def measure_ready() -> Figure:
    """Measure the time of ``awk start``."""
    with empty_project() as project:
        taken = [_seconds_to_ready(project) * 1000 for _ in range(STARTS)]
        return Figure("awk start to ready, p50", p50(taken), 300, "ms")


def measure() -> Iterator[Figure]:
    """Yield the times of query commands, of programs for the system's awk, and of starts."""
    yield from measure_queries()

    def passed_on() -> None:
        subprocess.run([AWK, "BEGIN { print 1 }"], check=True, capture_output=True, env=dict(os.environ))

    passed_on()
    yield Figure("awk program passed to the system's awk, p50", p50(timed(passed_on, TIMES)), 20, "ms")

    yield measure_ready()
    with empty_project() as project:
        taken = [_seconds_to_health(project) * 1000 for _ in range(STARTS)]
        yield Figure("awk start to /health, p50", p50(taken), 387, "ms")
        project.write(".agents/a0.yaml", MOCK)
        taken = [_seconds_to_reply(project) * 1000 for _ in range(STARTS)]
        yield Figure("awk send that starts the kernel, to its reply, p50", p50(taken), 1000, "ms")
