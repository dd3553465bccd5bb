"""Metrics of the kernel as text for Prometheus.

No label names an agent, space or person. Names of backends and models are limited in length and
number, without unprintable characters. The first scrape imports this module and its library.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kernel.operations.context import KernelNumbers
from kernel.policy.metrics import COUNTED, OTHER, SERIES, Durations, label
from kernel.store.metrics import Gauges, KeptCounters, ModelSpending
from protocol.standby import StandbyState

PREFIX: Final = "agent_worker_"
KINDS: Final = ("input", "output", "cache_read", "cache_write")


class Scrape(msgspec.Struct, frozen=True, kw_only=True):
    """Data of one scrape. ``at``: seconds since 1970."""

    at: float
    counted: KeptCounters
    now: Gauges
    numbers: KernelNumbers
    version: str
    uptime_seconds: float
    ready: bool
    safe_mode: bool
    workers_running: int
    workers_kept: int
    needs: int
    streams: int
    standby: StandbyState | None = None


class _Observed(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()  # needed only to detect two collectors of one registry


def expose_text(scrape: Scrape, accept: str) -> tuple[bytes, str]:
    """Return the text of ``scrape`` in the format that ``accept`` requests, and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    families = (*_of_kernel(scrape), *_of_work(scrape.now, scrape.at), *_of_log(scrape))
    counters = (*_counted(scrape.counted), *_spent(scrape.now.spent, scrape.counted.since_ms / 1000))
    registry.register(_Observed((*families, *counters)))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", help, value=value)


