"""Project of ten thousand agents: time of a first ``awk start``, then of ``awk status`` and ``awk ps``."""

import subprocess
import time
from collections.abc import Iterator

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import timed
from scripts.benchmarks.running_kernel import MOCK, empty_project
from tests.project import AWK

AGENTS = 10_000
TIMES = 9
PROMPTED = "backend: mock\nprompt: {{system_file: prompts/{0}.md}}\nmock:\n  - text: hi\n"


def measure() -> Iterator[Figure]:
    """Yield the figures. Half of the agents have their prompt in a separate file."""
    with empty_project() as project:
        (project.root / "prompts").mkdir()
        for number in range(AGENTS):
            name = f"a{number}"
            if number % 2:
                (project.root / f"prompts/{name}.md").write_text(f"You are {name}.")
            text = PROMPTED.format(name) if number % 2 else MOCK
            (project.root / f".agents/{name}.yaml").write_text(text)

        def run(*words: str) -> bytes:
            command = [str(AWK), *words]
            return subprocess.run(
                command, cwd=project.root, env=project.environ, check=True, capture_output=True
            ).stdout

        (started_ms,) = timed(lambda: run("start"), 1)
        yield Figure(f"awk start of {AGENTS} agents, ready", started_ms / 1000, 2, "s")
        deadline = time.perf_counter() + 60
        while b"still being read" in run("status") and time.perf_counter() < deadline:
            time.sleep(0.1)
        yield Figure(f"awk status of {AGENTS} agents, p50", p50(timed(lambda: run("status"), TIMES)), 150, "ms")
        yield Figure(
            f"awk ps --json of {AGENTS} agents, p50", p50(timed(lambda: run("ps", "--json"), TIMES)) / 1000, 1, "s"
        )
