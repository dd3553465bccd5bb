"""What can run an agent here.

Whether the kernel lives, and proof that it is the one that holds our token.

The kernel as a whole: what it is, and how it is asked to stop.

Whose models agents can use here. Says whether a key is set, never the key.

What the user keeps to trust. Only told here: it is kept by ``awk trust``, in the user's own state directory.

What work took.
"""

from collections import Counter
from typing import Final

import trio

from kernel.agents.backends import probe_backends
from kernel.agents.environment import worker_environment
from kernel.agents.providers import ALIASES, PROVIDERS
from kernel.api.context import Services
from kernel.api.http.agents import check_known
from kernel.api.http.route import Request
from kernel.api.http.spaces import known_space
from kernel.api.http.trust_notice import untrusted_notice
from kernel.api.http.workflows import rows_of_running
from kernel.api.responses import Response, json_reply
from kernel.policy.restart import WAY_OUT
from kernel.store import agents, spending
from kernel.workflows.load import broken
from protocol.api.kernel import Health, HeldAgent, KernelInfo, Ready, ShutdownRequest, StatusReport
from protocol.api.processes import PsRow
from protocol.api.providers import BackendList, ProviderList, ProviderRow
from protocol.api.usage import UsageReport
from protocol.errors import Refused
from protocol.names import place_of
from protocol.project import ProviderEntry
from protocol.proof import prove
from protocol.trust import TrustList


async def backends(services: Services, _call: Request[None]) -> BackendList:
    """GET /backends: with the versions of what is installed. The first answer takes as long as the slowest program."""
    env = worker_environment(services.environ, own_bin=services.own_bin)
    return BackendList(backends=await probe_backends(env, services.probes.ask))


NONCE_LIMIT: Final = 200


async def health(services: Services, call: Request[None]) -> Health:
    """GET /health: answers without a token. ``nonce`` is answered with HMAC-SHA256(token, nonce)."""
    nonce = call.query.get("nonce")
    if nonce is not None and len(nonce) > NONCE_LIMIT:
        raise Refused("bad_request", f"nonce must have at most {NONCE_LIMIT} characters")
    proof = None
    if nonce:
        proof = prove(services.token, nonce)
    stops = services.stopping() or services.closing.is_set()
    return Health(
        status="stopping" if stops else "ok",
        version=services.about.version,
        proof=proof,
        safe_mode=services.safe_mode(),
    )


async def ready(services: Services, _call: Request[None]) -> Response:
    """GET /ready: 200 once work is accepted and begun; 503 before, while stopping or in safe mode, and where the last
    commit failed and another one does too.
    """
    if services.stopping() or services.closing.is_set():
        return json_reply(Ready(ready=False, status="stopping"), 503)
    if services.safe_mode():
        return json_reply(Ready(ready=False, status="safe_mode"), 503)
    if not services.ready():
        return json_reply(Ready(ready=False, status="starting"), 503)
    trouble = await services.writer.trouble()
    if trouble is not None:
        return json_reply(Ready(ready=False, status="storage_full" if trouble.code == "storage_full" else "busy"), 503)
    return json_reply(Ready(ready=True, status="ok"))


async def status(services: Services, call: Request[None]) -> StatusReport:
    """GET /status?space=&agent=: the kernel, how many agents are in which state, and the workflows that run.

    With a space or an agent of them only that. Raises Refused (unknown_agent, workflow_not_running).
    """
    about = services.about
    space, agent = call.query.get("space"), call.query.get("agent")
    # Keys of the agents that are asked about; None: of all. One that a workflow refers to has one state everywhere.
    meant: frozenset[str] | None
    if space is None:
        if agent is not None:
            check_known(services, agent)
        meant = None if agent is None else frozenset({agent})
    else:
        members = services.reader.now(agents.members, known_space(services, space))
        keys = frozenset(str(meant_one.key) for meant_one in members if agent in (None, meant_one.name))
        if agent is not None and not keys:
            names = ", ".join(meant_one.name for meant_one in members)
            raise Refused("not_a_participant", f"{agent[:60]} is not in {space[:100]}", f"there are: {names}")
        meant = keys
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


def _notice(services: Services, trouble: Refused | None, wrong: int, *more: str | None) -> str | None:
    if services.safe_mode():
        return WAY_OUT
    if trouble is not None:
        return f"{trouble.text}; {trouble.hint}"
    files = "definitions with mistakes are not in effect, what they said before is (mend them: awk validate)"
    return "; ".join(part for part in (files if wrong else None, *more) if part) or None


def _held(row: PsRow) -> HeldAgent:
    return HeldAgent(name=row.name, space=row.space, state=row.state, reason=row.reason, until=row.until)


async def shutdown(services: Services, call: Request[ShutdownRequest]) -> Health:
    """POST /shutdown: begin to stop. Asking again makes it hurry, so it needs no idempotency key."""
    services.shutdown(call.body.grace)
    return Health(status="stopping", version=services.about.version)


async def providers(services: Services, _call: Request[None]) -> ProviderList:
    """GET /providers: those we know, and those of the project file."""
    own = services.catalog.project().providers
    rows = [_builtin(services, name) for name in PROVIDERS if name not in own]
    rows += [_own(services, name, entry) for name, entry in own.items()]
    return ProviderList(providers=tuple(rows), aliases=dict(ALIASES))


def _builtin(services: Services, name: str) -> ProviderRow:
    preset = PROVIDERS[name]
    return ProviderRow(
        name=name,
        dialect=preset.dialect,
        base_url=preset.base_url,
        key_variables=preset.key_variables,
        key_set=_any_set(services, preset.key_variables),
        source="builtin",
    )


def _own(services: Services, name: str, entry: ProviderEntry) -> ProviderRow:
    preset = PROVIDERS.get(name)
    variables = preset.key_variables if preset is not None and entry.base_url is None else ()
    if entry.api_key is not None:
        variables = (entry.api_key.removeprefix("$"),)
    return ProviderRow(
        name=name,
        dialect=entry.dialect or (preset.dialect if preset is not None else "openai"),
        base_url=entry.base_url or (preset.base_url if preset is not None else None),
        key_variables=variables,
        key_set=_any_set(services, variables),
        source="project",
    )


def _any_set(services: Services, variables: tuple[str, ...]) -> bool:
    return any(services.environ.get(variable) for variable in variables)


async def list_(services: Services, _call: Request[None]) -> TrustList:
    """GET /trust."""
    return TrustList(consents=tuple(services.kept()))


async def show_usage(services: Services, call: Request[None]) -> UsageReport:
    """GET /usage?space=&agent=: over all that is kept; with a space what was done there, with an agent what it did.

    With both, the agent is who bears that name there. Raises Refused (unknown_agent, workflow_not_running).
    """
    asked, agent = call.query.get("space"), call.query.get("agent")
    space = None if asked is None else place_of(known_space(services, asked))
    if agent is not None and space is None:
        check_known(services, agent)
        return await services.reader.read(spending.report, agent=agent)
    return await services.reader.read(spending.report, space=space, name=agent)
