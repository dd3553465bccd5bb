"""Runs: every start of a workflow, and what came of it."""

import apsw

from kernel.api.context import Services
from kernel.api.http.route import Call
from kernel.policy.ending import Choice
from kernel.store import answers, finals, instructions, messages, workflows, worktrees
from kernel.store.clock_text import optional_rfc3339, rfc3339
from kernel.store.failed_calls import failed_calls_of_run
from kernel.store.workflows import WorkflowRecord
from kernel.workflows.answer import NotJson, read_output
from protocol.api.runs import RunList, RunReport, RunRow
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.names import split_space

LIMIT = 1000


async def listing(services: Services, call: Call[None]) -> RunList:
    """GET /runs: the newest ``limit``."""
    records = services.reader.now(workflows.runs, call.number("limit", 100, low=1, high=LIMIT))
    return RunList(runs=tuple(_row(record) for record in records))


async def show(services: Services, call: Call[None]) -> RunReport:
    """GET /runs/:run: the last run of that name and tag."""
    space = ":".join(split_space(call.args["run"]))
    return await services.reader.read(report_of_latest, space, services.now_ms())


def report_of_latest(conn: apsw.Connection, space: str, now_ms: int) -> RunReport:
    """What came of the run of ``space`` that was started last. Raises Refused (not_found)."""
    record = workflows.latest(conn, space)
    if record is None:
        raise Refused("not_found", f"there was no run {space[:100]!r}", hint="runs are called like review:main")
    return report_of(conn, record, now_ms)


def report_of(conn: apsw.Connection, record: WorkflowRecord, now_ms: int) -> RunReport:
    """What came of one run, with all that was said in it."""
    counts = instructions.counts(conn, record.id)
    ended_ms = now_ms if record.ended_ms is None else record.ended_ms
    return RunReport(
        run=record.space,
        status=record.status if record.state == "stopped" and record.status else "running",  # type: ignore[arg-type]
        exit_code=record.exit_code or 0,
        instructions={status: counts.statuses.get(status, 0) for status in sorted(ENDED)},
        usage=counts.usage,
        messages=messages.of_run(conn, record.id),
        duration_seconds=round((ended_ms - record.started_ms) / 1000, 3),
        verdict=_verdict(conn, record),
        output=_output(conn, record) if record.status == "done" else None,
        branches=_branches(conn, record),
        failed_calls=failed_calls_of_run(conn, record.id),
    )


def _verdict(conn: apsw.Connection, record: WorkflowRecord) -> Choice | None:
    terms = finals.expected(conn, record.id).verdict
    return None if terms is None else answers.of_run(conn, record.id, terms.id).choice


def _branches(conn: apsw.Connection, record: WorkflowRecord) -> dict[str, str]:
    trees = (tree for tree in worktrees.in_space(conn, record.space) if tree.run == record.id)
    return {tree.name: tree.branch for tree in trees if tree.state in ("made", "kept")}


def _output(conn: apsw.Connection, record: WorkflowRecord) -> object:
    """The final answer that was found to fit when the run ended; None where nothing was asked of it, or it is gone."""
    expected = finals.expected(conn, record.id)
    if record.mode != "run" or expected.schema is None:
        return None
    try:
        return read_output(finals.last_reply(conn, record.id, expected.exit_from).text)
    except NotJson:
        return None


def _row(record: WorkflowRecord) -> RunRow:
    return RunRow(
        run=record.space,
        mode=record.mode,
        state=record.state,
        status=record.status,
        exit_code=record.exit_code,
        started_at=rfc3339(record.started_ms),
        ended_at=optional_rfc3339(record.ended_ms),
    )
