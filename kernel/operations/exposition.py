"""Numbers of the kernel as text for Prometheus: what one scrape shows, by families of metrics.

Names of agents, spaces and people are no labels: what somebody chose is bounded in length and number, and whatever
cannot be printed is replaced. Imported with the first scrape, as the library is.
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
    """Everything that one scrape shows. ``at``: seconds since 1970."""

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
        return ()  # it is registered once


def expose_text(scrape: Scrape, accept: str) -> tuple[bytes, str]:
    """The text of ``scrape`` in the format that ``accept`` asks for, and its type."""
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
    yield _gauge("uptime_seconds", "Since this kernel began.", scrape.uptime_seconds)
    yield _gauge("ready", "1: work is leased.", float(scrape.ready))
    yield _gauge("safe_mode", "1: no work is begun, for the kernels before kept dying.", float(scrape.safe_mode))
    yield _gauge("workers_running", "Workers that carry out an attempt.", scrape.workers_running)
    yield _gauge("workers_kept", "Workers that wait for another attempt of their agent.", scrape.workers_kept)
    yield _gauge("needs", "Things that wait for a person, as awk needs has them.", scrape.needs)
    yield _gauge("streams", "Clients that follow events, and commands that wait for one.", scrape.streams)
    yield _histogram(
        "event_loop_turn_seconds", "Turns of the event loop: meanwhile all else waits.", scrape.numbers.turns
    )
    yield _histogram("commit_seconds", "Commits of the writer, until they are durable.", scrape.numbers.commits)


def _of_work(now: Gauges, at: float) -> Iterator[Metric]:
    queued = sum(count for count, _ in now.queued.values())
    states = {"queued": queued, "working": now.working, "waiting": sum(now.waiting.values())}
    yield _gauges(
        "instructions", "Instructions that have not ended.", ("state",), (((k,), v) for k, v in states.items())
    )
    yield _gauges(
        "queue_depth",
        "Instructions that wait for their turn.",
        ("lane",),
        (((k,), v[0]) for k, v in now.queued.items()),
    )
    yield _gauges(
        "queue_oldest_age_seconds", "For how long the first of them has been waiting.", ("lane",),
        (((lane,), max(0.0, at - since_ms / 1000) if since_ms else 0.0) for lane, (_, since_ms) in now.queued.items()),
    )  # fmt: skip
    yield _gauges(
        "waiting", "Instructions that cannot go on now.", ("reason",), (((k,), v) for k, v in now.waiting.items())
    )
    yield _gauge("attempts_open", "Attempts whose processes are not gone.", now.attempts)
    yield _gauges("agents", "Agents.", ("state",), (((state,), n) for state, (n, _) in now.agents.items()))
    yield _gauges(
        "agent_restarts", "How often agents were started again, as their rows say.", ("state",),
        (((state,), again) for state, (_, again) in now.agents.items()),
    )  # fmt: skip
    yield _gauge("approvals_open", "Calls that wait for a decision.", now.approvals)
    yield _gauge("runs_running", "Runs and workflows that run.", now.runs)
    yield _gauge("merges_open", "Landings that have not ended.", now.landings)
    # Of a key nothing is shown, not even its digest: accounts at one provider are counted together.
    circuits: Counter[tuple[str, ...]] = Counter()
    for one in now.breakers:
        provider, _, account = one.key.partition("#")
        circuits[provider, account.partition("/")[2], one.state] += 1
    yield _gauges(
        "provider_circuits",
        "Circuit breakers of providers that failed lately, by state.",
        ("provider", "model", "state"),
        circuits.items(),
    )


def _of_log(scrape: Scrape) -> Iterator[Metric]:
    now, numbers, at = scrape.now, scrape.numbers, scrape.at
    failing_ms = now.traces_failing_ms
    yield _gauge("webhooks_pending", "Deliveries that failed and are tried again.", now.webhook_retries)
    yield _gauge("webhooks_ended", "Webhooks whose receivers want nothing more.", now.webhooks_ended)
    yield _gauge(
        "traces_behind_events", "Events that the collector of traces has not been told yet.", now.traces_behind
    )
    yield _gauge(
        "traces_failing_seconds", "Since when it takes nothing; 0: it does.",
        0.0 if failing_ms is None else max(0.0, at - failing_ms / 1000),
    )  # fmt: skip
    yield _gauge("traces_dropped_events", "Events whose spans it refused for good.", now.traces_dropped)
    if (copy := scrape.standby) is not None:
        yield _gauge("standby_lag_seconds", "Since the oldest commit that is not in the copy.", copy.lag_seconds)
        yield _gauge("standby_following", "1: the copy is kept up; 0: it is begun, or kept from it.",
                     float(copy.state == "following"))  # fmt: skip
        yield _gauge("standby_newest_event", "The newest event that is in the copy.", copy.event)
    yield _gauge("metrics_behind_events", "Events that are not counted here yet.", numbers.counters.behind)
    yield _gauge("log_newest_event", "The number of the newest event.", now.newest_event)
    yield _gauge("log_oldest_event", "The first from which none is missing.", now.oldest_event)
    yield _gauge("log_oldest_event_timestamp_seconds", "When the oldest that is kept happened.", now.oldest_ms / 1000)
    yield _gauge("retention_seconds", "For how long what has ended is kept.", numbers.retention_seconds())
    yield _gauge("database_bytes", "Size of the database.", now.database_bytes)
    yield _gauge("database_free_bytes", "Of these, pages that are free.", now.free_bytes)
    yield _gauge("disk_free_bytes", "Room on the disk of the database.", numbers.free_bytes())


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
    tokens = CounterMetricFamily(
        f"{PREFIX}tokens", "Tokens that were spent, as they are booked.", labels=("backend", "model", "kind")
    )
    cost = CounterMetricFamily(
        f"{PREFIX}cost_usd", "Money that was spent, where the price is known.", labels=("backend", "model")
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
