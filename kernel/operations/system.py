"""The kernel as a whole: health, readiness, status and end; its providers and backends, and the usage of its work.

Grants of trust are only told here: ``awk trust`` keeps them, in the user's own state directory.
"""

from collections import Counter
from typing import Annotated, Final

import msgspec
import trio

from kernel.agents.backends import probe_backends
from kernel.agents.environment import worker_environment
from kernel.agents.providers import ALIASES, PROVIDERS
from kernel.operations import needs
from kernel.operations.agents import UNREAD
from kernel.operations.answers import Response, json_reply
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess, check_known, known_space
from kernel.operations.operation import Actor, operation
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

PUT_BACK: Final = "nothing is started or written there until the folder is back"
NONCE_LIMIT: Final = 200
MOST_PARTS: Final = 2
"""By so many things work can be parted at once."""
NOTHING_WRONG: Final = Definitions(None)


class HealthRequest(Ask, frozen=True, kw_only=True):
    """A question to a kernel of which nothing is known yet."""

    nonce: Annotated[str, msgspec.Meta(description="Text that the kernel proves the knowledge of the token with.")] | (
        None
    ) = None
    token: (
        Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Number of a token that was created: 3 of k3.")]
        | None
    ) = None


class StatusRequest(Ask, frozen=True, kw_only=True):
    """The space or the agent to report on; neither: the kernel."""

    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None
    agent: Annotated[str, msgspec.Meta(description="Name of an agent.")] | None = None


Time = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class UsageRequest(StatusRequest, frozen=True, kw_only=True):
    """The work to report on."""

    by: (
        Annotated[
            str,
            msgspec.Meta(description=f"Group by one or two of {', '.join(GROUPED_BY)}, with a comma between them."),
        ]
        | None
    ) = None
    since: Annotated[Time, msgspec.Meta(description="Start of the period, in milliseconds since 1970.")] | None = None
    until: Annotated[Time, msgspec.Meta(description="End of the period, in milliseconds since 1970.")] | None = None


async def health(asked: HealthRequest, store: StoreAccess, kernel: KernelControl) -> Health:
    """Answers without a token. ``nonce`` is answered with HMAC-SHA256(token, nonce).

    The token is that of the discovery record; ``admin_proof`` is under the administrator's. With ``token``, the number
    of one that somebody made, under the digest of that: the token itself is not kept.
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
    """Return 200 once work is accepted and begun, else 503.

    That is while starting, stopping or in safe mode, and where the last commit failed and another one does too.
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
    asked: StatusRequest, actor: Actor, store: StoreAccess, files: ProjectFiles, kernel: KernelControl
) -> StatusReport:
    """Report on the kernel, how many agents are in which state, and the workflows that run.

    With a space or an agent of them only that. Raises Refused (unknown_agent, workflow_not_running).
    """
    identity = kernel.identity
    space, agent = asked.space, asked.agent
    # Keys of the agents that are asked about; None: of all. One that a workflow refers to has one state everywhere.
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
            raise Refused("not_a_participant", f"{agent[:60]} is not in {space[:100]}", f"there are: {names}")
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
        files_notice = "definitions with mistakes are not in effect, what they said before is (mend them: awk validate)"
        unread = UNREAD if definitions is None else None
        again = kernel.state.restart_notice if store.reader.now(predecessor_died) else None
        away = store.reader.now(traces.failing, store.now_ms())
        traces_notice = f"spans wait: the collector of otel takes none ({away[0][1]})" if away else None
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
        needs=await needs.number(store, files, waiting),
        held=tuple(
            HeldAgent(name=row.name, space=row.space, state=row.state, reason=row.reason, until=row.until)
            for row in rows
            if row.state not in ("idle", "running")
        ),
        workflows=here,
        broken=tuple(remote_error(error, quotes=actor.access == ADMIN) for error in wrong),
    )


async def shutdown(asked: ShutdownRequest, kernel: KernelControl) -> Health:
    """Begin to stop. Asking again, with another key or without one, makes it hurry."""
    kernel.shutdown.ask(asked.grace)
    return Health(status="stopping", version=kernel.identity.version)


async def upgrade(asked: UpgradeRequest, kernel: KernelControl) -> UpgradeReport:
    """Begin to have another version go on in this one's place. GET /upgrade tells how it ends."""
    return kernel.upgrade.ask(asked.to)


async def upgrade_state(kernel: KernelControl) -> UpgradeReport:
    """Return the last upgrade of this kernel, or the one under way."""
    return kernel.upgrade.tell()


async def prune(asked: PruneRequest, processes: ProcessControl) -> PruneReport:
    """Remove what takes room and nobody needs; asked again, what is left. ``dry_run`` only tells."""
    return await processes.prune(asked)


async def providers(files: ProjectFiles) -> ProviderList:
    """List the providers that we know, and those of the project file. Says whether a key is set, never the key."""
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
    """List the backends, with the versions of what is installed.

    The first answer takes as long as the slowest program.
    """
    env = worker_environment(files.environ, own_bin=files.own_bin)
    return BackendList(backends=await probe_backends(env, processes.probes.ask))


async def trust(files: ProjectFiles) -> TrustList:
    """List the grants that the user keeps."""
    return TrustList(consents=tuple(files.trust.kept()))


async def usage(asked: UsageRequest, store: StoreAccess, files: ProjectFiles) -> UsageReport:
    """Report the usage of all that is kept; with a space of what was done there, with an agent of what it did.

    With both, the agent is who bears that name there. ``by``, ``since`` and ``until`` (milliseconds since 1970) part
    what ended in a time. Raises Refused (unknown_agent, workflow_not_running, too_large).
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
    """The time that is asked about; None: none. Raises Refused (bad_request)."""
    if asked.by is None and asked.since is None and asked.until is None:
        return None
    words = [word for word in (asked.by or "").split(",") if word]
    by: list[GroupedBy] = [word for word in GROUPED_BY if word in words]
    by.sort(key=words.index)
    if len(words) > MOST_PARTS or len(by) != len(words):
        raise Refused("bad_request", f"by names one of {', '.join(GROUPED_BY)}, or two with a comma between them")
    return Period(tuple(by), asked.since or 0, now_ms + 1 if asked.until is None else asked.until)


async def metrics(
    actor: Actor, store: StoreAccess, files: ProjectFiles, processes: ProcessControl, kernel: KernelControl
) -> Response:
    """Return numbers of the kernel as Prometheus reads them, as ``Accept`` asks for it. Raises Refused (busy)."""
    from kernel.operations.exposition import Scrape, expose_text  # noqa: PLC0415  (only those who are scraped pay)

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
