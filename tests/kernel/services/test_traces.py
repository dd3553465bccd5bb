"""Spans to a collector that reads them with the protocol's own library, through crashes at each point."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.sections import otel_unit
from kernel.agents.trust import ProjectTrust, TrustedFiles
from kernel.policy.needs import needs
from kernel.policy.traces import CLIENT, INTERNAL, Span, Value, export_request
from kernel.services.signed_post import Post, PostRequest, post
from kernel.services.telemetry import WAKING, Traces
from kernel.store import traces
from kernel.store.needs import snapshot
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.steering import retry
from protocol.instruction import Usage
from protocol.ipc import Entry
from protocol.trust import TrustUnit
from tests.builders.api import kept
from tests.builders.collector import Collector, attributes
from tests.kernel.store.running_store import Store, open_store
from tests.shorthand import present


class Crash(BaseException):
    """The kernel is killed here."""


@dataclass
class Bench:
    """A store, a collector, and services that nobody runs but the test: a new one is a new kernel."""

    root: Path
    store: Store
    collector: Collector
    nursery: trio.Nursery
    grants: list[TrustUnit] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=lambda: {"OTEL_TOKEN": "secret"})

    def write(self, more: str = "", *, trusted: bool = True, endpoint: str | None = None) -> None:
        text = f"otel:\n  endpoint: {endpoint or self.collector.url}\n  headers: {{x-token: $OTEL_TOKEN}}\n{more}"
        (self.root / "moniro.yaml").write_text(text)
        self.grants[:] = [otel_unit(present(Catalog(self.root).project().otel))] if trusted else []

    def kernel(self, deliver: Post = post) -> Traces:
        return Traces(
            log=self.store.log,
            files=TrustedFiles(Catalog(self.root), self.environ, ProjectTrust(kept=lambda: kept(self.grants))),
            wake=self.store.feed.new_wake(WAKING),
            project="/srv/project",
            deliver=deliver,
        )

    async def tell(self, service: Traces | None = None) -> int:
        """Tell all there is, as a new kernel. Returns how many requests that took."""
        service = service or self.kernel()
        before = self.collector.requests
        usable = await service.usable()
        while usable is not None and await service.turn(usable):
            pass
        return self.collector.requests - before

    async def work(self) -> str:
        """A run: alice replies, calls a tool that fails, is tried again, asks bob, and ends; bob fails, twice."""
        store = self.store
        space = await store.workflow("alice", "bob", kickoff="@alice go")
        store.clock.now_ms += 10
        await store.take("i1")
        usage = Usage(input_tokens=10, output_tokens=4, cache_read_tokens=6, cost_usd=0.5)
        store.clock.now_ms += 100
        first = Entry(k=0, kind="reply", text="SAID", usage=usage, stop_reason="tool_use", duration_ms=60)
        await store.journal("i1", 1, first)
        store.clock.now_ms += 50
        failed = Entry(k=1, kind="tool", text="RESULT", name="mcp__x__read", call_id="c1", is_error=True)
        await store.journal("i1", 1, failed)
        await store.requeue("i1", 1, Requeue(status="queued", outcome="crash", charge="crash"))
        store.clock.now_ms += 5
        await store.take("i1")
        asked = await store.said(space, "@bob help", sender="alice")
        assert asked.instruction_ids
        store.database.writer().execute("UPDATE messages SET cause = 1 WHERE text = '@bob help'")
        await store.journal("i1", 2, Entry(k=2, kind="reply", text="done"))
        await store.close("i1", 2, status="done", text="done")
        for epoch in (1, 2):
            store.clock.now_ms += 7
            await store.take("i2")
            store.clock.now_ms += 7
            await store.close("i2", epoch, status="failed", cause="crash", outcome="crash")
            if epoch == 1:
                store.clock.now_ms += 7
                await store.writer.commit(retry, "i2")
        return space


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A collector that is trusted, and a log in which nothing has happened."""
    async with open_store(str(tmp_path / "store.db")) as store, trio.open_nursery() as nursery:
        built = Bench(tmp_path, store, await Collector().start(nursery), nursery)
        built.write()
        await built.kernel().usable()  # it has its place in the log
        yield built
        nursery.cancel_scope.cancel()


