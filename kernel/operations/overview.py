"""The project and its runs at a glance: overview, timelines, graphs, spending over time, and search."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Annotated, Final, TypeVar

import apsw
import msgspec
import trio
from msgspec.structs import replace

from kernel.operations import needs
from kernel.operations.archives import redaction_for
from kernel.operations.context import KernelControl, MemoryAccess, ProcessControl, ProjectFiles, StoreAccess, run_asked
from kernel.operations.history import Query, check_query
from kernel.operations.operation import Forward, ToolFront, operation, page_of
from kernel.operations.runs import OneRun, report_of
from kernel.policy.timeline import bars_of, graph_of, newest, why_of
from kernel.store import agents, spending, timeline, workflows
from kernel.store import search as find
from kernel.store.archive import Scope
from kernel.store.spending import GROUPS_LIMIT, HOUR_MS, MINUTE_MS, Spent
from kernel.store.transaction import optional_rfc3339, rfc3339
from kernel.store.workflows import WorkflowRecord
from osfiles.safe_open import is_locked, read_private_in
from protocol.api.document import Ask
from protocol.api.overview import (
    Bucket,
    Overview,
    ProjectList,
    ProjectRow,
    SearchFound,
    SearchHit,
    SearchKind,
    SpendingBy,
    SpendingLine,
    SpendingPoint,
    SpendingSeries,
)
from protocol.api.timeline import LeftOut, RunGraph, Timeline, TimelineLane
from protocol.discovery import LOCK, LOOKED_AT, PROJECT, RECORD, RECORD_BYTES, project_in
from protocol.errors import Refused
from protocol.instruction import LARGEST, Usage
from protocol.names import instruction_id, place_of, run_id, split_space
from protocol.redaction import Redaction
from protocol.text import encode_json

T = TypeVar("T")
WORKS: Final = 1_000
BARS: Final = 2_000
PROJECTS: Final = 200
MESSAGES: Final = 1_000
RATE_MINUTES: Final = 5
BUCKETS: Final[dict[Bucket, int]] = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": 24 * HOUR_MS}

Time = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Since = Annotated[Time, msgspec.Meta(description="Start of the period, in milliseconds since 1970.")] | None
Until = Annotated[Time, msgspec.Meta(description="End of the period, in milliseconds since 1970.")] | None


class GraphRequest(OneRun, frozen=True, kw_only=True):
    """Run and period whose messages are counted."""

    since: Since = None
    until: Until = None


class SpendingRequest(Ask, frozen=True, kw_only=True):
    """Work whose spending is reported."""

    by: Annotated[SpendingBy, msgspec.Meta(description="Lines of the report.")] = "agent"
    run: Annotated[str, msgspec.Meta(description="Id of a run, such as r12. Unset: all work.")] | None = None
    since: Since = None
    until: Until = None
    bucket: Annotated[Bucket, msgspec.Meta(description="Period of a point.")] = "hour"


class SearchRequest(Forward, frozen=True, kw_only=True):
    """Search in all messages, steps and documents."""

    query: Query
    space: Annotated[str, msgspec.Meta(description="Space, such as review:main or dm:alice.")] | None = None
    kind: Annotated[SearchKind, msgspec.Meta(description="Kind of results. Unset: all.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=50, description="Maximum number of results.")] = 20


async def overview(
    store: StoreAccess, files: ProjectFiles, processes: ProcessControl, kernel: KernelControl
) -> Overview:
    """Return the state of the project: agents, needs, running runs, and the failures and spending of the last day."""
    now_ms = store.now_ms()
    untrusted = await needs.untrusted_schedules(store, files.trust)
    needed = await needs.number(store, files, processes, untrusted)

    def read(conn: apsw.Connection) -> Overview:
        states, hours = agents.summary(conn, now_ms).states, spending.hours(conn, now_ms)
        running, idle, day = states.get("running", 0), states.get("idle", 0), BUCKETS["day"]
        today = [one for one in hours if one.at >= rfc3339(now_ms // day * day)]
        tokens = spending.tokens_since(conn, now_ms // MINUTE_MS - RATE_MINUTES)
        return Overview(
            project=kernel.identity.project,
            running=running,
            waiting=sum(states.values()) - running - idle,
            idle=idle,
            needs=needed,
            failed_today=sum(one.failed for one in today),
            runs_running=sum(bool(run.file) for run in workflows.running(conn)),
            spend_today_usd=round(sum(one.cost_usd for one in today), 6),
            tokens_per_minute=round(tokens / RATE_MINUTES, 1),
            hours=hours,
        )

    return await store.reader.read(read)


async def list_projects(kernel: KernelControl) -> ProjectList:
    """List the projects of the user in which a kernel has run, with commands to open their pages or start them."""
    return await trio.to_thread.run_sync(_projects, kernel.identity.home)


def _projects(home: str) -> ProjectList:
    files = read_private_in(f"{home}/projects", (PROJECT, RECORD), RECORD_BYTES, LOOKED_AT)
    found = {state: known for state, file in files if (known := project_in(file, home, state))}
    rows: list[ProjectRow] = []
    for state, known in sorted(found.items(), key=lambda one: str(one[1]["project"])):
        running, url, root = is_locked(f"{state}/{LOCK}"), str(known.get("url")), str(known["project"])
        host, _, port = url.rpartition(":")
        page = f"{url}/page" if running and host == "http://127.0.0.1" and port.isdecimal() else None
        verb = "open" if page else "status" if running else "start"
        if root.isprintable() and os.path.isdir(root):
            rows.append(
                ProjectRow(root=root, running=running, page=page, command=f"awk {verb} --project {quote(root)}")
            )
    return ProjectList(projects=tuple(rows[:PROJECTS]), left_out=len(rows[PROJECTS:]))


async def run_timeline(asked: OneRun, store: StoreAccess, files: ProjectFiles) -> Timeline:
    """Return the timeline of a run: a lane for each agent, with its attempts, calls, waits and marks, and the messages
    between them. Secrets are replaced as in exports."""
    run, now_ms = await store.reader.read(run_asked, asked.run), store.now_ms()
    redaction = await redaction_for(store, files, Scope(run.space, run.id, now_ms))
    return await store.reader.read(timeline_of, run, now_ms, redaction)


def timeline_of(conn: apsw.Connection, run: WorkflowRecord, now_ms: int, redaction: Redaction) -> Timeline:
    """Return the timeline of one run."""
    works = timeline.works(conn, run.id, WORKS)
    ids = encode_json([one.number for one in works]).decode()
    tried, steps = timeline.attempts(conn, ids, BARS), timeline.steps(conn, ids, BARS)
    attempts_of, steps_of = _by(tried, lambda one: one.instruction), _by(steps, lambda one: one.instruction)
    bars = [bar for work in works for bar in bars_of(work, attempts_of[work.number], steps_of[work.number], rfc3339)]
    kept, waits = newest(bars, BARS), sum(bar.kind == "wait" for bar in bars)
    cut = len(works) == WORKS or BARS in (len(tried), len(steps))
    total = timeline.count_bars(conn, run.id) + waits if cut else len(bars)
    names: dict[str, str] = {instruction_id(work.number): work.name for work in works}
    bars_in = _by(kept, lambda one: names[one.instruction])
    period = {"since": run.started_ms, "until": LARGEST if run.ended_ms is None else run.ended_ms}
    marks_in = _by(timeline.marks(conn, run=run.id, space=run.space, **period), lambda one: one[0])
    report, said = report_of(conn, run, now_ms, said=False), timeline.messages(conn, run.id, MESSAGES)
    return Timeline(
        run=run_id(run.id),
        space=run.place,
        status=report.status,
        report=redaction.of_row(report),
        why=why_of(report.status, run.limited_by, works),
        since=rfc3339(run.started_ms),
        until=optional_rfc3339(run.ended_ms),
        lanes=tuple(
            TimelineLane(
                agent=name, bars=tuple(bars_in[name]), marks=redaction.of_row(tuple(mark for _, mark in marks_in[name]))
            )
            for name in timeline.agents(conn, run.id)
        ),
        messages=tuple(replace(one, text=redaction.of(one.text)) for one in reversed(said)),
        left_out=LeftOut(total - len(kept), timeline.count_messages(conn, run.id) - len(said)),
    )


def _by(rows: Iterable[T], key: Callable[[T], int | str]) -> Mapping[int | str, list[T]]:
    found: defaultdict[int | str, list[T]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def run_graph(conn: apsw.Connection, asked: GraphRequest) -> RunGraph:
    """Return how many messages each sender of a run addressed to each agent, and how many of them mention it."""
    run = run_asked(conn, asked.run)
    until = LARGEST if asked.until is None else asked.until
    nodes, edges = graph_of(timeline.said(conn, run=run.id, since=asked.since or 0, until=until))
    return RunGraph(run=run_id(run.id), nodes=nodes, edges=edges)


def spending_series(conn: apsw.Connection, asked: SpendingRequest, now_ms: int) -> SpendingSeries:
    """Return tokens and cost over time: of a run by the time of each step, otherwise by the end of the work. The
    default period is the whole run, or the last day."""
    run, size = None if asked.run is None else run_asked(conn, asked.run), BUCKETS[asked.bucket]
    since = asked.since if asked.since is not None else now_ms - BUCKETS["day"] if run is None else run.started_ms
    until = now_ms + 1 if asked.until is None else asked.until
    if run is None:
        limits = {"largest": LARGEST, "limit": GROUPS_LIMIT}
        spent = spending.ended_usage(conn, by=asked.by, bucket=size, since=since, until=until, **limits)
    else:
        works = timeline.works(conn, run.id, WORKS)
        names = {one.number: one.name if asked.by == "agent" else one.model for one in works}
        steps = timeline.steps(conn, encode_json(tuple(names)).decode(), 10 * BARS)
        used = ((one, one.usage) for one in steps if one.usage is not None and since <= one.at_ms < until)
        spent = tuple(Spent(names[one.instruction], one.at_ms, usage) for one, usage in used)
    sums: defaultdict[str, defaultdict[int, Usage]] = defaultdict(lambda: defaultdict(Usage))
    for name, at_ms, usage in spent:
        bucket = at_ms // size * size
        sums[name][bucket] = sums[name][bucket].plus(usage)
    if sum(map(len, sums.values())) >= GROUPS_LIMIT:
        hint = "request a shorter period or a longer bucket"
        raise Refused("too_large", f"report has more than {GROUPS_LIMIT} points", hint)
    cost = {name: sum(one.cost_usd or 0.0 for one in points.values()) for name, points in sums.items()}
    series: list[SpendingLine] = []
    for name in sorted(sums, key=lambda name: (-cost[name], name)):
        points = (
            SpendingPoint(rfc3339(at), one.cost_usd or 0.0, one.tokens - one.output_tokens, one.output_tokens)
            for at, one in sorted(sums[name].items())
        )
        series.append(SpendingLine(name, tuple(points)))
    total_usd = round(sum(cost.values(), 0.0), 6)
    return SpendingSeries(by=asked.by, bucket=asked.bucket, series=tuple(series), total_usd=total_usd)


async def search(asked: SearchRequest, store: StoreAccess, memory: MemoryAccess) -> SearchFound:
    """Search all messages, steps and current documents of the project by words. Use it to find where something was
    said or done. Returns documents with all words first, then messages and steps, best match first."""
    check_query(asked.query)
    space = None if asked.space is None else ":".join(split_space(place_of(asked.space.removeprefix("@"))))
    page, total, behind = page_of(asked, "n"), 0, False
    first = page.after or 0
    found: list[SearchHit] = []
    if asked.kind in (None, "document"):
        found = await store.reader.read(find.documents, asked.query, space)
        found, total = found[first : first + page.limit], len(found)
    if asked.kind != "document":
        wanted = slice(max(first - total, 0), max(first + page.limit - total, 0))
        turns, more, behind = await memory.history.search_all(asked.query, asked.kind, space, wanted)
        total += more
        for turn in turns:
            name, _, step = turn.id.partition(".")
            text = " ".join([turn.text, *(f"{one.tool} {one.input} {one.output or ''}" for one in turn.calls)])
            kind: SearchKind = "step" if step else "message"
            place = (kind, name, int(step) if step else None, turn.space, turn.sender, turn.at)
            found.append(SearchHit(*place, find.around(text, asked.query)))
    reached = first + page.limit
    return SearchFound(found=tuple(found), next=f"n{reached}" if reached < total else None, behind=behind)


OPERATIONS = (
    operation(overview, "GET /overview", manage=ToolFront("overview")),
    operation(list_projects, "GET /projects", scope="approve"),
    operation(run_timeline, "GET /runs/<run>/timeline"),
    operation(run_graph, "GET /runs/<run>/graph"),
    operation(spending_series, "GET /spending"),
    operation(search, "GET /search", people_only=True, manage=ToolFront("search")),
)
