"""The project and its runs at a glance: overview, timelines and graphs, as documents for pages and terminals."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Annotated

import apsw
import msgspec

from kernel.operations import needs
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess, run_asked
from kernel.operations.operation import ToolFront, operation
from kernel.operations.runs import OneRun, report_of
from kernel.policy.timeline import Bar, bars_of, graph_of, newest, why_of
from kernel.store import agents, timeline
from kernel.store import overview as work
from kernel.store.overview import DAY_MS, HOUR_MS, RATE_MINUTES, HourRow
from kernel.store.timeline import BARS, GRAPH_MESSAGES, MESSAGES, WORKS_LIMIT, Mark
from kernel.store.transaction import optional_rfc3339, rfc3339
from kernel.store.workflows import WorkflowRecord
from protocol.api.overview import Overview, OverviewHour
from protocol.api.timeline import LeftOut, RunGraph, Timeline, TimelineBar, TimelineLane, TimelineMark, TimelineMessage
from protocol.instruction import LARGEST
from protocol.names import instruction_id, run_id

Time = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Since = Annotated[Time, msgspec.Meta(description="Start of the period, in milliseconds since 1970.")] | None
Until = Annotated[Time, msgspec.Meta(description="End of the period, in milliseconds since 1970.")] | None


class GraphRequest(OneRun, frozen=True, kw_only=True):
    """Run and period whose messages are counted."""

    since: Since = None
    until: Until = None


async def overview(
    store: StoreAccess, files: ProjectFiles, processes: ProcessControl, kernel: KernelControl
) -> Overview:
    """Return the state of the whole project: agents, needs, running runs, and failures and spending of the last day."""
    now_ms = store.now_ms()
    untrusted = await needs.untrusted_schedules(store, files.trust)
    needed = await needs.number(store, files, processes, untrusted)

    def read(conn: apsw.Connection) -> Overview:
        states, hours = agents.summary(conn, now_ms).states, work.hours(conn, now_ms)
        today = [one for one in hours if one.hour * HOUR_MS >= now_ms // DAY_MS * DAY_MS]
        return Overview(
            project=kernel.identity.project,
            running=states.get("running", 0),
            waiting=sum(states.values()) - states.get("running", 0) - states.get("idle", 0),
            idle=states.get("idle", 0),
            needs=needed,
            failed_today=sum(one.failed for one in today),
            runs_running=work.running_runs(conn),
            spend_today_usd=round(sum(one.usd for one in today), 6),
            tokens_per_minute=round(sum(one.recent for one in hours) / RATE_MINUTES, 1),
            hours=tuple(map(_hour, hours)),
        )

    return await store.reader.read(read)


def _hour(row: HourRow) -> OverviewHour:
    return OverviewHour(
        at=rfc3339(row.hour * HOUR_MS),
        cost_usd=round(row.usd, 6),
        tokens=row.tokens,
        ended=row.ended,
        failed=row.failed,
    )


def run_timeline(conn: apsw.Connection, asked: OneRun, now_ms: int) -> Timeline:
    """Return the timeline of a run: a lane for each agent, with its attempts, calls, waits and marks, and the messages
    between them."""
    run = run_asked(conn, asked.run)
    works = timeline.works(conn, run.id, WORKS_LIMIT)
    report = report_of(conn, run, now_ms, said=False)
    ids = [one.number for one in works]
    attempts, steps = timeline.attempts(conn, ids), timeline.steps(conn, ids)
    tried = {number: list(rows) for number, rows in groupby(attempts, attrgetter("instruction"))}
    done = {number: list(rows) for number, rows in groupby(steps, attrgetter("instruction"))}
    bars = [bar for one in works for bar in bars_of(one, tried.get(one.number, ()), done.get(one.number, ()))]
    kept = newest(bars, BARS)
    cut = len(works) == WORKS_LIMIT or BARS in (len(attempts), len(steps))
    every = timeline.count_bars(conn, run.id) + sum(one.kind == "wait" for one in bars) if cut else len(bars)
    names = {one.number: one.name for one in works}
    said = timeline.newest_messages(conn, run.id, MESSAGES)
    return Timeline(
        run=run_id(run.id),
        space=run.place,
        status=report.status,
        report=report,
        why=why_of(report.status, run.limited_by, works),
        since=rfc3339(run.started_ms),
        until=optional_rfc3339(run.ended_ms),
        lanes=_lanes(conn, run, names, kept),
        messages=tuple(
            TimelineMessage(
                seq=one.seq,
                at=rfc3339(one.at_ms),
                sender=one.sender,
                to=tuple(one.addressed.split()),
                kind=one.kind,
                text=one.text,
            )
            for one in reversed(said)
        ),
        left_out=LeftOut(
            bars=every - len(kept),
            messages=timeline.count_messages(conn, run.id) - MESSAGES if len(said) == MESSAGES else 0,
        ),
    )


def _lanes(
    conn: apsw.Connection, run: WorkflowRecord, names: dict[int, str], bars: Iterable[Bar]
) -> tuple[TimelineLane, ...]:
    found: defaultdict[str, list[TimelineBar]] = defaultdict(list)
    for bar in bars:
        found[names[bar.instruction]].append(
            TimelineBar(
                kind=bar.kind,
                at=rfc3339(bar.at_ms),
                until=optional_rfc3339(bar.until_ms),
                instruction=instruction_id(bar.instruction),
                step=bar.step,
                label=bar.label,
                failed=bar.failed,
            )
        )
    marks: defaultdict[str, list[Mark]] = defaultdict(list)
    for mark in timeline.marks(conn, run):
        marks[mark.agent].append(mark)
    return tuple(
        TimelineLane(
            agent=name,
            bars=tuple(found[name]),
            marks=tuple(
                TimelineMark(kind=one.kind, at=rfc3339(one.at_ms), id=one.id, label=one.label) for one in marks[name]
            ),
        )
        for name in timeline.agents(conn, run.id)
    )


def run_graph(conn: apsw.Connection, asked: GraphRequest) -> RunGraph:
    """Return how many messages each agent of a run sent to each other agent, and in how many of them it was
    mentioned."""
    run = run_asked(conn, asked.run)
    until = LARGEST if asked.until is None else asked.until
    nodes, edges = graph_of(timeline.said(conn, run=run.id, since=asked.since or 0, until=until, limit=GRAPH_MESSAGES))
    return RunGraph(run=run_id(run.id), nodes=nodes, edges=edges)


OPERATIONS = (
    operation(overview, "GET /overview", manage=ToolFront("overview")),
    operation(run_timeline, "GET /runs/<run>/timeline"),
    operation(run_graph, "GET /runs/<run>/graph"),
)
