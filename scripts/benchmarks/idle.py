"""The cost of agents that have nothing to do."""

from collections.abc import Iterator

from scripts.benchmarks.figure import Figure
from scripts.benchmarks.running_kernel import MOCK, cpu_share, running

AGENTS = 200


def measure() -> Iterator[Figure]:
    """Watch a kernel of many agents for half a minute."""
    with running({f".agents/a{number}.yaml": MOCK for number in range(AGENTS)}) as measured:
        measured.connect().call("GET", "/ps")
        yield Figure(f"{AGENTS} idle agents", cpu_share(measured.pid), 0.2, "% core")