def _gauges(name: str, help: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", help, labels=labels)
    for values, value in {tuple(map(label, values)): value for values, value in sorted(rows)[:SERIES]}.items():
        family.add_metric(values, value)
    return family


def _histogram(name: str, help: str, durations: Durations) -> Metric:
    buckets = durations.buckets()
    return HistogramMetricFamily(f"{PREFIX}{name}", help, buckets=buckets, sum_value=durations.total_seconds)


def _of_kernel(scrape: Scrape) -> Iterator[Metric]:
    yield InfoMetricFamily(PREFIX.rstrip("_"), "This kernel.", value={"version": scrape.version})
    yield _gauge("uptime_seconds", "Time since the kernel started.", scrape.uptime_seconds)
    yield _gauge("ready", "1 if work is leased, otherwise 0.", float(scrape.ready))
    yield _gauge(
        "safe_mode",
        "1 if no work starts because previous kernels crashed repeatedly, otherwise 0.",
        float(scrape.safe_mode),
    )
    yield _gauge("workers_running", "Workers that run an attempt.", scrape.workers_running)
    yield _gauge("workers_kept", "Idle workers kept for another attempt of their agent.", scrape.workers_kept)
    yield _gauge("needs", "Needs that wait for a person, as in awk needs.", scrape.needs)
    yield _gauge("streams", "Clients that follow events, and commands that wait for an event.", scrape.streams)
    yield _histogram(
        "event_loop_turn_seconds",
        "Duration of event loop turns, during which other requests wait.",
        scrape.numbers.turns,
    )
    yield _histogram("commit_seconds", "Duration of commits until they are durable.", scrape.numbers.commits)


def _of_work(now: Gauges, at: float) -> Iterator[Metric]:
    queued = sum(count for count, _ in now.queued.values())
    states = {"queued": queued, "working": now.working, "waiting": sum(now.waiting.values())}
    yield _gauges(
        "instructions", "Unfinished instructions by state.", ("state",), (((k,), v) for k, v in states.items())
    )
    yield _gauges(
        "queue_depth", "Instructions that wait in a lane.", ("lane",), (((k,), v[0]) for k, v in now.queued.items())
    )
    yield _gauges(
        "queue_oldest_age_seconds", "Waiting time of the oldest instruction by lane.", ("lane",),
        (((lane,), max(0.0, at - since_ms / 1000) if since_ms else 0.0) for lane, (_, since_ms) in now.queued.items()),
    )  # fmt: skip
    yield _gauges(
        "waiting",
        "Instructions that cannot continue now, by reason.",
        ("reason",),
        (((k,), v) for k, v in now.waiting.items()),
    )
    yield _gauge("attempts_open", "Attempts with running processes.", now.attempts)
    yield _gauges("agents", "Agents.", ("state",), (((state,), n) for state, (n, _) in now.agents.items()))
    yield _gauges(
        "agent_restarts", "Restarts of agents by state.", ("state",),
        (((state,), again) for state, (_, again) in now.agents.items()),
    )  # fmt: skip
    yield _gauge("approvals_open", "Tool calls that wait for approval.", now.approvals)
    yield _gauge("runs_running", "Running workflows.", now.runs)
    yield _gauge("merges_open", "Unfinished merges.", now.landings)
    # Keys and their digests are never shown: accounts of one provider are counted together.
    circuits: Counter[tuple[str, ...]] = Counter()
    for one in now.breakers:
        provider, _, account = one.key.partition("#")
        circuits[provider, account.partition("/")[2], one.state] += 1
    yield _gauges(
        "provider_circuits",
        "Circuit breakers of providers with recent failures, by state.",
        ("provider", "model", "state"),
        circuits.items(),
    )


def _of_log(scrape: Scrape) -> Iterator[Metric]:
    now, numbers, at = scrape.now, scrape.numbers, scrape.at
    failing_ms = now.traces_failing_ms
    yield _gauge("webhooks_pending", "Failed deliveries that will be retried.", now.webhook_retries)
    yield _gauge("webhooks_ended", "Webhooks whose receivers answered 410.", now.webhooks_ended)
    yield _gauge("traces_behind_events", "Events that were not yet exported to the trace collector.", now.traces_behind)
    yield _gauge(
        "traces_failing_seconds", "Time since the first failed trace export; 0 while exports succeed.",
        0.0 if failing_ms is None else max(0.0, at - failing_ms / 1000),
    )  # fmt: skip
    yield _gauge("traces_dropped_events", "Events whose spans the collector refused permanently.", now.traces_dropped)
    if (copy := scrape.standby) is not None:
        yield _gauge(
            "standby_lag_seconds", "Age of the oldest commit that is not in the standby copy.", copy.lag_seconds
        )
        yield _gauge("standby_following", "1 if the standby copy is up to date, 0 if it is being created or blocked.",
                     float(copy.state == "following"))  # fmt: skip
        yield _gauge("standby_newest_event", "Number of the newest event in the standby copy.", copy.event)
    yield _gauge("metrics_behind_events", "Events that are not yet counted in these metrics.", numbers.counters.behind)
    yield _gauge("log_newest_event", "Number of the newest event.", now.newest_event)
    yield _gauge("log_oldest_event", "Number of the oldest event in the log.", now.oldest_event)
    yield _gauge("log_oldest_event_timestamp_seconds", "Time of the oldest event in the log.", now.oldest_ms / 1000)
    yield _gauge("retention_seconds", "Retention of ended work.", numbers.retention_seconds())
    yield _gauge("database_bytes", "Size of the database.", now.database_bytes)
    yield _gauge("database_free_bytes", "Free pages of the database.", now.free_bytes)
    yield _gauge("disk_free_bytes", "Free space on the database's disk.", numbers.free_bytes())


def _counted(counted: KeptCounters) -> Iterator[Metric]:
    for counter in COUNTED.values():
        family = CounterMetricFamily(f"{PREFIX}{counter.name}", counter.help, labels=counter.labels)
        found = {key.labels: value for key, value in counted.values.items() if key.name == counter.name}
        if not counter.labels:
            found.setdefault((), 0.0)
        for labels, value in found.items():
            family.add_metric(labels, value, created=counted.since_ms / 1000)
        yield family


def _spent(spent: tuple[ModelSpending, ...], since: float) -> Iterator[Metric]:
    tokens = CounterMetricFamily(f"{PREFIX}tokens", "Recorded tokens.", labels=("backend", "model", "kind"))
    cost = CounterMetricFamily(
        f"{PREFIX}cost_usd", "Recorded cost of usage with a known price.", labels=("backend", "model")
    )
    sums: dict[tuple[str, str], list[float]] = {}
    for place, one in enumerate(spent):
        names = (label(one.backend), label(one.model)) if place < SERIES else (OTHER, OTHER)
        amounts = sums.setdefault(names, [0.0] * 5)
        usage = one.usage
        for at, amount in enumerate(
            (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.cost_usd)
        ):
            amounts[at] += amount or 0.0
    for names, amounts in sums.items():
        for kind, amount in zip(KINDS, amounts, strict=False):
            tokens.add_metric([*names, kind], amount, created=since)
        cost.add_metric(names, amounts[-1], created=since)
    yield tokens
    yield cost
