"""``awk status`` and ``stats``: the state of the kernel, an agent or a workflow, and the usage of the work.

``status`` starts no kernel. It exits with 3 if the target does not run, and with 1 if the kernel cannot write its log.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, decode, one_line, read_fields, table, width
from interface.cli.parsing import TARGET, Arguments, argument, json_flag
from interface.failure import Unreachable

if TYPE_CHECKING:
    from protocol.api.kernel import StatusReport, UsageGroup, UsageReport, UsageRow

_BY: Final = "group by agent, workflow, model or day (UTC), or by two of them: day,model"
_TIMES: Final = "7d, 2h, 2026-11-01 or 2026-11-01T12:00:00Z"
_DOWN: Final = b'{"schema":"awk/status/1","state":"down","kernel":null,"agents":{},"workflows":[]}'


def run_status(context: Context) -> int:
    query = _query(context)
    try:
        document = context.find_kernel().get("/status", query)
        context.answer(document, status_lines)
        report = json.loads(document)
        if report["state"] == "down":
            return Exit.NOT_RUNNING
        return Exit.FAILED if report.get("storage") else Exit.OK
    except Unreachable as error:
        why = context.why_down(error)
        context.answer(_DOWN, status_lines)
        context.out.note(why)
        return Exit.NOT_RUNNING


def _query(context: Context) -> dict[str, str]:
    if context.args.target is None:
        return {}
    from interface.cli.targets import target_query  # noqa: PLC0415  (the grammar of targets takes time to compile)

    return target_query(context.args.target)


_COLOURS: Final = {"up": "green", "degraded": "yellow", "down": "red"}


def status_lines(body: bytes, screen: Screen) -> list[str]:
    from interface.cli.process_table import age  # noqa: PLC0415  (JSON needs no table)

    report: StatusReport = read_fields(body)
    if report.kernel is None:
        return [screen.style(report.state, "red")]
    kernel = report.kernel
    agents = ", ".join(f"{count} {one_line(state)}" for state, count in vars(report.agents).items() if count)
    gone = report.state == "down"  # the kernel is up, but the target does not run
    state, since = ("not running", "") if gone else (str(report.state), f" for {age(kernel.uptime_seconds)}")
    lines = [
        f"{screen.style(state, _COLOURS[report.state])}{since}",
        f"  kernel    {kernel.pid} at {one_line(kernel.url)}, version {one_line(kernel.version)}",
        f"  project   {one_line(kernel.project)}",
        f"  agents    {agents or 'none'}",
    ]
    if report.standby is not None:
        copy = report.standby
        lines.append(f"  standby   {one_line(copy.to)} {one_line(copy.state)}, {copy.lag_seconds:.1f} s behind")
    if report.needs:
        lines.append(f"  {screen.style('needs', 'yellow')}     {report.needs:,} need you (awk needs)")
    if report.notice:
        lines.append(f"  {screen.style('notice', 'yellow')}    {one_line(report.notice)}")
    for agent in report.held:
        where = f"@{agent.space}" if agent.space and not agent.space.startswith("dm:") else ""
        why = f": {agent.reason}" if agent.reason else ""
        until = f" until {agent.until}" if agent.until else ""
        lines.append(f"  {one_line(agent.state):<9} {one_line(agent.name + where + until + why)}")
    for row in report.workflows:
        state, members = "paused" if row.paused else row.state, one_line(", ".join(row.members))
        lines.append(f"  workflow  {one_line(row.name)}:{one_line(row.tag)} {state}: {members}")
    broken = [one_line(f"{one.path}:{one.line}:{one.column}: {one.message}") for one in report.broken]
    return [*lines, *(f"  broken    {line}" for line in broken)]


def _parts(text: str) -> str:
    from argparse import ArgumentTypeError  # noqa: PLC0415  (argparse calls this)

    from protocol.api.kernel import GROUPED_BY  # noqa: PLC0415  (as above)

    words = text.split(",")
    if len(words) > 2 or len(set(words)) != len(words) or not set(words) <= set(GROUPED_BY):
        raise ArgumentTypeError(f"{text[:60]!r} is not a grouping; use one or two of {', '.join(GROUPED_BY)}")
    return text


def _moment(text: str) -> "Moment":
    from argparse import ArgumentTypeError  # noqa: PLC0415  (argparse calls this)
    from datetime import UTC, datetime  # noqa: PLC0415  (as above)

    from interface.cli.command_parser import duration  # noqa: PLC0415  (as above)

    try:
        found = datetime.fromisoformat(text)
        return Moment((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp(), ago=False)
    except ValueError:
        pass
    try:
        return Moment(duration(text), ago=True)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text[:60]!r} is not a time; use {_TIMES}") from None


class Moment(NamedTuple):
    """Timestamp in Unix seconds, or ``ago`` seconds before now."""

    seconds: float
    ago: bool


ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "status": (argument("target", metavar="TARGET", nargs="?", help=TARGET), json_flag),
    "stats": (
        argument("target", metavar="TARGET", nargs="?", help=f"{TARGET} (default: all)"),
        argument("--by", type=_parts, metavar="WHAT", help=_BY),
        argument("--since", type=_moment, metavar="T", help=f"start of the period: {_TIMES}"),
        argument("--until", type=_moment, metavar="T", help="end of the period, as for --since (default: now)"),
        json_flag,
    ),
}


def run_stats(context: Context) -> int:
    query = _query(context)
    if context.args.by is not None:
        query["by"] = context.args.by
    for name in ("since", "until"):
        moment: Moment | None = getattr(context.args, name)
        if moment is not None:
            at = context.clock.wall() - moment.seconds if moment.ago else moment.seconds
            query[name] = str(max(0, round(at * 1000)))
    return context.answer(context.kernel().get("/usage", query), stats_lines)


_COUNTS = ("done", "incomplete", "failed", "dead", "cancelled")
_OUTCOMES = ("OPEN", *(status.upper() for status in _COUNTS))
_NUMBERS = (*_OUTCOMES, "STEPS", "IN", "OUT", "CACHE", "COST$", "SECONDS")


def stats_lines(body: bytes, screen: Screen) -> list[str]:
    """Return the lines of usage. Seconds exclude waiting; ``+?`` marks costs with unknown parts.

    If the screen is too narrow, columns of outcomes that no instruction had are omitted first.
    """
    from protocol.api.kernel import UsageReport  # noqa: PLC0415  (JSON needs no types)

    report = decode(body, UsageReport)
    if report.groups:
        return _groups_table(report.groups, screen)
    if not report.total.instructions:
        return ["no work was given"]
    whole = _tables(report, Screen(), frozenset())
    if screen.width is None or max(map(width, whole)) <= screen.width:
        return _tables(report, screen, frozenset())
    counts = dict(zip(_OUTCOMES, _cells(report.total, "")[1:], strict=False))
    return _tables(report, screen, frozenset(title for title, count in counts.items() if count == "0"))


def _groups_table(groups: "tuple[UsageGroup, ...]", screen: Screen) -> list[str]:
    *_, total = groups
    words = list(groups[0].key)
    numbers = ("ENDED", "DONE", "SUCCESS", "RETRIES", "STEPS", "IN", "OUT", "CACHE", "COST$", "SECONDS")
    if not total.instructions and not total.merges:
        return ["no work ended then"]
    cells = []
    for group in groups:
        names = [group.key.get(word, "") or "-" for word in words] if group.key else ["total"] + [""] * (len(words) - 1)
        share = "-" if group.success is None else f"{group.success:.0%}"
        counts = [str(group.instructions), str(group.ended.get("done", 0)), share, str(group.retries), str(group.steps)]
        cells.append([*(one_line(name) for name in (names if words else [])), *counts, *_spent_cells(group)])
    lines = list(table([*(word.upper() for word in words), *numbers], cells, screen, right=frozenset(numbers)))
    for group in groups:
        if group.merges:
            whose = f" ({', '.join(one_line(name) for name in group.key.values())})" if group.key else ""
            cost = "at no known price" if group.cost_per_merge is None else f"{group.cost_per_merge:.4f} USD each"
            lines.append(f"merged{whose}: {group.merges}, {cost}")
    return lines


def _tables(report: "UsageReport", screen: Screen, without: frozenset[str]) -> list[str]:
    parts = [("AGENT", report.rows), ("WORKSPACE", report.workflows), ("MODEL", report.models)]
    shown: list[str] = []
    for title, rows in parts:
        if rows:
            last = [_cells(report.total, "total")] if title == "AGENT" and len(rows) > 1 else []
            header = [title, *_NUMBERS]
            places = [place for place, name in enumerate(header) if name not in without]
            cells = [[row[place] for place in places] for row in (*(_cells(row, row.key) for row in rows), *last)]
            shown += ["", *table([header[place] for place in places], cells, screen, right=frozenset(_NUMBERS))]
    return shown[1:]


def _cells(row: "UsageRow", name: str) -> list[str]:
    return [
        name,
        str(row.instructions - sum(row.ended.values())),
        *(str(row.ended.get(status, 0)) for status in _COUNTS),
        str(row.steps),
        *_spent_cells(row),
    ]


def _spent_cells(row: "UsageRow | UsageGroup") -> list[str]:
    usage = row.usage
    more = "+?" if row.unpriced else ""
    cost = f"{usage.cost_usd:.4f}{more}" if usage.cost_usd is not None else "unknown" if more else "-"
    return [
        str(usage.input_tokens + usage.cache_write_tokens),
        str(usage.output_tokens),
        str(usage.cache_read_tokens),
        cost,
        f"{row.worked_seconds:.1f}",
    ]
