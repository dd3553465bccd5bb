"""Cost of a standby copy of the log: message rate and latency of a kernel with a standby and of one without."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import by_turns, rate, timed
from scripts.benchmarks.running_kernel import MeasuredProject, running

CLIENTS = 16
SECONDS = 3.0
ROUNDS = 5
SHORT_ROUNDS = 20
TIMES = 40
FILES = {".agents/busy.yaml": "backend: human\nlimits: { queue: 1000000 }\n"}


def _said(measured: MeasuredProject) -> Callable[[int], Callable[[], object]]:
    def client(_: int) -> Callable[[], object]:
        connection = measured.connect()
        return lambda: connection.call("POST", "/messages", {"to": "busy", "text": "x" * 200})

    return client


def measure() -> Iterator[Figure]:
    """Yield the figures. The two kernels alternate, so that a slow phase of the machine affects both."""
    with tempfile.TemporaryDirectory(prefix="awk-bench-far-") as far:
        copied = FILES | {".agents.yaml": f"standby: {{to: {far}, every: 1s}}\n"}
        with running(FILES) as plain, running(copied) as with_copy:
            both = {"plain": plain, "copied": with_copy}
            lags: list[float] = []
            stop = threading.Event()
            watching = threading.Thread(target=_watch, args=(plain, with_copy, lags, stop), daemon=True)
            watching.start()
            rates = by_turns({name: partial(rate, _said(one), CLIENTS, SECONDS) for name, one in both.items()}, ROUNDS)
            stop.set()
            watching.join()
            says = {name: partial(timed, _said(one)(0), TIMES) for name, one in both.items()}
            times = {name: list(map(p50, taken)) for name, taken in by_turns(says, SHORT_ROUNDS).items()}
            share = p50(rates["copied"]) / p50(rates["plain"])
            yield Figure("messages/s with a copy, share of without", share, 0.9, "x", least=True)
            longer = p50(times["copied"]) / p50(times["plain"])
            yield Figure("a message with a copy, p50 against without", longer, 1.1, "x")
            yield Figure("the copy is behind under full load, at most", max(lags), 5.0, "s")


def _watch(plain: MeasuredProject, copied: MeasuredProject, lags: list[float], stop: threading.Event) -> None:
    """Append the copy's lag in seconds to ``lags`` until ``stop`` is set. Both kernels get the same query load."""
    connections = plain.connect(), copied.connect()
    while not stop.wait(0.5):
        _, told = [connection.call("GET", "/status")["standby"] for connection in connections]
        if told["state"] == "following":
            lags.append(float(told["lag_seconds"]))
