"""Runs: reports, and POST /run and /serve, which start work and follow it to its end.

The stream only shows the work: closing it stops nothing. Another service ends runs of workflows.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final

import apsw
import msgspec
import trio

from kernel.operations.answers import BYE, Stream
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess, run_asked
from kernel.operations.events import document, follow, frame, stored
from kernel.operations.messages import OutsideMessage, deliver
from kernel.operations.operation import Actor, Backward, Limit, ToolFront, operation, page_of
from kernel.operations.workflows import check_works, launch, list_workflows
from kernel.policy.run_completion import Choice
from kernel.store import feed, instructions, messages, run_outcomes, voting, workflows
from kernel.store.feed import EventFilter
from kernel.store.instruction_views import all_missing_credentials, failed_calls_of_run
from kernel.store.transaction import optional_rfc3339, rfc3339
from kernel.store.transitions import landings, worktrees
from kernel.store.transitions.append import Appended
from kernel.store.workflows import RunFilter, WorkflowRecord
from kernel.workflows.schema_check import NotJson, read_output
from protocol.api.document import Ask
from protocol.api.messages import InstructionResult, SendReport
from protocol.api.runs import Accepted, RunList, RunReport, RunRequest, RunRow
from protocol.api.workflows import WorkflowRow
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.message import LIVE, Event
from protocol.names import InstructionId, run_id
from protocol.target import parse_target


class RunsRequest(Backward, frozen=True, kw_only=True):
    """Filter of runs."""

    workflow: Annotated[str, msgspec.Meta(description="Name of a workflow.")] | None = None
    tag: Annotated[str, msgspec.Meta(description="Tag of a workflow.")] | None = None
    status: Annotated[str, msgspec.Meta(description="Status of the runs, such as done.")] | None = None
    since: Annotated[int, msgspec.Meta(ge=0, description="Start of the period, in milliseconds since 1970.")] | None = (
        None
    )
    limit: Limit = 100


_RUN_NAME: Final = "Id of the run, such as r12, or review:main for the newest run of a workflow and tag."
RunName = Annotated[str, msgspec.Meta(min_length=1, description=_RUN_NAME)]


class OneRun(Ask, frozen=True, kw_only=True):
    """Request that names a run."""

    run: RunName


class WorkflowStatusRequest(Ask, frozen=True, kw_only=True):
    """Run to show, or all running workflows."""

    run: RunName | None = None


class WorkflowWaitRequest(OneRun, frozen=True, kw_only=True):
    """Run to wait for."""

    timeout_seconds: Annotated[int, msgspec.Meta(ge=0, le=600, description="Seconds to wait for the end.")] = 60


class WorkflowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Running workflows. ``report`` is the requested run, without its messages."""

    workflows: tuple[WorkflowRow, ...]
    report: RunReport | None = None


def list_runs(conn: apsw.Connection, asked: RunsRequest, now_ms: int) -> RunList:
    """List the runs, the newest first."""
    wanted, page = RunFilter(asked.workflow, asked.tag, asked.status, asked.since), page_of(asked, "r")
    records = workflows.runs(conn, wanted, limit=page.limit + 1, before=page.after)
    rows, following = page.cut(records, lambda record: run_id(record.id))
    return RunList(
        runs=tuple(
            RunRow(
                id=run_id(record.id),
                run=record.place,
                mode=record.mode,
                state=record.state,
                status=record.status,
                exit_code=record.exit_code,
                started_at=rfc3339(record.started_ms),
                ended_at=optional_rfc3339(record.ended_ms),
                duration_seconds=_seconds(record, now_ms),
                verdict=_verdict(conn, record),
                cost_usd=workflows.cost_usd(conn, record.id),
            )
            for record in rows
        ),
        total=workflows.count_runs(conn, **wanted._asdict()),
        next=following,
    )


def show(conn: apsw.Connection, asked: OneRun, now_ms: int) -> RunReport:
    """Return the report of a run, by its id, or the newest run of a workflow and tag."""
    return report_of(conn, run_asked(conn, asked.run), now_ms)


