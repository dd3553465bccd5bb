"""GET /metrics, read by the reference parsers of both formats."""

from collections.abc import Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kernel.policy.metrics import BOUNDS_SECONDS, COUNTED, LABEL_CHARACTERS, OTHER, SERIES, CounterKey, Durations, count
from kernel.services.telemetry import EventCounters
from kernel.store.transaction import Transaction, emit_log
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from kernel.store.writer import StoreLog
from protocol.instruction import Usage
from protocol.ipc import Entry
from tests.builders.api import ServedKernel

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
HOSTILE = 'mo"del\\\n\r\x1b[31m\u2028' + "x" * 500


async def scrape(kernel: ServedKernel, accept: str = "") -> dict[str, float]:
    """Samples by name and labels, as the parser of the format that was asked for reads them."""
    answer = await kernel.ask("GET", "/metrics", headers={**kernel.headers(), "Accept": accept})
    assert answer.status == 200
    parse = parse_openmetrics if accept else parse_text
    assert answer.headers["content-type"].startswith(accept.partition(";")[0] or "text/plain")
    return samples(parse(answer.body.decode()))


def samples(families: Iterable[Metric]) -> dict[str, float]:
    """By what people write in a query; each once."""
    found: dict[str, float] = {}
    for family in families:
        for one in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(one.labels.items()))
            key = f"{one.name}{{{labels}}}" if labels else one.name
            assert key not in found
            found[key] = one.value
    return found


@pytest.mark.promise("P78")
async def test_what_happened_and_what_there_is_can_be_scraped_in_both_formats(kernel: ServedKernel) -> None:
    """contracts 4: counters from the log, gauges from the state; a restart changes no counter, labels are
    bounded, whoever has no token sees nothing."""
    first = await kernel.attempt(text="one")
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "two"})
    writer = kernel.writer
    usage = Usage(input_tokens=7, output_tokens=5, cost_usd=0.25)

    def name_model(tx: Transaction) -> None:
        tx.conn.execute("UPDATE instructions SET model = ?", (HOSTILE,))

    await writer.commit(name_model)
    await writer.commit(journal, first, 1, Entry(k=0, kind="reply", text="x", usage=usage))
    await writer.commit(close, first, 1, status="failed", cause="crash", outcome="crash")
    await writer.commit(emit_log, "kernel.service_failed", data={"service": HOSTILE})
    text, opened = await scrape(kernel), await scrape(kernel, OPENMETRICS)
    for found in (text, opened):
        assert found['agent_worker_instructions_ended_total{cause="crash",status="failed"}'] == 1
        assert found['agent_worker_attempts_ended_total{outcome="crash"}'] == 1
        assert found['agent_worker_instructions{state="queued"}'] == 1
        assert found['agent_worker_queue_depth{lane="immediate"}'] == 1
        assert found["agent_worker_messages_total"] >= 2
        assert found["agent_worker_commit_seconds_count"] == found['agent_worker_commit_seconds_bucket{le="+Inf"}'] > 0
        (spent,) = (value for key, value in found.items() if key.startswith("agent_worker_cost_usd_total"))
        assert spent == 0.25
        tokens = {key: value for key, value in found.items() if key.startswith("agent_worker_tokens_total")}
        assert sorted(tokens.values()) == [0, 0, 5, 7]
        assert all(len(key) < LABEL_CHARACTERS * 2 and key.isprintable() for key in found)
    assert any(key.startswith("agent_worker_messages_created") for key in opened)
    again = EventCounters(StoreLog(kernel.reader, writer, lambda: 0))  # type: ignore[arg-type]
    assert (await again.look()).values == (await kernel.services.kernel.numbers.counters.look()).values
    stranger = await kernel.ask("GET", "/metrics", headers=kernel.headers(token=None))
    assert stranger.status == 401
    made = await kernel.ask("POST", "/tokens", {"scope": "read", "name": "prometheus"})
    reader = await kernel.ask("GET", "/metrics", headers=kernel.headers(token=made.json["token"]))
    assert reader.status == 200


def test_names_that_somebody_chose_fill_no_server_of_metrics() -> None:
    """The first series stay what they are, so that no counter falls; all else is counted together."""
    values: dict[CounterKey, float] = {}
    count(values, [("kernel.service_failed", f"s{place}", "", 2) for place in range(SERIES + 40)])
    count(values, [("kernel.service_failed", "s0", "", 1), ("instruction.queued", "", "", 5)])
    assert len(values) == SERIES + 1
    assert values[CounterKey("service_failures", ("s0",))] == 3
    assert values[CounterKey("service_failures", (OTHER,))] == 80
    (strange,) = count({}, [("attempt.ended", HOSTILE, "", 1)])
    assert strange.labels[0].isprintable()
    assert len(strange.labels[0]) == LABEL_CHARACTERS
    assert len({counter.name for counter in COUNTED.values()}) == len(COUNTED)


def test_durations_are_counted_by_size() -> None:
    durations = Durations()
    for seconds in (0.0, BOUNDS_SECONDS[0], 0.3, 60.0):
        durations.add(seconds)
    buckets = dict(durations.buckets())
    assert (buckets["0.0005"], buckets["0.25"], buckets["0.5"], buckets["5.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert durations.total_seconds == pytest.approx(60.3005)
