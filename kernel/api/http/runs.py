"""Runs: every start of a workflow, and what came of it."""

import apsw

from kernel.api.context import Services
from kernel.api.http.not_running import not_running
from kernel.api.http.paging import page_of
from kernel.api.http.route import Call
from kernel.policy.ending import Choice
from kernel.store import answers, finals, instructions, messages, workflows, worktrees
from kernel.store.clock_text import optional_rfc3339, rfc3339
from kernel.store.failed_calls import failed_calls_of_run
from kernel.store.page import Page
from kernel.store.workflows import RunFilter, WorkflowRecord
from kernel.workflows.answer import NotJson, read_output
from protocol.api.runs import RunList, RunReport, RunRow
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.names import number_of, run_id, split_space


async def listing(services: Services, call: Call[None]) -> RunList:
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
        runs=tuple(_row(conn, record, now_ms) for record in rows),
        total=workflows.count_runs(conn, wanted),
        next=following,
    )


async def show(services: Services, call: Call[None]) -> RunReport:
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


def run_at(services: Services, call: Call[None]) -> WorkflowRecord:
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
        branches=_branches(conn, record),
        failed_calls=failed_calls_of_run(conn, record.id),
    )


def _seconds(record: WorkflowRecord, now_ms: int) -> float:
    ended_ms = now_ms if record.ended_ms is None else record.ended_ms
    return round((ended_ms - record.started_ms) / 1000, 3)


def _verdict(conn: apsw.Connection, record: WorkflowRecord) -> Choice | None:
    terms = finals.expected(conn, record.id).verdict
    return None if terms is None else answers.of_run(conn, record.id, terms.id).choice


def _branches(conn: apsw.Connection, record: WorkflowRecord) -> dict[str, str]:
    return {tree.name: tree.branch for tree in worktrees.of_run(conn, record.id) if tree.state in ("made", "kept")}


def _output(conn: apsw.Connection, record: WorkflowRecord) -> object:
    """The final answer that was found to fit when the run ended; None where nothing was asked of it, or it is gone."""
    expected = finals.expected(conn, record.id)
    if record.mode != "run" or expected.schema is None:
        return None
    try:
        return read_output(finals.last_reply(conn, record.id, expected.exit_from).text)
    except NotJson:
        return None


def _row(conn: apsw.Connection, record: WorkflowRecord, now_ms: int) -> RunRow:
    return RunRow(
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
