"""POST /run and /serve: begin some work and see it to its end. The stream is a view: its end stops nothing.

A run of a workflow is ended by the service that watches runs; here it is only followed.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec

from kernel.api.context import Services
from kernel.api.http.messages import say, say_of
from kernel.api.http.route import Call, Stream
from kernel.api.http.runs import report_of
from kernel.api.http.sse import BYE, document, follow, frame, stored
from kernel.api.http.workflows import check_works, launch
from kernel.policy.standing import Standing
from kernel.store import events, instructions, standing, workflows
from kernel.store.commits.append import Appended
from kernel.store.events import EventFilter
from kernel.store.unasked import all_unasked
from kernel.workflows.prepare import StartAsked
from protocol.api.messages import InstructionResult, SendReport
from protocol.api.runs import Accepted, RunReport, RunRequest
from protocol.budget import RunBudget
from protocol.errors import Refused
from protocol.events import LIVE, Event
from protocol.names import InstructionId, run_id
from protocol.target import parse_target

Report = RunReport | SendReport
TURNS: Final = frozenset(
    {"workflow.stopped", "instruction.ended", "instruction.queued", "agent.changed", "approval.requested"}
)
"""Events after which the work may have ended, or come to where only a person can help."""


@dataclass(frozen=True, slots=True)
class Work:
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


async def stream(services: Services, call: Call[RunRequest]) -> Stream:
    """POST /run: ``accepted``, then events as they come, then ``result``."""
    return Stream(_streamed(services, await _begin(services, call)))


async def serve(services: Services, call: Call[RunRequest]) -> msgspec.Struct:
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


async def _streamed(services: Services, work: Work) -> AsyncGenerator[bytes, None]:
    yield document("accepted", work.accepted)
    async with aclosing(_events(services, work)) as passing:
        async for piece in passing:
            yield piece if isinstance(piece, bytes) else document("result", piece)


async def _events(services: Services, work: Work) -> AsyncGenerator[bytes | Report, None]:
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


async def _rest(services: Services, work: Work, after: int) -> AsyncGenerator[bytes, None]:
    """What else the commit told that ended the work."""
    newest = services.reader.now(events.kept).newest
    async with aclosing(stored(services, after, newest, EventFilter(space=work.space))) as found:
        async for event in found:
            if work.concerns(event):
                yield frame(event)


async def _serve_message(services: Services, call: Call[RunRequest]) -> SendReport:
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


async def _begin(services: Services, call: Call[RunRequest]) -> Work:
    request = _checked(call.body)
    check_works(services)
    if request.workflow is not None:
        return await _begin_run(services, call, request.workflow)
    return await _begin_message(services, call, services.reader.now(events.kept).newest)


async def _begin_run(services: Services, call: Call[RunRequest], workflow: str) -> Work:
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

    return Work(Accepted(run=begun.place, id=run_id(begun.run), seq=begun.after), begun.place, outcome)


async def _begin_message(services: Services, call: Call[RunRequest], seq: int) -> Work:
    appended = await _say(services, call)

    async def outcome() -> SendReport | None:
        return _sent(services, appended, attended=call.body.attended)

    accepted = Accepted(message_id=appended.message_id, instruction_ids=appended.instruction_ids, seq=seq)
    return Work(accepted, parse_target(call.body.to or "").space, outcome)


async def _say(services: Services, call: Call[RunRequest]) -> Appended:
    body = call.body
    return await say(services, body.to or "", body.text or "", call.request_key, say_of(services, body))


def _sent(services: Services, appended: Appended, *, attended: bool) -> SendReport | None:
    """The report of a message, or None while something that it woke goes on, or will by itself.

    What waits for an approval goes on by its deadline, if not before: only who is there to give one waits for that.
    """
    ids = appended.instruction_ids
    stands = services.reader.now(standing.of, ids, services.now_ms())
    over = [one.kind in ("ended", "person") or (one.reason == "approval" and not attended) for one in stands.values()]
    if not all(over):
        return None
    results = services.reader.now(instructions.results, ids)
    missing = services.reader.now(all_unasked, [one for one, how in stands.items() if how.reason == "credentials"])
    shown = tuple(_held(result, stands[InstructionId(result.instruction_id)], missing) for result in results)
    return SendReport(message_id=appended.message_id, instruction_ids=ids, results=shown)


def _held(result: InstructionResult, stands: Standing, missing: Mapping[str, str]) -> InstructionResult:
    """The result of what only a person can let go on: it waits, and for what."""
    if stands.kind == "ended":
        return result
    why = missing.get(result.instruction_id)
    return msgspec.structs.replace(result, status="waiting", waits_for=stands.reason, unasked=why)
