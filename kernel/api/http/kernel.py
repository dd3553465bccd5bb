"""The kernel as a whole: what it is, and how it is asked to stop."""

from collections import Counter

import trio

from kernel.api.context import Services
from kernel.api.http.agents import check_known
from kernel.api.http.route import Call
from kernel.api.http.spaces import known_space
from kernel.api.http.untrusted import untrusted_notice
from kernel.api.http.workflows import rows_of_running
from kernel.policy.boots import WAY_OUT
from kernel.store import agents
from kernel.workflows.broken import broken
from protocol.api.kernel import Health, HeldAgent, KernelInfo, ShutdownRequest, StatusReport
from protocol.api.processes import PsRow
from protocol.errors import Refused


async def status(services: Services, call: Call[None]) -> StatusReport:
    """GET /status?space=&agent=: the kernel, how many agents are in which state, and the workflows that run.

    With a space or an agent of them only that. Raises Refused (unknown_agent, workflow_not_running).
    """
    about = services.about
    space, agent = call.query.get("space"), call.query.get("agent")
    meant = _meant(services, space, agent)
    found = await services.reader.read(agents.ps, services.now_ms())
    processes = [one for one in found if meant is None or one.key in meant]
    states: Counter[str] = Counter(process.shown.state for process in processes)
    workflows = await services.reader.read(rows_of_running)
    here = tuple(row for row in workflows if meant is None or space == f"{row.name}:{row.tag}")
    trouble = await services.writer.trouble()
    degraded = states["error"] or services.safe_mode() or trouble is not None
    wrong = () if meant is not None else await trio.to_thread.run_sync(broken, services.catalog)
    saved = await trio.to_thread.run_sync(services.saved_notice)
    return StatusReport(
        state="down" if space is not None and not here else "degraded" if degraded else "up",
        notice=_notice(services, trouble, len(wrong), saved, await untrusted_notice(services)),
        storage=None if trouble is None else "storage_full" if trouble.code == "storage_full" else "busy",
        kernel=KernelInfo(
            pid=about.pid,
            url=about.url,
            version=about.version,
            project=about.project,
            uptime_seconds=round(services.uptime_seconds(), 3),
        ),
        agents=dict(states),
        held=tuple(_held(process.shown) for process in processes if process.shown.state not in ("idle", "running")),
        workflows=here,
        broken=wrong,
    )


def _meant(services: Services, space: str | None, agent: str | None) -> frozenset[str] | None:
    """Keys of the agents that are asked about; None: of all. One that a workflow refers to has one state everywhere."""
    if space is None:
        if agent is not None:
            check_known(services, agent)
        return None if agent is None else frozenset({agent})
    members = services.reader.now(agents.members, known_space(services, space))
    keys = frozenset(str(one.key) for one in members if agent in (None, one.name))
    if agent is not None and not keys:
        names = ", ".join(one.name for one in members)
        raise Refused("not_a_participant", f"{agent[:60]} is not in {space[:100]}", f"there are: {names}")
    return keys


def _notice(services: Services, trouble: Refused | None, wrong: int, *more: str | None) -> str | None:
    if services.safe_mode():
        return WAY_OUT
    if trouble is not None:
        return f"{trouble.text}; {trouble.hint}"
    files = "definitions with mistakes are not in effect, what they said before is (mend them: awk validate)"
    return "; ".join(part for part in (files if wrong else None, *more) if part) or None


def _held(row: PsRow) -> HeldAgent:
    return HeldAgent(name=row.name, space=row.space, state=row.state, reason=row.reason, until=row.until)


async def shutdown(services: Services, call: Call[ShutdownRequest]) -> Health:
    """POST /shutdown: begin to stop. Asking again makes it hurry, so it needs no idempotency key."""
    services.shutdown(call.body.grace)
    return Health(status="stopping", version=services.about.version)
