"""Running workflows: list, start, show, pause, resume, continue and stop."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import apsw
import msgspec
import trio

from kernel.git.branches import clone_base
from kernel.git.runner import uncommitted
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, Services, StoreAccess, not_running
from kernel.operations.operation import Actor, Operation, ToolFront, Wait, operation
from kernel.policy.access import ADMIN, Access
from kernel.policy.retry import SAFE_MODE_NOTICE
from kernel.source.diagnostics import BadDefinition, place_text, suggest
from kernel.store import agents, workflows
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.transitions import creations, worktrees
from kernel.store.transitions.runs import RULES, StartedRun, planned_number, refuse_start, started_before, stop_workflow
from kernel.store.transitions.steering import continue_workflow, pause_workflow, resume_workflow
from kernel.store.workflows import WorkflowRecord
from kernel.workflows import start as workflows_start
from kernel.workflows.find import Checkout, pin
from kernel.workflows.prepare import PreparedWorkflow, prepare
from protocol.api.document import Ask
from protocol.api.runs import RunOptions
from protocol.api.workflows import StartRequest, WorkflowList, WorkflowRow
from protocol.errors import Refused
from protocol.names import DEFAULT_TAG, SpaceId, base_space, run_id, workflow_space
from protocol.remote_ref import is_remote
from protocol.target import Target
from protocol.workflow import Workspace

LATER_SECONDS: Final = 2.0
_EXIT_OF_SIGNAL: Mapping[str, int] = {"INT": 130, "TERM": 143, "HUP": 129, "PIPE": 141}


class OfWorkflow(Ask, frozen=True, kw_only=True):
    """Request about a running workflow."""

    workflow: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="name")
    tag: Annotated[str, msgspec.Meta(description="Tag that distinguishes several runs of the workflow.")] = DEFAULT_TAG

    @property
    def place(self) -> str:
        """Return the name of the workflow's space."""
        return workflow_space(self.workflow, self.tag)


class StopWorkflowRequest(OfWorkflow, frozen=True, kw_only=True):
    """Workflow to stop."""

    wait: Wait = True
    signal: Annotated[
        Literal["INT", "TERM", "HUP", "PIPE"], msgspec.Meta(description="Signal that ended the client.")
    ] = "INT"


def list_workflows(conn: apsw.Connection) -> WorkflowList:
    """List the running workflows."""
    return WorkflowList(workflows=tuple(_shown(conn, record) for record in workflows.running(conn)))


async def start_workflow(
    asked: StartRequest,
    actor: Actor,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
    kernel: KernelControl,
) -> WorkflowRow:
    """Start a workflow that runs until it is stopped. Use workflow_run for work with an end.

    The answer is sent when the workflow runs. A repeated request waits for the same answer.
    """
    check_works(kernel)
    begun = await launch(actor, asked, None, store, files, processes)
    return WorkflowRow(
        name=begun.name,
        tag=begun.tag,
        state="running",
        members=begun.members,
        started_at=rfc3339(begun.started_ms),
        run=begun.place if begun.mode == "run" else None,
        id=run_id(begun.run),
        left_behind=begun.left_behind,
    )


def check_works(kernel: KernelControl) -> None:
    """Raise Refused in safe mode: the kernel starts no work, and the client would wait forever."""
    if kernel.state.safe_mode():
        raise Refused("safe_mode", SAFE_MODE_NOTICE)


async def launch(
    actor: Actor,
    request: StartRequest,
    run: RunOptions | None,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
) -> StartedRun:
    """Check, set up and start a workflow once for the key of the request, with the options ``run``.

    The caller has called ``check_works``. On Refused and BadDefinition, nothing was started.
    """
    confined = actor.access != ADMIN
    if confined and is_remote(request.workflow):
        hint = "ask the administrator to run it, or to put the file into the project"
        raise Refused("forbidden", "this token can run workflows of the project only: by name, or by path", hint)

    def before(key: RequestKey) -> StartedRun | None:
        return store.reader.now(started_before, key, store.now_ms())

    async def prepare_and_start() -> StartedRun:
        checkout: Checkout | None = None
        if is_remote(request.workflow):
            checkout = await files.remotes.checkout(request.workflow, update=request.update)
        elif request.update:
            raise Refused("bad_request", "--update is for remote workflows only: local files are always read again")
        asked = msgspec.structs.replace(request, trust=True) if files.trust.everything else request
        running = frozenset(record.place for record in store.reader.now(workflows.running))

        def checked() -> PreparedWorkflow:
            prepared = prepare(
                files.catalog,
                asked,
                run,
                environ=files.environ,
                checkout=checkout,
                running=running,
                kept=files.trust.kept,
                confined=confined,
            )
            if checkout is not None:
                pin(files.catalog.root, checkout)  # Pin only trusted content.
            return prepared

        prepared = await trio.to_thread.run_sync(checked)
        if (number := planned_number(actor.request_key)) is not None:  # before any command has run
            store.reader.now(creations.confined, number, prepared.spec)
        left_behind = 0
        if any(member.definition.needs.labels for member in prepared.loaded.members):
            workspace = prepared.loaded.definition.workspace
            if isinstance(workspace, Workspace) and workspace.git == "shared":
                text = "agents that share one working tree (workspace.git: shared) cannot run on nodes"
                raise Refused("bad_definition", text, "write git: worktree, or leave out needs.labels")
            await clone_base(files.worktrees.repository)
            left_behind = await uncommitted(files.worktrees.repository.git, files.catalog.root)
        begun = await workflows_start.start(
            prepared,
            launcher=processes.launcher,
            writer=store.writer,
            environ=files.environ,
            now_ms=store.now_ms,
            own_bin=files.own_bin,
            request=actor.request_key,
            repository=files.worktrees.repository,
            paths=partial(store.reader.now, worktrees.paths),
        )
        return msgspec.structs.replace(begun, left_behind=left_behind)

    return await processes.single_flight.once(actor.request_key, before, prepare_and_start)


