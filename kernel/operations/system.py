"""Kernel: health, readiness, status and shutdown; providers, backends and usage.

Grants of trust are only read here. ``awk trust`` stores them in the user's state directory.
"""

from collections import Counter
from typing import Annotated, Final

import msgspec
import trio

from kernel.agents.backends import probe_backends
from kernel.agents.environment import worker_environment
from kernel.agents.models import ALIASES
from kernel.agents.providers import PROVIDERS
from kernel.operations import needs
from kernel.operations.answers import Response, json_reply
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess, check_known, known_space
from kernel.operations.operation import Actor, operation
from kernel.operations.processes import UNREAD
from kernel.operations.workflows import list_workflows
from kernel.policy.access import ADMIN
from kernel.policy.retry import SAFE_MODE_NOTICE
from kernel.services.standby import standby_notice
from kernel.source.diagnostics import remote_error
from kernel.source.safe_paths import root_fault
from kernel.store import agents, spending, tokens, traces
from kernel.store.metrics import gauges
from kernel.store.spending import Period
from kernel.store.transitions.recovery import predecessor_died
from kernel.workflows.load import Definitions
from protocol.api.document import Ask
from protocol.api.kernel import (
    GROUPED_BY,
    BackendList,
    GroupedBy,
    Health,
    HeldAgent,
    KernelInfo,
    ProviderList,
    ProviderRow,
    PruneReport,
    PruneRequest,
    Ready,
    ShutdownRequest,
    StatusReport,
    UpgradeReport,
    UpgradeRequest,
    UsageReport,
    UsageRow,
)
from protocol.discovery import prove
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.names import place_of
from protocol.trust import TrustList

PUT_BACK: Final = "no work starts and nothing is written until the folder is restored"
NONCE_LIMIT: Final = 200
MOST_PARTS: Final = 2
"""Maximum number of grouping criteria."""
NOTHING_WRONG: Final = Definitions(None)


class HealthRequest(Ask, frozen=True, kw_only=True):
    """Health check that can verify the identity of an unknown kernel."""

    nonce: Annotated[str, msgspec.Meta(description="Text for which the kernel proves that it knows the token.")] | (
        None
    ) = None
    token: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Number of a created token: 3 for k3.")] | None = (
        None
    )


class StatusRequest(Ask, frozen=True, kw_only=True):
    """Space or agent to report on. Neither: the kernel."""

    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None
    agent: Annotated[str, msgspec.Meta(description="Name of an agent.")] | None = None


Time = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class UsageRequest(StatusRequest, frozen=True, kw_only=True):
    """Work whose usage is reported."""

    by: (
        Annotated[
            str, msgspec.Meta(description=f"Group by one or two of {', '.join(GROUPED_BY)}, separated by a comma.")
        ]
        | None
    ) = None
    since: Annotated[Time, msgspec.Meta(description="Start of the period, in milliseconds since 1970.")] | None = None
    until: Annotated[Time, msgspec.Meta(description="End of the period, in milliseconds since 1970.")] | None = None


async def health(asked: HealthRequest, store: StoreAccess, kernel: KernelControl) -> Health:
    """Return the health of the kernel. Needs no token. ``nonce`` is answered with HMAC-SHA256(token, nonce).

    The key is the token of the discovery record; ``admin_proof`` uses the administrator's token.
    With ``token``, the number of a created token, the key is the stored digest of this token.
    """
    nonce, key, admin_key = asked.nonce, kernel.keys.record, kernel.keys.token
    if nonce is not None and len(nonce) > NONCE_LIMIT:
        raise Refused("bad_request", f"nonce must have at most {NONCE_LIMIT} characters")
    if nonce and asked.token is not None:
        digest = store.reader.now(tokens.digest_of, asked.token, store.now_ms())
        key, admin_key = "" if digest is None else digest.hex(), ""
    return Health(
        status="stopping" if _stops(kernel) else "ok",
        version=kernel.identity.version,
        proof=prove(key, nonce) if nonce and key else None,
        admin_proof=prove(admin_key, nonce) if nonce and admin_key else None,
        safe_mode=kernel.state.safe_mode(),
    )


def _stops(kernel: KernelControl) -> bool:
    return kernel.shutdown.begun() or kernel.shutdown.closing.is_set()


async def ready(store: StoreAccess, files: ProjectFiles, kernel: KernelControl) -> Response:
    """Return 200 if the kernel accepts and starts work, otherwise 503 with the reason.

    Not ready: starting, stopping, in safe mode, or the last commit and a new attempt failed.
    """
    if _stops(kernel):
        return json_reply(Ready(ready=False, status="stopping"), 503)
    if kernel.state.safe_mode():
        return json_reply(Ready(ready=False, status="safe_mode"), 503)
    if root_fault(str(files.catalog.root)) is not None:
        return json_reply(Ready(ready=False, status="project_lost"), 503)
    if not kernel.state.ready():
        return json_reply(Ready(ready=False, status="starting"), 503)
    trouble = await store.writer.trouble()
    if trouble is not None:
        return json_reply(Ready(ready=False, status="storage_full" if trouble.code == "storage_full" else "busy"), 503)
    return json_reply(Ready(ready=True, status="ok"))


