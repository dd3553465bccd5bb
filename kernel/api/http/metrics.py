"""GET /metrics: numbers of the kernel as Prometheus reads them, in its text format or in OpenMetrics."""

from kernel.api.http.route import Request
from kernel.operations import needs
from kernel.operations.answer import Response
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess
from kernel.store.metrics import gauges


async def expose(
    call: Request[None], store: StoreAccess, files: ProjectFiles, processes: ProcessControl, kernel: KernelControl
) -> Response:
    """GET /metrics: as ``Accept`` asks for it. Raises Refused (busy)."""
    from kernel.api.exposition import Scrape, expose_text  # noqa: PLC0415  (only those who are scraped pay for it)

    counted = await kernel.numbers.counters.look()
    now = await store.reader.read(gauges)
    needed = await needs.number(store, files, await needs.untrusted_schedules(store, files.trust))
    live = processes.attempts.activity()
    body, content_type = expose_text(
        Scrape(
            at=store.now_ms() / 1000,
            counted=counted,
            now=now,
            numbers=kernel.numbers,
            version=kernel.identity.version,
            uptime_seconds=kernel.state.uptime_seconds(),
            ready=kernel.state.ready() and not kernel.shutdown.begun(),
            safe_mode=kernel.state.safe_mode(),
            workers_running=sum(one.pid is not None for one in live.values()),
            workers_kept=len(processes.attempts.kept()),
            needs=needed,
            streams=store.feed.watchers,
            standby=kernel.state.standby(),
        ),
        call.accept,
    )
    return Response(200, body, content_type.encode())
