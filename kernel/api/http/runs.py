"""Runs: every start of a workflow, and what came of it.

POST /run and /serve: begin some work and see it to its end. The stream is a view: its end stops nothing.

A run of a workflow is ended by the service that watches runs; here it is only followed.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import apsw
import msgspec

from kernel.api.context import Services
from kernel.api.http.events import BYE, document, follow, frame, stored
from kernel.api.http.messages import deliver, trust_request
from kernel.api.http.route import Request, Stream, page_of
from kernel.api.http.workflows import check_works, launch, not_running
from kernel.policy.agent_status import Readiness
from kernel.policy.run_completion import Choice
from kernel.store import feed, instructions, messages, run_outcomes, voting, workflows, worktrees
from kernel.store.feed import EventFilter
from kernel.store.instruction_views import failed_calls_of_run
from kernel.store.instructions import all_unasked
from kernel.store.page import Page
from kernel.store.transaction import optional_rfc3339, rfc3339
from kernel.store.transitions.append import Appended
from kernel.store.workflows import RunFilter, WorkflowRecord
from kernel.workflows.final_answer import NotJson, read_output
from kernel.workflows.prepare import StartAsked
from protocol.api.messages import InstructionResult, SendReport
from protocol.api.runs import Accepted, RunList, RunReport, RunRequest, RunRow
from protocol.budget import RunBudget
from protocol.errors import Refused
from protocol.events import LIVE, Event
from protocol.instruction import ENDED
from protocol.names import InstructionId, number_of, run_id, split_space
from protocol.target import parse_target


async def list_(services: Services, call: Request[None]) -> RunList:
    """GET /runs?workflow=&tag=&status=&since=&limit=&before=: the newest that were wanted, started at ``since`` (ms)
    or later."""
    query = call.query
    since_ms = call.number("since", 0) if "since" in query else None
    wanted = RunFilter(query.get("workflow"), query.get("tag"), query.get("status"), since_ms)
    return await services.reader.read(_page, wanted, page_of(call, "before", "r", default=100), services.now_ms())


def _page(conn: apsw.Connection, wanted: RunFilter, page: Page, now_ms: int) -> RunList:
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
        total=workflows.count_runs(conn, wanted),
        next=following,
    )


async def show(services: Services, call: Request[None]) -> RunReport:
    """GET /runs/:run: one by its id, or the last of a name and tag."""
    return await services.reader.read(report_of_asked, call.args["run"], services.now_ms())


def report_of_asked(conn: apsw.Connection, asked: str, now_ms: int) -> RunReport:
    """What came of the run ``asked``: ``r12``, or of ``review:main`` the newest. Raises Refused (not_found)."""
    number = number_of(asked, "r")
    place = ":".join(split_space(asked))
    record = workflows.newest_at(conn, place) if number is None else workflows.by_id(conn, number)
    if record is None:
        raise _unknown(asked)
    return report_of(conn, record, now_ms)


def run_at(services: Services, call: Request[None]) -> WorkflowRecord:
    """The run that ``?run=`` names of those at the path's space; without it the newest there. Raises Refused."""
    place = ":".join(split_space(call.args["space"]))
    asked = call.query.get("run")
    if asked is None:
        record = services.reader.now(workflows.newest_at, place)
        if record is None:
            raise not_running(services, place, f"nothing was ever started as {place[:100]!r}")
        return record
    record = services.reader.now(workflows.by_id, number_of(asked, "r") or 0)
    if record is None:
        raise _unknown(asked)
    if record.place != place:
        raise Refused("not_found", f"{asked} is no run of {place[:100]}: it is one of {record.place}")
    return record


def _unknown(asked: str) -> Refused:
    hint = "awk runs lists those that are kept; they are called like r12, the last one of a workflow like review:main"
    return Refused("not_found", f"there is no run {asked[:100]!r}", hint)


def report_of(conn: apsw.Connection, record: WorkflowRecord, now_ms: int) -> RunReport:
    """What came of one run, with all that was said in it."""
    counts = instructions.counts(conn, record.id)
    return RunReport(
        id=run_id(record.id),
        run=record.place,
        status=record.status if record.state == "stopped" and record.status else "running",  # type: ignore[arg-type]
        exit_code=record.exit_code or 0,
        instructions={status: counts.statuses.get(status, 0) for status in sorted(ENDED)},
        usage=counts.usage,
        messages=messages.of_run(conn, record.id),
        duration_seconds=_seconds(record, now_ms),
        verdict=_verdict(conn, record),
        output=_output(conn, record) if record.status == "done" else None,
        branches={
            tree.name: tree.branch for tree in worktrees.of_run(conn, record.id) if tree.state in ("made", "kept")
        },
        failed_calls=failed_calls_of_run(conn, record.id),
    )