async def status(
    asked: StatusRequest,
    actor: Actor,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
    kernel: KernelControl,
) -> StatusReport:
    """Return the state of the kernel: health, numbers of agents by state, held agents, and running workflows.

    With a space or an agent, only its own state. Raises Refused (unknown_agent, workflow_not_running).
    """
    identity = kernel.identity
    space, agent = asked.space, asked.agent
    # Keys of the requested agents. None: all. A referenced agent has the same state everywhere.
    meant: frozenset[str] | None
    if space is None:
        if agent is not None:
            check_known(store, files, agent)
        meant = None if agent is None else frozenset({agent})
    else:
        members = store.reader.now(agents.members, known_space(store, files, space))
        keys = frozenset(str(meant_one.key) for meant_one in members if agent in (None, meant_one.name))
        if agent is not None and not keys:
            names = ", ".join(meant_one.name for meant_one in members)
            raise Refused("not_a_participant", f"agent {agent[:60]} is not in {space[:100]}", f"members: {names}")
        meant = keys
    if meant is None:
        summary = await store.reader.read(agents.summary, store.now_ms())
        states, rows = summary.states, [one.shown for one in summary.busy]
    else:
        rows = [one.shown for one in await store.reader.read(agents.ps, store.now_ms()) if one.key in meant]
        states = dict(Counter(row.state for row in rows))
    workflows = (await store.reader.read(list_workflows)).workflows
    here = tuple(row for row in workflows if meant is None or space == f"{row.name}:{row.tag}")
    trouble = await store.writer.trouble()
    lost = root_fault(str(files.catalog.root))
    degraded = states.get("error") or kernel.state.safe_mode() or trouble is not None or lost is not None
    definitions = NOTHING_WRONG if meant is not None else await files.definitions()
    wrong = () if definitions is None else definitions.errors
    saved = await trio.to_thread.run_sync(kernel.state.saved_notice)
    waiting = await needs.untrusted_schedules(store, files.trust)
    standby = kernel.state.standby()
    notice: str | None
    if kernel.state.safe_mode():
        notice = SAFE_MODE_NOTICE
    elif lost is not None:
        notice = f"{lost}; {PUT_BACK}"
    elif trouble is not None:
        notice = f"{trouble.text}; {trouble.hint}"
    else:
        files_notice = (
            "definitions with errors are not in effect; their previous versions are (check them: awk validate)"
        )
        unread = UNREAD if definitions is None else None
        again = kernel.state.restart_notice if store.reader.now(predecessor_died) else None
        away = store.reader.now(traces.failing, store.now_ms())
        traces_notice = (
            f"traces are not exported: the OpenTelemetry collector refuses them ({away[0][1]})" if away else None
        )
        untrusted = needs.untrusted_notice(waiting)
        copied = None if standby is None else standby_notice(standby)
        notices = (unread, files_notice if wrong else None, saved, untrusted, again, traces_notice, copied)
        notice = "; ".join(part for part in notices if part) or None
    return StatusReport(
        state="down" if space is not None and not here else "degraded" if degraded else "up",
        notice=notice,
        storage=None if trouble is None else "storage_full" if trouble.code == "storage_full" else "busy",
        kernel=KernelInfo(
            pid=identity.pid,
            url=identity.url,
            version=identity.version,
            project=identity.project,
            uptime_seconds=round(kernel.state.uptime_seconds(), 3),
        ),
        term=identity.term,
        standby=standby,
        agents=states,
        needs=await needs.number(store, files, processes, waiting),
        held=tuple(
            HeldAgent(name=row.name, space=row.space, state=row.state, reason=row.reason, until=row.until)
            for row in rows
            if row.state not in ("idle", "running")
        ),
        workflows=here,
        broken=tuple(remote_error(error, quotes=actor.access == ADMIN) for error in wrong),
    )


async def shutdown(asked: ShutdownRequest, kernel: KernelControl) -> Health:
    """Stop the kernel. A repeated request, with another key or without one, shortens the grace period."""
    kernel.shutdown.ask(asked.grace)
    return Health(status="stopping", version=kernel.identity.version)


async def upgrade(asked: UpgradeRequest, kernel: KernelControl) -> UpgradeReport:
    """Replace the running kernel with another version without interrupting work. GET /upgrade reports the result."""
    return kernel.upgrade.ask(asked.to)


async def upgrade_state(kernel: KernelControl) -> UpgradeReport:
    """Return the last or the current upgrade of this kernel."""
    return kernel.upgrade.tell()


