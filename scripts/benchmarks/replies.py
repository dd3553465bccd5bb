"""Time and rate of messages with a durable reply by the mock backend, and the rate of durable entries."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from scripts.benchmarks.figure import Figure, p50, p99
from scripts.benchmarks.load import rate, timed, together
from scripts.benchmarks.running_kernel import MOCK, MeasuredProject, running

CLIENTS = 16
WARM_UP = 10
TIMES = 300
SECONDS = 5.0
ENTRIES: Final = 300
_PROGRAM: Final = f"""\
import json, os, sys, time

def say(**frame):
    print(json.dumps(frame), flush=True)

def hear(*kinds):
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["t"] in kinds:
            return frame
    sys.exit("the kernel is gone")

say(t="ready", pid=os.getpid(), version="1")
first = hear("start").get("first_k", 0)
begin = time.monotonic()
for k in range(first, first + {ENTRIES}):
    say(t="entry", k=k, kind="reply", text="step", stop_reason="end_turn")
    hear("go", "yield")
say(t="result", status="done", text=f"{{begin}} {{time.monotonic()}}")
"""
ENTRY_FILES: Final = {"steps.py": _PROGRAM} | {
    f".agents/s{number}.yaml": f"backend: exec\ncommand: [python3, ./steps.py]\nmax_steps: {2 * ENTRIES}\n"
    for number in range(CLIENTS)
}
"""Files of agents whose program writes ENTRIES entries; each is durable before the next one."""


def serve(measured: MeasuredProject, agent: str) -> Callable[[], Any]:
    """Return a function that sends a message to ``agent``, waits for the reply, and returns the reply's text."""
    connection = measured.connect()

    def call() -> Any:
        report = connection.call("POST", "/serve", {"to": agent, "text": "hello"})
        if [result["status"] for result in report["results"]] != ["done"]:
            raise RuntimeError(str(report))
        return report["results"][0]["text"]

    return call


def entries_rate(measured: MeasuredProject, workers: int) -> float:
    """Return the durable entries per second of ``workers`` concurrent workers, from the first entry to the last."""
    said = together([serve(measured, f"s{number}") for number in range(workers)])
    spans = [tuple(map(float, text.split())) for text in said]
    return workers * ENTRIES / (max(end for _, end in spans) - min(begin for begin, _ in spans))


def measure() -> Iterator[Figure]:
    """Yield the figures. Each client has its own agent, because an agent executes one instruction at a time."""
    with running({f".agents/a{number}.yaml": MOCK for number in range(CLIENTS)} | ENTRY_FILES) as measured:
        one = serve(measured, "a0")
        timed(one, WARM_UP)
        taken = timed(one, TIMES)
        yield Figure("message to durable reply, p50 at 1 client", p50(taken), 5.5, "ms")
        yield Figure("message to durable reply, p99 as a share of p50", p99(taken) / p50(taken), 2, "x")
        at_once = rate(lambda number: serve(measured, f"a{number}"), CLIENTS, SECONDS)
        yield Figure(f"messages replied to, {CLIENTS} clients", at_once, 300, "/s", least=True)
        entries = p50([entries_rate(measured, CLIENTS) for _ in range(3)])
        yield Figure(f"durable entries, {CLIENTS} workers, p50 of 3", entries, 1500, "/s", least=True)