def _seconds(record: WorkflowRecord, now_ms: int) -> float:
    ended_ms = now_ms if record.ended_ms is None else record.ended_ms
    return round((ended_ms - record.started_ms) / 1000, 3)


def _verdict(conn: apsw.Connection, record: WorkflowRecord) -> Choice | None:
    terms = run_outcomes.expected(conn, record.id).verdict
    return None if terms is None else voting.of_run(conn, record.id, terms.id).choice


def _output(conn: apsw.Connection, record: WorkflowRecord) -> object:
    """The final answer that was found to fit when the run ended; None where nothing was asked of it, or it is gone."""
    expected = run_outcomes.expected(conn, record.id)
    if record.mode != "run" or expected.schema is None:
        return None
    try:
        return read_output(run_outcomes.last_reply(conn, record.id, expected.exit_from).text)
    except NotJson:
        return None


Report = RunReport | SendReport
TURNS: Final = frozenset(
    {"workflow.stopped", "instruction.ended", "instruction.queued", "agent.changed", "approval.requested"}
)
"""Events after which the work may have ended, or come to where only a person can help."""


@dataclass(frozen=True, slots=True)
class StartedWork:
    """Some work that was accepted: where its events are, and its report once it has ended."""

    accepted: Accepted
    space: str
    outcome: Callable[[], Awaitable[Report | None]]
    """The report, or None while the work goes on."""

    def concerns(self, event: Event) -> bool:
        """Whether an event of the space is of this work: all are of a run, of a message those of its instructions."""
        if event.space not in (None, self.space):
            return False
        if event.type == "agent.changed" and event.space is None:
            return False
        if self.accepted.run is not None or (event.type in (*LIVE, BYE) and event.instruction is None):
            return True
        return event.instruction in self.accepted.instruction_ids


async def run(services: Services, call: Request[RunRequest]) -> Stream:
    """POST /run: ``accepted``, then events as they come, then ``result``."""
    return Stream(_streamed(services, await _begin(services, call)))


async def serve(services: Services, call: Request[RunRequest]) -> msgspec.Struct:
    """POST /serve: the same, as one answer."""
    check_works(services)
    if _checked(call.body).workflow is None:
        return await _serve_message(services, call)
    work = await _begin(services, call)
    async with aclosing(_events(services, work)) as passing:
        async for report in passing:
            if not isinstance(report, bytes):
                return report
    raise _stopping()


async def _streamed(services: Services, work: StartedWork) -> AsyncGenerator[bytes, None]:
    yield document("accepted", work.accepted)
    async with aclosing(_events(services, work)) as passing:
        async for piece in passing:
            yield piece if isinstance(piece, bytes) else document("result", piece)


async def _events(services: Services, work: StartedWork) -> AsyncGenerator[bytes | Report, None]:
    """Encoded events, and at the end the report. Without a report: the server stops."""
    over = await work.outcome()
    if over is not None:
        yield over  # nobody was woken, or the request is a repeat and the work was done before
        return
    wanted = EventFilter(space=work.space, beside="agent.changed")
    async with aclosing(follow(services, work.accepted.seq, wanted)) as ticks:
        async for tick in ticks:
            if tick is None or work.concerns(tick):
                yield frame(tick)
            report = await work.outcome() if tick is not None and tick.type in TURNS else None
            if report is not None and tick is not None:
                async with aclosing(_rest(services, work, tick.seq or 0)) as rest:
                    async for piece in rest:
                        yield piece
                yield report
                return


async def _rest(services: Services, work: StartedWork, after: int) -> AsyncGenerator[bytes, None]:
    """What else the commit told that ended the work."""
    newest = services.reader.now(feed.kept).newest
    async with aclosing(stored(services, after, newest, EventFilter(space=work.space))) as found:
        async for event in found:
            if work.concerns(event):
                yield frame(event)


