"""Counters: which events are counted, by what, and how many different values a label may have. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple

LABEL_CHARACTERS: Final = 100
SERIES: Final = 60
"""Of one counter: whatever comes after so many is counted together, so that names somebody chose cannot fill a
server of metrics. Those that came first stay, so a counter never falls."""
OTHER: Final = "other"


class CounterKey(NamedTuple):
    """A counter with the values of its labels."""

    name: str
    labels: tuple[str, ...] = ()


class Counter(NamedTuple):
    """A counter of events of one type. Labels are of the one thing that these differ in, and the other."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


COUNTED: Final[Mapping[str, Counter]] = {
    "message": Counter("messages", "Messages that were appended to the log."),
    "instruction.ended": Counter(
        "instructions_ended", "Instructions that ended, each time, by how and why.", ("status", "cause")
    ),
    "instruction.queued": Counter("retries", "Attempts that failed and were followed by another.", ("cause",)),
    "instruction.step": Counter("steps", "Entries: replies of models, results of tools.", ("kind", "failed")),
    "attempt.started": Counter("attempts_started", "Workers that began an attempt.", ("backend",)),
    "attempt.ended": Counter("attempts_ended", "Attempts that ended, by how.", ("outcome",)),
    "approval.requested": Counter("approvals_requested", "Calls that somebody was asked to allow."),
    "approval.decided": Counter("approvals_decided", "Requests that were decided, or expired.", ("decision",)),
    "workflow.started": Counter("runs_started", "Runs that began."),
    "workflow.stopped": Counter("runs_ended", "Runs that ended, by how.", ("status",)),
    "merge.ended": Counter("merges_ended", "Landings that ended, by how.", ("state",)),
    "webhook.failed": Counter("webhook_failures", "Deliveries that failed for the first time or the last."),
    "webhook.disabled": Counter("webhooks_disabled", "Webhooks that ended with a 410."),
    "kernel.started": Counter("kernel_starts", "Kernels that took over, by how the one before ended.", ("after",)),
    "kernel.service_failed": Counter("service_failures", "Failures of services of the kernel.", ("service",)),
}
"""By type of event."""
_RETRIES: Final = frozenset({"instruction.queued"})
"""Counted only where the one thing is said: all else of this type is no retry."""


def label(text: str) -> str:
    """``text`` as the value of a label: short, and of what can be printed."""
    return "".join(one if one.isprintable() else "?" for one in text[:LABEL_CHARACTERS])


def count(values: MutableMapping[CounterKey, float], events: Iterable[tuple[str, str, str, int]]) -> set[CounterKey]:
    """Add ``events`` (type, the one thing, the other, how many) to ``values``. Returns what changed."""
    changed: set[CounterKey] = set()
    for type_, one, other, n in events:
        if type_ in _RETRIES and not one:
            continue
        counter = COUNTED[type_]
        labels = tuple(map(label, (one, other)[: len(counter.labels)]))
        key = bounded(values, CounterKey(counter.name, labels))
        values[key] = values.get(key, 0.0) + n
        changed.add(key)
    return changed


def bounded(values: Mapping[CounterKey, float], key: CounterKey) -> CounterKey:
    """``key``, or the one that stands for all that came later than the first SERIES of its counter."""
    if key in values or sum(one.name == key.name for one in values) < SERIES:
        return key
    return CounterKey(key.name, tuple(OTHER for _ in key.labels))


BOUNDS_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds; what takes longer than the last is counted above it."""


class Durations:
    """A histogram. One thread adds; others may read meanwhile, and see it a moment old."""

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds

    def buckets(self) -> Sequence[tuple[str, float]]:
        """Upper bounds as text, each with how many took no longer; the last is all of them."""
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*map(str, BOUNDS_SECONDS), "+Inf"), tuple(self.counts), strict=True):
            so_far += count
            found.append((bound, float(so_far)))
        return found
