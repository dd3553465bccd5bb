"""Cost of the history index for an accepted message: a kernel with the index compared with one without."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from kernel.services.recall import FILE
from scripts.benchmarks.figure import Figure, p50, p99
from scripts.benchmarks.load import SECONDS, timed
from scripts.benchmarks.running_kernel import MEMBER, MeasuredProject, cpu_seconds, empty_project
from tests.project import Project

ROUNDS: Final = 40
BLOCK: Final = 100
"""Number of messages to one kernel before the next messages go to the other kernel."""
WORDS: Final = 30
VOCABULARY: Final = 5000
LAST: Final = "quokka"
"""Word that only the last message contains. When a search finds it, all messages are indexed."""
TEAM: Final = f"agents:\n  busy: {{ {MEMBER} }}\n"


def measure() -> Iterator[Figure]:
    """Yield the ratios of latency and CPU. All messages go to a busy agent, so they are indexed but start no work."""
    rng = random.Random(1)
    with ExitStack() as stack:
        indexed = stack.enter_context(_running("kernel"))
        plain = stack.enter_context(_running("scripts.benchmarks.unindexed"))
        says = [_says(one, rng) for one in (indexed, plain)]
        for say in says:
            timed(say, BLOCK)
        spent = [cpu_seconds(one.pid) for one in (indexed, plain)]
        taken: list[list[list[float]]] = [[], []]
        for number in range(ROUNDS):
            for turn in (0, 1) if number % 2 else (1, 0):
                taken[turn].append(timed(says[turn], BLOCK))
        _caught_up(indexed)
        if (plain.project.state / FILE).exists():
            raise RuntimeError("the kernel that should index nothing has an index")
        used = [cpu_seconds(one.pid) - before for one, before in zip((indexed, plain), spent, strict=True)]
        with_it, without = taken
        ratios = [p50(one) / p50(other) for one, other in zip(with_it, without, strict=True)]
        yield Figure("accepted message, p50, indexed over not", p50(ratios), 1.05, "x")
        tails = [p99([value for block in blocks for value in block]) for blocks in taken]
        yield Figure("accepted message, p99, indexed over not", tails[0] / tails[1], 1.5, "x")
        yield Figure("kernel's CPU for it until it can be found, over not", used[0] / used[1], 1.5, "x")


@contextmanager
def _running(module: str) -> Generator[MeasuredProject]:
    """Start ``python -m module`` as the kernel of a new project, and yield the project when its agent is busy."""
    with empty_project() as project:
        project.write(".workflows/bench.yaml", TEAM)
        command = [sys.executable, "-m", module, "--project", str(project.root), "--trust"]
        with (project.state_home / "kernel.out").open("wb") as out:
            kernel = subprocess.Popen(command, env=project.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            record = _record(project, kernel)
            measured = MeasuredProject(project, record["port"], record["token"], kernel.pid)
            if (started := project.awk("start", "bench", "--trust")).code:
                raise RuntimeError(started.err)
            sent = measured.connect().call("POST", "/messages", {"to": "busy@bench", "text": "sleep"})
            measured.until_leased(sent["instruction_ids"][0])
            yield measured
        finally:
            project.stop()
            kernel.wait(SECONDS)


def _record(project: Project, kernel: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """Wait until the kernel has written its record, and return the record. Raises RuntimeError."""
    deadline = time.monotonic() + SECONDS
    while kernel.poll() is None and time.monotonic() < deadline:
        with suppress(OSError, ValueError):
            record = project.record()
            if record["pid"] == kernel.pid:
                return record
        time.sleep(0.02)
    raise RuntimeError(f"no kernel: {(project.state_home / 'kernel.out').read_text()}")


def _says(measured: MeasuredProject, rng: random.Random) -> Callable[[], object]:
    """Return a function that sends a message of WORDS random words to the agent."""
    connection = measured.connect()

    def say() -> None:
        text = " ".join(f"w{rng.randrange(VOCABULARY)}" for _ in range(WORDS))
        connection.call("POST", "/messages", {"to": "@bench", "text": f"@busy {text}"})

    return say


def _caught_up(measured: MeasuredProject) -> None:
    """Send a message with LAST and wait until a search finds it."""
    connection = measured.connect()
    connection.call("POST", "/messages", {"to": "@bench", "text": f"@busy {LAST}"})
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = connection.call("GET", f"/agents/busy@bench/thread/search?query={LAST}")
        if found["total"] and not found["behind"]:
            return
        time.sleep(0.1)
    raise RuntimeError("what was said is not found")
