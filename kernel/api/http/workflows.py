"""Workflows that run: which, start one, stop one.

Why there is nobody in the space of a workflow: it does not run, or there is none of that name.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import apsw
import msgspec
import trio

from kernel.api.context import Services
from kernel.api.http.route import Request, once
from kernel.api.responses import Response
from kernel.policy.restart import WAY_OUT
from kernel.source.suggest import suggest
from kernel.store import agents, workflows, worktrees
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.transitions.runs import StartedRun, started_before, stop_workflow
from kernel.store.transitions.steering import continue_workflow, pause_workflow, resume_workflow
from kernel.store.workflows import WorkflowRecord
from kernel.workflows import start as workflows_start
from kernel.workflows.checkouts import Checkout, pin
from kernel.workflows.find import workflow_names
from kernel.workflows.prepare import Prepared, prepare
from protocol.api.runs import RunOptions
from protocol.api.workflows import StartRequest, WorkflowList, WorkflowRow
from protocol.errors import Refused
from protocol.names import DEFAULT_TAG, SpaceId, run_id, split_space, workflow_space
from protocol.remote_ref import is_remote
from protocol.target import Target


def not_running(services: Services, space: str, what: str = "") -> Refused:
    """The refusal, with the command that starts it; of a name that nobody knows the nearest, or those there are.

    ``what`` is said in place of that it does not run.
    """
    name, tag = split_space(space)
    text = what or f"workflow {space[:100]} is not running"
    names = workflow_names(services.catalog, services.catalog.kept_project())
    before = services.reader.now(workflows.newest_at, space)
    start = name if name in names else before and before.file  # it was started from a path, or from elsewhere
    if start is None:
        known = {*names, *(record.name for record in services.reader.now(workflows.running))}
        text = f"{text}, and there is no workflow {name[:60]!r}"
        return Refused("workflow_not_running", text, suggest(name, known, what="workflows here"))
    flag = "" if tag == DEFAULT_TAG else f" --tag {tag[:64]}"
    return Refused("workflow_not_running", text, f"start it: awk start {start}{flag}")


def nothing_to_stop(services: Services, space: str) -> Refused:
    """The refusal where it was to be stopped."""
    running = {str(Target(None, record.name, record.tag)) for record in services.reader.now(workflows.running)}
    name, tag = split_space(space)
    hint = suggest(str(Target(None, name, tag)), running, what="running")
    return Refused("workflow_not_running", f"workflow {space[:100]} is not running", hint)


_EXIT_OF_SIGNAL: Final[Mapping[str, int]] = MappingProxyType({"INT": 130, "TERM": 143, "HUP": 129, "PIPE": 141})


async def list_(services: Services, _call: Request[None]) -> WorkflowList:
    """GET /workflows: those that run."""
    return WorkflowList(workflows=await services.reader.read(rows_of_running))


async def start(services: Services, call: Request[StartRequest]) -> WorkflowRow:
    """POST /workflows: start one, answered once it runs. A repeat of the request waits for the same answer."""
    begun = await launch(services, call.body, None, call.request_key)
    return WorkflowRow(
        name=begun.name,
        tag=begun.tag,
        state="running",
        members=begun.members,
        started_at=rfc3339(begun.started_ms),
        run=begun.place if begun.mode == "run" else None,
        id=run_id(begun.run),
    )


def check_works(services: Services) -> None:
    """Raise Refused (safe_mode) where work would be begun that nobody does, and somebody would wait for it."""
    if services.safe_mode():
        raise Refused("safe_mode", WAY_OUT)


async def launch(
    services: Services, request: StartRequest, run: RunOptions | None, key: RequestKey | None
) -> StartedRun:
    """Check, set up and start a workflow, once for ``key``; with the options of a ``run``, where it is one.

    Raises Refused and BadDefinition; then nothing was started.
    """
    check_works(services)

    def before(key: RequestKey) -> StartedRun | None:
        return services.reader.now(started_before, key, services.now_ms())

    return await services.launches.once(key, before, lambda: _launch(services, request, run, key))


async def _launch(
    services: Services, request: StartRequest, run: RunOptions | None, key: RequestKey | None
) -> StartedRun:
    checkout: Checkout | None = None
    if is_remote(request.workflow):
        if services.remotes is None:
            raise Refused("bad_request", "this kernel fetches no remote workflows", "clone it, and give its path")
        checkout = await services.remotes.checkout(request.workflow, update=request.update)
    elif request.update:
        raise Refused("bad_request", "--update is for a remote workflow: what is here is read each time")
    if services.trusted:
        request = msgspec.structs.replace(request, trust=True)
    running = frozenset(record.place for record in services.reader.now(workflows.running))

    def checked() -> Prepared:
        prepared = prepare(
            services.catalog,
            request,
            run,
            environ=services.environ,
            checkout=checkout,
            running=running,
            kept=services.kept,
        )
        if checkout is not None:
            pin(services.catalog.root, checkout)  # only what is trusted is pinned
        return prepared

    return await workflows_start.start(
        await trio.to_thread.run_sync(checked),
        launcher=services.launcher,
        writer=services.writer,
        environ=services.environ,
        now_ms=services.now_ms,
        own_bin=services.own_bin,
        request=key,
        repository=services.repository,
        paths=partial(services.reader.now, worktrees.paths),
    )


async def show(services: Services, call: Request[None]) -> WorkflowRow:
    """GET /workflows/:name[/:tag]: one that runs."""
    row = await services.reader.read(_row_of, _place(call))
    if row is None:
        raise not_running(services, _place(call))
    return row


async def stop(services: Services, call: Request[None]) -> WorkflowRow:
    """DELETE /workflows/:name[/:tag]: stop it; what is open in it is cancelled.

    ``?signal=TERM``: a client was ended by that, and its exit code is the run's.
    """
    place, exit_code = _place(call), _EXIT_OF_SIGNAL.get(call.query.get("signal", "INT"))
    if exit_code is None:
        raise Refused("bad_request", f"signal must be one of {', '.join(_EXIT_OF_SIGNAL)}")
    record = services.reader.now(workflows.running_at, place)
    if record is None:
        raise nothing_to_stop(services, place)
    row = await services.reader.read(_shown, record)
    await services.writer.commit(stop_workflow, record.space, "cancelled", exit_code, "stopped by the user")
    return WorkflowRow(
        name=row.name,
        tag=row.tag,
        state="stopped",
        members=row.members,
        started_at=row.started_at,
        run=row.run,
        id=row.id,
    )


async def pause(services: Services, call: Request[None]) -> Response:
    """POST /workflows/:name[/:tag]/pause: nothing in it is begun; what runs gives way after its next entry."""
    return await _change(services, call, pause_workflow)


async def resume(services: Services, call: Request[None]) -> Response:
    """POST /workflows/:name[/:tag]/resume."""
    return await _change(services, call, resume_workflow)


async def continue_(services: Services, call: Request[None]) -> Response:
    """POST /workflows/:name[/:tag]/continue: its limits once more."""
    return await _change(services, call, continue_workflow)


async def _change(services: Services, call: Request[None], change: Callable[[Transaction, str], object]) -> Response:
    place = _place(call)

    def make(tx: Transaction) -> WorkflowRow:
        record = workflows.running_at(tx.conn, place)
        change(tx, SpaceId(place) if record is None else record.space)
        row = _row_of(tx.conn, place)
        assert row is not None, place
        return row

    try:
        return Response(200, await services.writer.commit(once, call.request_key, make, status=200))
    except Refused as refused:
        if refused.code == "workflow_not_running":
            raise not_running(services, place) from None
        raise


def rows_of_running(conn: apsw.Connection) -> tuple[WorkflowRow, ...]:
    """Every workflow that runs, with its members."""
    return tuple(_shown(conn, record) for record in workflows.running(conn))


def _row_of(conn: apsw.Connection, place: str) -> WorkflowRow | None:
    record = workflows.running_at(conn, place)
    return None if record is None else _shown(conn, record)


def _shown(conn: apsw.Connection, record: WorkflowRecord) -> WorkflowRow:
    return WorkflowRow(
        name=record.name,
        tag=record.tag,
        state="waiting" if record.state == "running" and record.limited_by else record.state,
        reason=record.limited_by,
        members=tuple(member.name for member in agents.members(conn, record.space)),
        started_at=rfc3339(record.started_ms),
        run=record.place if record.mode == "run" else None,
        id=run_id(record.id),
        paused=workflows.paused(conn, record.id),
    )


def _place(call: Request[None]) -> str:
    return workflow_space(call.args["name"], call.args.get("tag", DEFAULT_TAG))
