"""CPU time of a message, as a share of that of another checkout (``--beside DIR``, with its own ``.venv``)."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import by_turns
from scripts.benchmarks.replies import serve
from scripts.benchmarks.running_kernel import MOCK, MeasuredProject, empty_project
from tests.project import AWK

MESSAGES: Final = 200
ROUNDS: Final = 5


def measure_beside(other: Path) -> Iterator[Figure]:
    """Yield the ratio of the CPU times of a message. Both kernels run, and work in turn."""
    with ExitStack() as stack:
        kernels = {"ours": _started(stack, AWK), "other": _started(stack, other / ".venv/bin/awk")}
        used = by_turns({name: partial(_cpu_ms, kernel) for name, kernel in kernels.items()}, ROUNDS)
    ours, others = p50(used["ours"][1:]), p50(used["other"][1:])  # the first round loads modules
    print(f"     CPU of a message: {ours:.2f} ms, {others:.2f} ms in {other.name}", flush=True)
    yield Figure(f"CPU of a message, share of {other.name}", ours / others, 1, "x")


def _started(stack: ExitStack, awk: Path) -> MeasuredProject:
    project = stack.enter_context(empty_project())
    project.write(".agents/a0.yaml", MOCK)
    command = [str(awk), "start", "--trust"]
    subprocess.run(command, cwd=project.root, env=project.environ, check=True, capture_output=True)
    record = project.record()
    return MeasuredProject(project, record["port"], record["token"], record["pid"])


def _cpu_ms(measured: MeasuredProject) -> float:
    """Return the CPU milliseconds of one of MESSAGES messages, by all processes of the kernel, also exited ones."""
    send, before = serve(measured, "a0"), _cpu_seconds(measured.pid)
    for _ in range(MESSAGES):
        send()
    return (_cpu_seconds(measured.pid) - before) * 1000 / MESSAGES


def _cpu_seconds(pid: int) -> float:
    kernel = psutil.Process(pid)
    return sum(sum(process.cpu_times()[:4]) for process in (kernel, *kernel.children(recursive=True)))
