"""The kernel as a whole: what it is, and how it is asked to stop."""

from collections import Counter

from kernel.api.context import Services
from kernel.api.http.route import Call
from kernel.api.http.workflows import rows_of_running
from kernel.policy.boots import WAY_OUT
from kernel.store import agents
from protocol.api.kernel import Health, HeldAgent, KernelInfo, ShutdownRequest, StatusReport
from protocol.api.processes import PsRow
from protocol.errors import Refused


async def status(services: Services, _call: Call[None]) -> StatusReport:
    """GET /status: the kernel, how many agents are in which state, and the workflows that run."""
    about = services.about
    processes = await services.reader.read(agents.ps, services.now_ms())
    states: Counter[str] = Counter(process.shown.state for process in processes)
    return StatusReport(
        state="degraded" if states["error"] or services.safe_mode() else "up",
        notice=WAY_OUT if services.safe_mode() else None,
        kernel=KernelInfo(
            pid=about.pid,
            url=about.url,
            version=about.version,
            project=about.project,
            uptime_seconds=round(services.uptime_seconds(), 3),
        ),
        agents=dict(states),
        held=tuple(_held(process.shown) for process in processes if process.shown.state not in ("idle", "running")),
        workflows=await services.reader.read(rows_of_running),
    )


def _held(row: PsRow) -> HeldAgent:
    return HeldAgent(name=row.name, space=row.space, state=row.state, reason=row.reason, until=row.until)


async def shutdown(services: Services, call: Call[ShutdownRequest]) -> Health:
    """POST /shutdown: begin to stop. Asking again makes it hurry, so it needs no idempotency key."""
    if not 0 <= call.body.grace <= 3600:
        raise Refused("bad_request", "grace must be from 0 to 3600 seconds")
    services.shutdown(call.body.grace)
    return Health(status="stopping", version=services.about.version)