async def _serve_message(services: Services, call: Request[RunRequest]) -> SendReport:
    """Waits for the ends of what the message woke, and for nothing else: the cheapest way to an answer there is."""
    appended = await _say(services, call)
    ids = appended.instruction_ids

    def wanted(event: Event) -> bool:
        if event.instruction in ids or event.instruction is None:
            return True
        return bool(event.data.get("waits_for"))  # whom it asked may have come to wait for a person

    with services.feed.subscribe(types=TURNS | {BYE}, wanted=wanted) as ends:
        while (report := _sent(services, appended, attended=call.body.attended)) is None:
            if services.closing.is_set():
                raise _stopping()
            await anext(ends)
        return report


def _stopping() -> Refused:
    return Refused("stopping", "the kernel stops before the work has ended; it goes on with the next one")


def _checked(request: RunRequest) -> RunRequest:
    if (request.workflow is None) == (request.to is None) or (request.to is None) != (request.text is None):
        raise Refused("bad_request", "give either workflow, or to and text")
    of_workflows = (request.max_tokens, request.max_cost_usd, request.exit_code_from, request.approve)
    if request.workflow is None and any(given is not None for given in of_workflows):
        raise Refused("bad_request", "max_tokens, max_cost_usd, exit_code_from and approve are for a workflow")
    return request


async def _begin(services: Services, call: Request[RunRequest]) -> StartedWork:
    request = _checked(call.body)
    check_works(services)
    if request.workflow is not None:
        return await _begin_run(services, call, request.workflow)
    return await _begin_message(services, call, services.reader.now(feed.kept).newest)


async def _begin_run(services: Services, call: Request[RunRequest], workflow: str) -> StartedWork:
    """A run that starts; of a repeated request the same one, from its beginning."""
    request = call.body
    asked = StartAsked(
        workflow=workflow,
        tag=request.tag,
        params=request.params,
        mode="run",
        trusted=request.trust or services.trusted,
        agreed=request.agree,
        update=request.update,
        continues=request.continues,
        timeout_seconds=request.timeout_seconds,
        budget=RunBudget(tokens=request.max_tokens, usd=request.max_cost_usd),
        exit_from=request.exit_code_from,
        approval=request.approve,
        attended=request.attended,
    )
    begun = await launch(services, asked, call.request_key)

    async def outcome() -> RunReport | None:
        now = services.reader.now(workflows.by_id, begun.run)
        if now is None or now.state == "running":
            return None
        return await services.reader.read(report_of, now, services.now_ms())

    return StartedWork(Accepted(run=begun.place, id=run_id(begun.run), seq=begun.after), begun.place, outcome)


async def _begin_message(services: Services, call: Request[RunRequest], seq: int) -> StartedWork:
    appended = await _say(services, call)

    async def outcome() -> SendReport | None:
        return _sent(services, appended, attended=call.body.attended)

    accepted = Accepted(message_id=appended.message_id, instruction_ids=appended.instruction_ids, seq=seq)
    return StartedWork(accepted, parse_target(call.body.to or "").space, outcome)


async def _say(services: Services, call: Request[RunRequest]) -> Appended:
    body = call.body
    return await deliver(services, body.to or "", body.text or "", call.request_key, trust_request(services, body))


def _sent(services: Services, appended: Appended, *, attended: bool) -> SendReport | None:
    """The report of a message, or None while something that it woke goes on, or will by itself.

    What waits for an approval goes on by its deadline, if not before: only who is there to give one waits for that.
    """
    ids = appended.instruction_ids
    stands = services.reader.now(instructions.of, ids, services.now_ms())
    over = [one.kind in ("ended", "person") or (one.reason == "approval" and not attended) for one in stands.values()]
    if not all(over):
        return None
    results = services.reader.now(instructions.results, ids)
    missing = services.reader.now(all_unasked, [one for one, how in stands.items() if how.reason == "credentials"])
    shown = tuple(_held(result, stands[InstructionId(result.instruction_id)], missing) for result in results)
    return SendReport(message_id=appended.message_id, instruction_ids=ids, results=shown)


def _held(result: InstructionResult, stands: Readiness, missing: Mapping[str, str]) -> InstructionResult:
    """The result of what only a person can let go on: it waits, and for what."""
    if stands.kind == "ended":
        return result
    why = missing.get(result.instruction_id)
    return msgspec.structs.replace(result, status="waiting", waits_for=stands.reason, unasked=why)
