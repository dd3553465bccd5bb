"""Counters: the counted events, their labels, and the limit of label values. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple

LABEL_CHARACTERS: Final = 100
SERIES: Final = 60
"""Limit for one counter; later label values are counted together as OTHER, so that user-chosen names cannot flood a
metrics server. Existing series stay, so a counter never decreases."""
OTHER: Final = "other"


class CounterKey(NamedTuple):
    """Counter with its label values."""

    name: str
    labels: tuple[str, ...] = ()


class Counter(NamedTuple):
    """Counter of events of one type; labels are taken from the event's first and second attribute."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


COUNTED: Final[Mapping[str, Counter]] = {
    "message": Counter("messages", "Messages appended to the log."),
    "instruction.ended": Counter("instructions_ended", "Ended instructions, by status and cause.", ("status", "cause")),
    "instruction.queued": Counter("retries", "Retries after failed attempts, by cause.", ("cause",)),
    "instruction.step": Counter(
        "steps", "Entries of attempts (model replies and tool results), by kind and failure.", ("kind", "failed")
    ),
    "attempt.started": Counter("attempts_started", "Attempts started, by backend.", ("backend",)),
    "attempt.ended": Counter("attempts_ended", "Attempts ended, by outcome.", ("outcome",)),
    "approval.requested": Counter("approvals_requested", "Approval requests for tool calls."),
    "approval.decided": Counter(
        "approvals_decided", "Approval requests decided or expired, by decision.", ("decision",)
    ),
    "workflow.started": Counter("runs_started", "Runs started."),
    "workflow.stopped": Counter("runs_ended", "Runs ended, by status.", ("status",)),
    "merge.ended": Counter("merges_ended", "Merges ended, by state.", ("state",)),
    "webhook.failed": Counter("webhook_failures", "First and final failures of webhook deliveries."),
    "webhook.disabled": Counter("webhooks_disabled", "Webhooks disabled after HTTP status 410."),
    "kernel.started": Counter("kernel_starts", "Kernel starts, by how the previous kernel ended.", ("after",)),
    "kernel.service_failed": Counter("service_failures", "Failures of kernel services, by service.", ("service",)),
}
"""Counters by event type."""
_RETRIES: Final = frozenset({"instruction.queued"})
"""Events that count only with a cause; without one they are not retries."""


def label(text: str) -> str:
    """Return ``text`` as a label value: short and printable."""
    return "".join(one if one.isprintable() else "?" for one in text[:LABEL_CHARACTERS])


def count(values: MutableMapping[CounterKey, float], events: Iterable[tuple[str, str, str, int]]) -> set[CounterKey]:
    """Add ``events`` (type, first and second attribute, count) to ``values``, and return the changed keys."""
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
    """Return ``key``, or a key with the labels OTHER if its counter already has SERIES keys."""
    if key in values or sum(one.name == key.name for one in values) < SERIES:
        return key
    return CounterKey(key.name, tuple(OTHER for _ in key.labels))


BOUNDS_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds; longer durations are counted above the last one."""


class Durations:
    """Histogram of durations; one thread adds, others may read slightly outdated values."""

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration to the histogram."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds

    def buckets(self) -> Sequence[tuple[str, float]]:
        """Return upper bounds in seconds (as text), each with the number of durations up to it."""
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*map(str, BOUNDS_SECONDS), "+Inf"), tuple(self.counts), strict=True):
            so_far += count
            found.append((bound, float(so_far)))
        return found