async def start_for_rules(services: Services) -> float:
    """Start the workflows that rules plan, each once. Return the seconds until the next call without an event."""
    store = services.store
    if services.kernel.state.safe_mode():
        return LATER_SECONDS
    for one in store.reader.now(creations.planned_starts):
        asked = StartRequest(workflow=one.start.workflow, tag=one.start.tag, params=one.start.params)
        actor = Actor(access=Access(RULES, "operate"), request_key=RequestKey(RULES, str(one.number), b""))
        try:
            await launch(actor, asked, None, store, services.files, services.processes)
        except (BadDefinition, Refused) as error:
            why = place_text(error.errors) if isinstance(error, BadDefinition) else error.text
            try:
                await store.writer.commit(refuse_start, one, why)
            except Refused:  # The store accepts no commits for now.
                return LATER_SECONDS
    return float("inf")


async def show_workflow(asked: OfWorkflow, store: StoreAccess, files: ProjectFiles) -> WorkflowRow:
    """Return a running workflow."""
    row = await store.reader.read(_row_of, asked.place)
    if row is None:
        raise not_running(store, files, asked.place)
    return row


async def end_workflow(asked: StopWorkflowRequest, store: StoreAccess, processes: ProcessControl) -> WorkflowRow:
    """Stop a workflow. Its unfinished work is cancelled.

    ``?signal=TERM``: the signal that ended the client determines the run's exit code. The answer is sent when all
    processes of its agents have exited, with ``?wait=false`` immediately.
    """
    record = store.reader.now(workflows.running_at, asked.place)
    if record is None:
        running = {str(Target(None, record.name, record.tag)) for record in store.reader.now(workflows.running)}
        hint = suggest(str(Target(None, asked.workflow, asked.tag)), running, what="running")
        raise Refused("workflow_not_running", f"workflow {asked.place[:100]} is not running", hint)
    row = await store.reader.read(_shown, record)
    await store.writer.commit(
        stop_workflow, record.space, "cancelled", _EXIT_OF_SIGNAL[asked.signal], "stopped by the user"
    )
    if asked.wait:
        await processes.attempts.until_gone(lambda leased: base_space(leased.space) == record.space)
    return msgspec.structs.replace(row, state="stopped", reason=None, paused=False)


async def pause(asked: OfWorkflow, store: StoreAccess, files: ProjectFiles) -> WorkflowRow:
    """Pause a workflow. No new work starts; running work yields after its next entry."""
    return await _change(asked, store, files, pause_workflow)


async def resume(asked: OfWorkflow, store: StoreAccess, files: ProjectFiles) -> WorkflowRow:
    """Resume a paused workflow."""
    return await _change(asked, store, files, resume_workflow)


async def continue_(asked: OfWorkflow, store: StoreAccess, files: ProjectFiles) -> WorkflowRow:
    """Renew the limits of a workflow that has reached them."""
    return await _change(asked, store, files, continue_workflow)


async def _change(
    asked: OfWorkflow, store: StoreAccess, files: ProjectFiles, change: Callable[[Transaction, str], object]
) -> WorkflowRow:
    place = asked.place

    def make(tx: Transaction) -> WorkflowRow:
        record = workflows.running_at(tx.conn, place)
        change(tx, SpaceId(place) if record is None else record.space)
        row = _row_of(tx.conn, place)
        assert row is not None, place
        return row

    try:
        return await store.writer.commit(make)
    except Refused as refused:
        if refused.code == "workflow_not_running":
            raise not_running(store, files, place) from None
        raise


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


def _rows(
    run: Callable[..., Any], method: str, verb: str = "", manage: ToolFront | None = None, **more: Any
) -> tuple[Operation, Operation]:
    return (
        operation(run, f"{method} /workflows/<name>{verb}", without=("tag",), **more),
        operation(run, f"{method} /workflows/<name>/<tag>{verb}", manage=manage, **more),
    )


_UNSAID = ("trust", "agree", "update", "continues")
OPERATIONS = (
    operation(list_workflows, "GET /workflows"),
    operation(
        start_workflow,
        "POST /workflows",
        status=201,
        waits=True,
        keeps_key=True,
        trusts=lambda asked: asked.trust or bool(asked.agree),
        manage=ToolFront("workflow_start", without=_UNSAID, needs=("workflow",)),
    ),
    *_rows(show_workflow, "GET"),
    *_rows(end_workflow, "DELETE", waits=True, manage=ToolFront("workflow_stop", without=("wait", "signal"))),
    *_rows(pause, "POST", "/pause"),
    *_rows(resume, "POST", "/resume"),
    *_rows(continue_, "POST", "/continue", scope="approve"),
)
