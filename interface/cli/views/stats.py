"""What work took: a table each for agents, workspaces and models, and the sum."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table, width
from protocol.api.usage import UsageReport, UsageRow

_COUNTS = ("done", "incomplete", "failed", "dead", "cancelled")
_OUTCOMES = ("OPEN", *(status.upper() for status in _COUNTS))
_NUMBERS = (*_OUTCOMES, "STEPS", "IN", "OUT", "CACHE", "COST$", "SECONDS")


def lines(body: bytes, screen: Screen) -> list[str]:
    """Seconds are worked, not waited. ``+?`` behind a cost: there is more, of which nobody knows the price.

    On a screen that is too narrow outcomes that nothing had are left out first.
    """
    report = msgspec.json.decode(body, type=UsageReport)
    if not report.total.instructions:
        return ["no work was given"]
    whole = _tables(report, Screen(), frozenset())
    if screen.width is None or max(map(width, whole)) <= screen.width:
        return _tables(report, screen, frozenset())
    counts = dict(zip(_OUTCOMES, _cells(report.total, "")[1:], strict=False))
    return _tables(report, screen, frozenset(title for title, count in counts.items() if count == "0"))


def _tables(report: UsageReport, screen: Screen, without: frozenset[str]) -> list[str]:
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


def _cells(row: UsageRow, name: str) -> list[str]:
    usage = row.usage
    return [
        name,
        str(row.instructions - sum(row.ended.values())),
        *(str(row.ended.get(status, 0)) for status in _COUNTS),
        str(row.steps),
        str(usage.input_tokens + usage.cache_write_tokens),
        str(usage.output_tokens),
        str(usage.cache_read_tokens),
        _cost(row),
        f"{row.worked_seconds:.1f}",
    ]


def _cost(row: UsageRow) -> str:
    more = "+?" if row.unpriced else ""
    if row.usage.cost_usd is None:
        return "unknown" if more else "-"
    return f"{row.usage.cost_usd:.4f}{more}"
