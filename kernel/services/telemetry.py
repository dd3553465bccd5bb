"""Telemetry: spans for an OpenTelemetry collector, exported after their commit; event counts.

``Traces`` only has a cursor into the event log, so an unreachable collector uses no memory, and a new kernel continues
where the last one stopped. If a crash loses the cursor of exported spans, they are exported again with the same ids,
which are derived from the objects. ``EventCounters`` counts new events on request, and stores its counts periodically.
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Final, NamedTuple

import msgspec
import trio

from kernel.agents.sections import header_fields, host_of, may_reach, otel_unit, traces_url
from kernel.agents.trust import TrustedFiles
from kernel.fault_injection import fault_point
from kernel.policy.metrics import COUNTED, CounterKey, count
from kernel.policy.traces import CONTENT_TYPE, SCHEMA, export_request
from kernel.services.signed_post import Post, PostRequest, Unreached, post
from kernel.store import metrics, traces
from kernel.store.feed import Wake
from kernel.store.metrics import KeptCounters
from kernel.store.writer import StoreLog
from protocol.discovery import VERSION
from protocol.errors import Refused
from protocol.project import OtelSettings
from protocol.text import encode_json

logger = logging.getLogger(__name__)

WAKING: Final = frozenset(
    {"instruction.step", "attempt.ended", "instruction.ended", "workflow.stopped", "webhook.retried"}
)
GATHER_SECONDS: Final = 1.0
"""Delay after an event, to collect related ones."""
LOOK_SECONDS: Final = 10.0
"""Interval of checks of the project file and its trust."""
PAUSES_SECONDS: Final = (1.0, 5.0, 30.0, 60.0)
"""Delays between retries; the last one repeats."""
FLUSH_SECONDS: Final = 3.0
"""Time for remaining spans when the kernel stops; the next kernel exports the rest."""
UNSAVED_EVENTS: Final = 1000
"""Events without a span after which the cursor is stored."""
BAD: Final = frozenset({400, 413, 422})
"""Statuses that reject the content: the batch is halved, and a single rejected span is skipped."""


class Collector(NamedTuple):
    """Trusted and usable collector."""

    name: str
    """Name of its cursor."""
    settings: OtelSettings
    fields: Mapping[str, str]


class Traces(msgspec.Struct, eq=False, kw_only=True):
    """Exports spans to the collector of the project file."""

    log: StoreLog
    files: TrustedFiles
    wake: Wake
    project: str
    """Path of the project."""
    deliver: Post = post
    _one: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _warn_once: Callable[[str, str], None] = msgspec.field(
        default_factory=lambda: cache(partial(logger.warning, "otel.unusable %s: %s"))
    )
    _seen: int = 0
    """Event up to which everything was exported; stored with the next export."""
    _limit: int = traces.BATCH
    _failures: int = 0
    """Consecutive failures."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Export until cancelled; reports its start once the collector has a cursor."""
        while True:
            self.wake.clear()
            collector: Collector | None = None
            with suppress(Refused):  # full disk: retried later
                collector = await self.usable()
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED
            if collector is not None:
                with suppress(Refused):
                    if await self.turn(collector):
                        continue
            pause = PAUSES_SECONDS[min(self._failures, len(PAUSES_SECONDS)) - 1]
            with trio.move_on_after(pause if self._failures else LOOK_SECONDS):
                await self._until_new(collector)

    async def _until_new(self, collector: Collector | None) -> None:
        while collector is not None:
            await self.wake.wait()
            await trio.sleep(GATHER_SECONDS)
            standing = self.log.reader.now(traces.standing, collector.name)
            # After a failure, only a retry requested by a person ends the wait.
            if not self._failures or standing is None or standing.failing_ms is None:
                return
            self.wake.clear()
        await trio.sleep_forever()

    async def flush(self) -> None:
        """Export remaining spans within FLUSH_SECONDS, unless the collector is failing, because the kernel stops."""
        with trio.move_on_after(FLUSH_SECONDS), suppress(Refused):
            collector = await self.usable()
            while collector is not None and not self._failures and await self.turn(collector):
                pass

    async def usable(self) -> Collector | None:
        """Return the collector if it is trusted and usable, and ensure that the store has its cursor."""
        settings = self.files.catalog.kept_project().otel
        found: Collector | None = None
        if settings is not None:
            wanted = otel_unit(settings)
            fields = self.files.trust.fault(wanted) or header_fields(settings, self.files.environ)
            if isinstance(fields, str):
                self._warn_once(host_of(settings.endpoint), fields)
            else:
                found = Collector(f"{traces.PREFIX}{wanted.digest}", settings, fields)
        names = frozenset[str]() if found is None else frozenset({found.name})
        if self.log.reader.now(traces.known) != names:
            self._seen = 0
            await self.log.writer.commit(traces.keep, names)
        return found

    async def turn(self, collector: Collector) -> bool:
        """Export the next spans in one request, and return whether there may be more."""
        async with self._one:
            standing = self.log.reader.now(traces.standing, collector.name)
            if standing is None:
                return False
            if self._failures and standing.failing_ms is None:
                self._failures = 0  # a person requested a retry
            cursor = max(standing.cursor, self._seen)
            log = self.log.reader.now(traces.log_id, self.project)
            batch = await self.log.reader.read(traces.batch, log, cursor, self._limit, collector.settings.content)
            if not batch.spans:
                self._seen = batch.upto
                if batch.upto - standing.cursor > UNSAVED_EVENTS:
                    await self.log.writer.commit_soon(traces.took, collector.name, batch.upto)
                return False
            resource = {
                "service.name": "agent-worker",
                "service.version": VERSION,
                "service.namespace": os.path.basename(self.project),
            }
            spans = [span for _, span in batch.spans]
            body = await trio.to_thread.run_sync(export_request, spans, resource, "agent-worker", VERSION, SCHEMA)
            status, why = await self._post(collector, body)
            fault_point("traces.told")
            if status is not None and 200 <= status < 300:
                self._failures, self._limit = 0, traces.BATCH
                await self.log.writer.commit(traces.took, collector.name, batch.upto)
                return True
            if status in BAD and len(spans) > 1:
                self._limit = max(1, len(spans) // 2)
                return True
            if status in BAD:
                logger.warning("otel.refused %s: event %d, %s", host_of(collector.settings.endpoint), batch.upto, why)
                await self.log.writer.commit(traces.took, collector.name, batch.upto, 1)
                return True
            self._failures += 1
            if standing.failing_ms is None or standing.why != why:
                logger.warning("otel.failed %s: %s", host_of(collector.settings.endpoint), why)
                await self.log.writer.commit(traces.failed, collector.name, why)
            return False

    async def _post(self, collector: Collector, body: bytes) -> tuple[int | None, str]:
        fields = {"Content-Type": CONTENT_TYPE, "User-Agent": f"agent-worker/{VERSION}", **collector.fields}
        settings = collector.settings
        try:
            status = await self.deliver(
                PostRequest(traces_url(settings), fields, body), lambda address: may_reach(settings, address)
            )
        except Unreached as unreached:
            return None, str(unreached)
        return status, f"status {status}"


LONGEST_SECONDS: Final = 1.0
"""Time limit of one count; later counts continue."""
KEEP_MS: Final = 30_000
"""Interval of commits of the counts. After a crash the same events are counted again."""
_TYPES: Final = encode_json(sorted(COUNTED)).decode()


class EventCounters(msgspec.Struct, eq=False):
    """Counts of events since the log or the counting began."""

    log: StoreLog
    _one: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _counted: KeptCounters | None = None
    _changed: set[CounterKey] = set()
    _kept_ms: int = 0
    behind: int = 0
    """Number of events not yet counted."""

    async def look(self) -> KeptCounters:
        """Count new events within LONGEST_SECONDS. Raises Refused (busy)."""
        async with self._one:
            if self._counted is None:
                self._counted = await self.log.reader.read(metrics.counted, self.log.now_ms())
            until = trio.current_time() + LONGEST_SECONDS
            while True:
                before = self._counted
                new = await self.log.reader.read(metrics.look, before.cursor, _TYPES)
                self._changed |= count(before.values, new.events)
                self._counted = before._replace(cursor=new.cursor)
                self.behind = new.behind
                if not new.behind or trio.current_time() >= until:
                    break
            await self._keep(self._counted)
            return self._counted

    async def _keep(self, counted: KeptCounters) -> None:
        now_ms = self.log.now_ms()
        if now_ms - self._kept_ms < KEEP_MS and not self.behind:
            return
        changed: Mapping[CounterKey, float] = {key: counted.values[key] for key in self._changed}
        with suppress(Refused):  # full disk: stored with a later count
            await self.log.writer.commit_soon(metrics.keep, counted.cursor, counted.since_ms, changed)
            self._kept_ms = now_ms
            self._changed.clear()