def report_of(conn: apsw.Connection, record: WorkflowRecord, now_ms: int, *, said: bool = True) -> RunReport:
    """Return the report of one run, with all its messages if ``said``."""
    counts = instructions.counts(conn, record.id)
    expected = run_outcomes.expected(conn, record.id)
    delivered = landings.newest(conn, record.id, delivers=True)
    output: object = None
    if record.status == "done" and record.mode == "run" and expected.schema is not None:
        with suppress(NotJson):  # Its text may be deleted since the run ended.
            output = read_output(run_outcomes.last_reply(conn, record.id, expected.exit_from).text)
    return RunReport(
        id=run_id(record.id),
        run=record.place,
        status=record.status if record.state == "stopped" and record.status else "running",  # type: ignore[arg-type]
        exit_code=record.exit_code or 0,
        instructions={status: counts.statuses.get(status, 0) for status in sorted(ENDED)},
        usage=counts.usage,
        messages=messages.of_run(conn, record.id) if said else (),
        duration_seconds=_seconds(record, now_ms),
        verdict=_verdict(conn, record),
        output=output,
        branches={
            tree.name: tree.branch for tree in worktrees.of_run(conn, record.id) if tree.state in ("made", "kept")
        },
        failed_calls=failed_calls_of_run(conn, record.id),
        delivery=None if delivered is None else landings.info_of(delivered),
    )


def _seconds(record: WorkflowRecord, now_ms: int) -> float:
    ended_ms = now_ms if record.ended_ms is None else record.ended_ms
    return round((ended_ms - record.started_ms) / 1000, 3)


def _verdict(conn: apsw.Connection, record: WorkflowRecord) -> Choice | None:
    terms = run_outcomes.expected(conn, record.id).verdict
    return None if terms is None else voting.of_run(conn, record.id, terms.id).choice


Report = RunReport | SendReport
TURNS: Final = frozenset(
    {"workflow.stopped", "instruction.ended", "instruction.queued", "agent.changed", "approval.requested"}
)
"""Events after which work may have ended or may need a person."""


class StartedWork(msgspec.Struct, frozen=True):
    """Accepted work: the filter of its events, and its report after the end."""

    accepted: Accepted
    space: str
    outcome: Callable[[], Awaitable[Report | None]]
    """Function that returns the report, or None while the work continues."""

    def concerns(self, event: Event) -> bool:
        """Return whether ``event`` belongs to this work: to the run's space, or to a message's instructions."""
        if event.space not in (None, self.space):
            return False
        if event.type == "agent.changed" and event.space is None:
            return False
        if self.accepted.run is not None or (event.type in (*LIVE, BYE) and event.instruction is None):
            return True
        return event.instruction in self.accepted.instruction_ids


async def run(
    asked: RunRequest,
    actor: Actor,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
    kernel: KernelControl,
) -> Stream:
    """Start work and stream it: ``accepted``, then events, then ``result``."""
    _check(asked)
    check_works(kernel)
    if asked.workflow is not None:
        work = await _begin_run(asked, actor, store, files, processes)
    else:
        seq = store.reader.now(feed.event_range).newest
        appended = await _send(asked, actor, store, files)

        async def outcome() -> SendReport | None:
            return _send_report(store, appended, attended=asked.attended)

        accepted = Accepted(message_id=appended.message_id, instruction_ids=appended.instruction_ids, seq=seq)
        work = StartedWork(accepted, parse_target(asked.to or "").space, outcome)

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield document("accepted", work.accepted)
        async with aclosing(_events(store, kernel, work)) as passing:
            async for piece in passing:
                yield piece if isinstance(piece, bytes) else document("result", piece)

    return Stream(pieces())