async def prune(asked: PruneRequest, processes: ProcessControl) -> PruneReport:
    """Delete data that is no longer needed to free disk space. ``dry_run`` only reports it."""
    return await processes.prune(asked)


async def providers(files: ProjectFiles) -> ProviderList:
    """List the known providers and the providers of the project file, and whether their
    keys are set. Keys are never shown."""
    own = files.catalog.project().providers
    rows = [
        ProviderRow(
            name=name,
            dialect=preset.dialect,
            base_url=preset.base_url,
            key_variables=preset.key_variables,
            key_set=any(files.environ.get(variable) for variable in preset.key_variables),
            source="builtin",
        )
        for name, preset in PROVIDERS.items()
        if name not in own
    ]
    for name, entry in own.items():
        known = PROVIDERS.get(name)
        variables = known.key_variables if known is not None and entry.base_url is None else ()
        if entry.api_key is not None:
            variables = (entry.api_key.removeprefix("$"),)
        rows.append(
            ProviderRow(
                name=name,
                dialect=entry.dialect or (known.dialect if known is not None else "openai"),
                base_url=entry.base_url or (known.base_url if known is not None else None),
                key_variables=variables,
                key_set=any(files.environ.get(variable) for variable in variables),
                source="project",
            )
        )
    return ProviderList(providers=tuple(rows), aliases=dict(ALIASES))


async def backends(files: ProjectFiles, processes: ProcessControl) -> BackendList:
    """List the backends with the versions of the installed programs.

    The first answer takes as long as the slowest program.
    """
    env = worker_environment(files.environ, own_bin=files.own_bin)
    return BackendList(backends=await probe_backends(env, processes.probes.ask))


async def trust(files: ProjectFiles) -> TrustList:
    """List the grants of trust."""
    return TrustList(consents=tuple(files.trust.kept()))


async def usage(asked: UsageRequest, store: StoreAccess, files: ProjectFiles) -> UsageReport:
    """Report the usage of all stored work, or of one space or agent.

    With both, of this agent in this space. ``since`` and ``until`` (milliseconds since 1970) select work by its end,
    and ``by`` groups it. Raises Refused (unknown_agent, workflow_not_running, too_large).
    """
    agent = asked.agent
    space = None if asked.space is None else place_of(known_space(store, files, asked.space))
    if agent is not None and space is None:
        check_known(store, files, agent)
    whose = {"agent": agent} if space is None else {"name": agent}
    period = _period(asked, store.now_ms())
    if period is None:
        return await store.reader.read(spending.report, space=space, **whose)
    *groups, total = await store.reader.read(spending.over_time, period, space=space, **whose)
    row = UsageRow(
        key="",
        usage=total.usage,
        instructions=total.instructions,
        failures=total.ended["failed"] + total.ended["dead"],
        ended=total.ended,
        steps=total.steps,
        worked_seconds=total.worked_seconds,
        unpriced=total.unpriced,
    )
    return UsageReport(rows=(), workflows=(), models=(), total=row, groups=(*groups, total))


def _period(asked: UsageRequest, now_ms: int) -> Period | None:
    if asked.by is None and asked.since is None and asked.until is None:
        return None
    words = [word for word in (asked.by or "").split(",") if word]
    by: list[GroupedBy] = [word for word in GROUPED_BY if word in words]
    by.sort(key=words.index)
    if len(words) > MOST_PARTS or len(by) != len(words):
        raise Refused(
            "bad_request", f"parameter 'by' must be one of {', '.join(GROUPED_BY)}, or two separated by a comma"
        )
    return Period(tuple(by), asked.since or 0, now_ms + 1 if asked.until is None else asked.until)


async def metrics(
    actor: Actor, store: StoreAccess, files: ProjectFiles, processes: ProcessControl, kernel: KernelControl
) -> Response:
    """Return metrics of the kernel for Prometheus, in the format of ``Accept``. Raises Refused (busy)."""
    from kernel.operations.exposition import Scrape, expose_text  # noqa: PLC0415  (only those who are scraped pay)

    counted = await kernel.numbers.counters.look()
    now = await store.reader.read(gauges)
    needed = await needs.number(store, files, processes, await needs.untrusted_schedules(store, files.trust))
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
        actor.accept,
    )
    return Response(200, body, content_type.encode())


OPERATIONS = (
    operation(health, "GET /health", open=True),
    operation(ready, "GET /ready", answers=Ready, statuses=(503,)),
    operation(status, "GET /status"),
    operation(metrics, "GET /metrics"),
    operation(usage, "GET /usage"),
    operation(shutdown, "POST /shutdown", status=202, scope="admin", body_optional=False),
    operation(upgrade_state, "GET /upgrade"),
    operation(upgrade, "POST /upgrade", status=202, scope="admin"),
    operation(prune, "POST /prune", waits=True, scope="admin"),
    operation(providers, "GET /providers"),
    operation(backends, "GET /backends"),
    operation(trust, "GET /trust"),
)
