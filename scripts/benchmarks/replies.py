"""From a message to its durable reply: a fresh process each, the mock in place of a model."""

from collections.abc import Callable, Iterator

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import rate, timed
from scripts.benchmarks.running_kernel import MOCK, MeasuredProject, running

CLIENTS = 16
WARM_UP = 10
TIMES = 200
SECONDS = 5.0


def _serve(measured: MeasuredProject, number: int) -> Callable[[], object]:
    connection = measured.connect()

    def call() -> None:
        report = connection.call("POST", "/serve", {"to": f"a{number}", "text": "hello"})
        if [result["status"] for result in report["results"]] != ["done"]:
            raise RuntimeError(str(report))

    return call


def measure() -> Iterator[Figure]:
    """One agent for each client: an agent does one thing at a time."""
    with running({f".agents/a{number}.yaml": MOCK for number in range(CLIENTS)}) as measured:
        one = _serve(measured, 0)
        timed(one, WARM_UP)
        yield Figure("message to durable reply, p50 at 1 client", p50(timed(one, TIMES)), 10, "ms")
        at_once = rate(lambda number: _serve(measured, number), CLIENTS, SECONDS)
        yield Figure(f"messages replied to, {CLIENTS} clients", at_once, 250, "/s", least=True)