async def serve(
    asked: RunRequest,
    actor: Actor,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
    kernel: KernelControl,
) -> Report:
    """Start work, and answer after its end."""
    check_works(kernel)
    _check(asked)
    if asked.workflow is None:
        return await _serve_message(asked, actor, store, files, kernel)
    work = await _begin_run(asked, actor, store, files, processes)
    async with aclosing(_events(store, kernel, work)) as passing:
        async for report in passing:
            if not isinstance(report, bytes):
                return report
    raise _stopping()


async def _events(store: StoreAccess, kernel: KernelControl, work: StartedWork) -> AsyncGenerator[bytes | Report, None]:
    over = await work.outcome()
    if over is not None:
        yield over  # No agent was woken, or the request is a repeat of completed work.
        return
    wanted = EventFilter(space=work.space, beside="agent.changed")
    async with aclosing(follow(store, kernel, work.accepted.seq, wanted)) as ticks:
        async for tick in ticks:
            if tick is None or work.concerns(tick):
                yield frame(tick)
            report = await work.outcome() if tick is not None and tick.type in TURNS else None
            if report is not None and tick is not None:
                # The commit that ended the work published further events: send them before.
                newest, rest = store.reader.now(feed.event_range).newest, EventFilter(space=work.space)
                async with aclosing(stored(store.reader, tick.seq or 0, newest, rest)) as found:
                    async for event in found:
                        if work.concerns(event):
                            yield frame(event)
                yield report
                return


async def _serve_message(
    asked: RunRequest, actor: Actor, store: StoreAccess, files: ProjectFiles, kernel: KernelControl
) -> SendReport:
    """Send a message and wait for its instructions, without reading events from the store."""
    appended = await _send(asked, actor, store, files)
    ids = appended.instruction_ids

    def wanted(event: Event) -> bool:
        if event.instruction in ids or event.instruction is None:
            return True
        return bool(event.data.get("waits_for"))  # The asked agent may now wait for a person.

    with store.feed.subscribe(types=TURNS | {BYE}, wanted=wanted) as ends:
        while (report := _send_report(store, appended, attended=asked.attended)) is None:
            if kernel.shutdown.closing.is_set():
                raise _stopping()
            await anext(ends)
        return report


def _stopping() -> Refused:
    return Refused("stopping", "the kernel is stopping; the next kernel continues the work")


def _check(request: RunRequest) -> None:
    if (request.workflow is None) == (request.to is None) or (request.to is None) != (request.text is None):
        raise Refused("bad_request", "give either workflow, or to and text")
    of_workflows = (request.max_tokens, request.max_cost_usd, request.exit_code_from, request.approve)
    if request.workflow is None and any(given is not None for given in of_workflows):
        raise Refused("bad_request", "max_tokens, max_cost_usd, exit_code_from and approve are for workflows only")