@pytest.mark.promise("P79")
async def test_work_is_told_as_spans_of_the_conventions_below_who_asked_for_it(bench: Bench) -> None:
    await bench.work()
    await bench.tell()
    spans = {one.name: one for one in bench.collector.spans.values()}
    by_id = {one.span_id: one for one in bench.collector.spans.values()}
    assert len({one.trace_id for one in by_id.values()}) == 1
    chat = next(one for one in by_id.values() if attributes(one).get("gen_ai.usage.input_tokens"))
    assert chat.kind == CLIENT
    assert chat.end_time_unix_nano - chat.start_time_unix_nano == 60_000_000
    told = attributes(chat)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.usage.input_tokens"] == 16
    assert told["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert told["agent_worker.cost_usd"] == 0.5
    tool = spans["execute_tool read"]
    assert (tool.kind, tool.status.code, attributes(tool)["error.type"]) == (INTERNAL, 2, "tool_error")
    attempt = by_id[tool.parent_span_id]
    assert attributes(attempt)["agent_worker.outcome"] == "crash"
    assert by_id[attempt.parent_span_id].name == "invoke_agent alice"
    ends = sorted(
        (one for one in by_id.values() if one.name == "invoke_agent bob"), key=lambda one: one.end_time_unix_nano
    )
    first, second = ends
    assert by_id[first.parent_span_id].name == "invoke_agent alice"
    assert by_id[second.parent_span_id] == first
    assert not [one for one in by_id.values() if "SAID" in str(one) or "RESULT" in str(one)]
    assert (bench.collector.path, bench.collector.fields["x-token"]) == ("/v1/traces", "secret")
    assert await bench.tell() == 0


@pytest.mark.promise("P79")
async def test_no_crash_loses_or_doubles_a_span(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the request, behind it, before it is written down and behind that, at every request: the spans are
    those of a kernel that was never killed, and what was told twice was told alike."""
    await bench.work()
    whole = Collector()
    usable = present(await bench.kernel().usable())
    log = bench.store.reader.now(traces.log_id, "/srv/project")
    everything = bench.store.reader.now(traces.batch, log, 0, 1000, False)
    whole.take(export_request([span for _, span in everything.spans], {}, "s", "1", ""))
    assert len(whole.spans) == len(everything.spans) > 8
    bench.store.database.writer().execute("UPDATE followers SET cursor = 0")
    for at in range(60):

        async def deliver(request: PostRequest, allowed: Callable[[str], bool], at: int = at) -> int:
            if at % 3 == 0:
                raise Crash  # before it was told
            status = await post(request, allowed)
            if at % 3 == 1:
                raise Crash  # before it was written down that it was
            return status

        service = bench.kernel(deliver)
        monkeypatch.setattr(service, "_limit", 3)  # small requests, so that there are many
        with suppress(Crash):
            if not await service.turn(usable):
                break  # all is told
    assert bench.collector.spans == whole.spans
    assert not bench.collector.differing


@pytest.mark.promise("P79")
async def test_a_collector_that_is_away_costs_nothing_and_is_named(bench: Bench) -> None:
    await bench.work()
    bench.collector.status = 503
    service = bench.kernel()
    usable = present(await service.usable())
    assert not await service.turn(usable)
    standing = present(bench.store.reader.now(traces.standing, usable.name))
    assert (standing.why, standing.failing_ms) == ("status 503", bench.store.clock.now_ms)
    assert standing.behind > 0
    assert bench.store.reader.now(traces.failing, bench.store.clock.now_ms) == (
        (bench.store.clock.now_ms, "status 503"),
    )
    bench.collector.status, bench.collector.largest = 200, 4
    await bench.tell(service)
    standing = present(bench.store.reader.now(traces.standing, usable.name))
    assert (standing.failing_ms, standing.behind, standing.dropped) == (None, 0, 0)
    told = len(bench.collector.spans)
    bench.collector.status = 400
    bench.store.database.writer().execute("UPDATE followers SET cursor = 0")
    await bench.tell()
    assert present(bench.store.reader.now(traces.standing, usable.name)).dropped == told


async def test_spans_go_only_where_a_person_let_them(bench: Bench) -> None:
    """Without trust, without its variable, or to a name of this machine's networks: nothing is told. With ``content``
    what was said is told, and that is another demand."""
    before = otel_unit(Catalog(bench.root).project().otel).digest  # type: ignore[arg-type]
    bench.write("  content: true\n")
    await bench.kernel().usable()
    await bench.work()
    await bench.tell()
    assert bench.grants[0].digest != before
    assert "SAID" in str(bench.collector.spans)
    bench.collector.spans.clear()
    bench.store.database.writer().execute("UPDATE followers SET cursor = 0")
    bench.write("  content: true\n", trusted=False)
    assert await bench.kernel().usable() is None
    bench.write("  content: true\n")
    bench.environ.clear()
    assert await bench.kernel().usable() is None
    bench.environ["OTEL_TOKEN"] = "bad\nvalue: x"
    assert await bench.kernel().usable() is None
    assert not bench.collector.spans


def test_what_is_written_by_hand_is_what_the_library_reads() -> None:
    values: dict[str, Value] = {
        "a": "ä\ud800", "b": -(2**40), "c": 2**62, "d": 0.1, "e": True, "f": False, "g": ("x", ""),
    }  # fmt: skip
    span = Span(trace=b"t" * 16, id=b"s" * 8, name="n" * 300, start_ms=2**41, end_ms=5, attributes=values, failed="no")
    collector = Collector()
    collector.take(export_request([span, span], {"service.name": "x"}, "scope", "1", "schema"))
    (read,) = collector.spans.values()
    assert attributes(read) == values | {"a": "ä?"}
    assert (read.start_time_unix_nano, read.end_time_unix_nano) == (2**41 * 10**6, 2**41 * 10**6)
    assert (read.name, read.status.code, read.status.message, read.parent_span_id) == ("n" * 300, 2, "no", b"")


async def test_a_collector_that_takes_nothing_for_long_is_a_need_that_its_command_settles(bench: Bench) -> None:
    await bench.work()
    bench.collector.status = 503
    service = bench.kernel()
    usable = present(await service.usable())
    await service.turn(usable)
    clock, reader = bench.store.clock, bench.store.reader
    assert not needs(reader.now(snapshot, clock.now_ms))
    clock.now_ms += traces.AWAY_MS
    (need,) = needs(reader.now(snapshot, clock.now_ms))
    assert need.text.startswith("the collector of otel rejects spans: status 503")
    assert [one.command for one in need.actions] == ["awk webhook retry otel"]
    await bench.store.writer.commit(traces.retry, "http://127.0.0.1")
    assert not needs(reader.now(snapshot, clock.now_ms))
    bench.collector.status = 200
    await bench.tell(service)
    assert bench.collector.spans