async def _begin_run(
    asked: RunRequest, actor: Actor, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> StartedWork:
    begun = await launch(actor, asked.start(asked.workflow or ""), asked.options(), store, files, processes)

    async def outcome() -> RunReport | None:
        now = store.reader.now(workflows.by_id, begun.run)
        if now is None or now.state == "running":
            return None
        await store.mirror.redo()  # Files must be complete when the report is read.
        return await store.reader.read(report_of, now, store.now_ms())

    name, left_behind = run_id(begun.run), begun.left_behind
    accepted = Accepted(run=begun.place, id=name, seq=begun.after, left_behind=left_behind)
    return StartedWork(accepted, begun.place, outcome)


async def _send(asked: RunRequest, actor: Actor, store: StoreAccess, files: ProjectFiles) -> Appended:
    say = files.trust.request(asked.trust, asked.agree)
    said = OutsideMessage(asked.to or "", asked.text or "")
    return (await deliver(store, files, said, actor.request_key, say))[0]


def _send_report(store: StoreAccess, appended: Appended, *, attended: bool) -> SendReport | None:
    """Return the report of a message, or None while the request has to wait for its instructions.

    An instruction that only a person can continue is reported as waiting. An ``attended`` request
    waits for approvals and for replies of human agents; another request does not.
    """
    ids = appended.instruction_ids
    stands = store.reader.now(instructions.of, ids, store.now_ms())
    over = [
        one.kind == "ended"
        or (one.kind == "person" and not (one.reason == "person" and attended))
        or (one.reason == "approval" and not attended)
        for one in stands.values()
    ]
    if not all(over):
        return None
    keyless = [one for one, how in stands.items() if how.reason == "credentials"]
    missing = store.reader.now(all_missing_credentials, keyless) if keyless else {}

    def shown(result: InstructionResult) -> InstructionResult:
        how = stands[InstructionId(result.instruction_id)]
        if how.kind == "ended":
            return result
        unasked = missing.get(result.instruction_id)  # Only a person can continue it: report the missing key.
        return msgspec.structs.replace(result, status="waiting", waits_for=how.reason, unasked=unasked)

    results = tuple(map(shown, store.reader.now(instructions.results, ids)))
    return SendReport(message_id=appended.message_id, instruction_ids=ids, results=results)


async def workflow_run(
    asked: RunRequest,
    actor: Actor,
    store: StoreAccess,
    files: ProjectFiles,
    processes: ProcessControl,
    kernel: KernelControl,
) -> Accepted:
    """Start a run of a workflow that ends when its work is done. Returns the run id immediately: use workflow_wait for
    the result, and channel_read to follow it. Work that needs a person appears in needs_list."""
    check_works(kernel)
    watched = msgspec.structs.replace(asked, attended=True)
    return (await _begin_run(watched, actor, store, files, processes)).accepted


def workflow_status(conn: apsw.Connection, asked: WorkflowStatusRequest, now_ms: int) -> WorkflowStatus:
    """List the running workflows, or show the state of one run. Use channel_read for its messages."""
    running = list_workflows(conn).workflows
    if asked.run is None:
        return WorkflowStatus(workflows=running)
    report = report_of(conn, run_asked(conn, asked.run), now_ms, said=False)
    return WorkflowStatus(workflows=tuple(row for row in running if row.id == report.id), report=report)


async def workflow_wait(asked: WorkflowWaitRequest, store: StoreAccess, kernel: KernelControl) -> RunReport:
    """Wait for the end of a run. Returns its report with all messages, or its current state after the timeout."""
    with store.feed.subscribe(types={"workflow.stopped", BYE}) as ends, trio.move_on_after(asked.timeout_seconds):
        while (report := await store.reader.read(show, asked, store.now_ms())).status == "running":
            if kernel.shutdown.closing.is_set():
                raise Refused("stopping", "the kernel is stopping; the next kernel continues the run")
            await anext(ends)
        return report
    return await store.reader.read(show, asked, store.now_ms())


def _trusts(asked: RunRequest) -> bool:
    return asked.trust or bool(asked.agree) or asked.approve is not None


def _vouches(asked: RunRequest) -> bool:
    return asked.workflow is not None or _trusts(asked)


_OF_CLI = ("trust", "agree", "update", "continues", "exit_code_from", "approve", "attended", "to", "text")
_RUN = ToolFront("workflow_run", idempotent=False, without=_OF_CLI, needs=("workflow",))
_FOLLOWED: dict[str, Any] = {
    "body_optional": False,
    "keeps_key": True,
    "people_only": False,
    "waits": True,
    "trusts": _trusts,
    "vouches": _vouches,
}
OPERATIONS = (
    operation(run, "POST /run", **_FOLLOWED),
    operation(serve, "POST /serve", answers=SendReport, **_FOLLOWED),
    operation(list_runs, "GET /runs"),
    operation(show, "GET /runs/<run>"),
    operation(workflow_run, changes=True, keeps_key=True, people_only=True, manage=_RUN),
    operation(workflow_status, scope="read", manage=ToolFront("workflow_status")),
    operation(workflow_wait, scope="read", manage=ToolFront("workflow_wait", waits=True)),
)
