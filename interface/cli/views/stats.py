"""What work took: a table each for agents, workspaces and models, and the sum."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.usage import UsageReport, UsageRow

_COUNTS = ("done", "incomplete", "failed", "dead", "cancelled")
_NUMBERS = ("OPEN", *(status.upper() for status in _COUNTS), "STEPS", "IN", "OUT", "CACHE", "COST$", "SECONDS")


def lines(body: bytes, screen: Screen) -> list[str]:
    """Seconds are worked, not waited. ``+?`` behind a cost: there is more, of which nobody knows the price."""
    report = msgspec.json.decode(body, type=UsageReport)
    if not report.total.instructions:
        return ["no work was given"]
    parts = [("AGENT", report.rows), ("WORKSPACE", report.workflows), ("MODEL", report.models)]
    shown: list[str] = []
    for title, rows in parts:
        if rows:
            last = [_cells(report.total, "total")] if title == "AGENT" and len(rows) > 1 else []
            cells = [_cells(row, row.key) for row in rows]
            shown += ["", *table([title, *_NUMBERS], [*cells, *last], screen, right=frozenset(_NUMBERS))]
    return shown[1:]


def _cells(row: UsageRow, name: str) -> list[str]:
    usage = row.usage
    return [
        name,
        str(row.instructions - sum(row.ended.values())),
        *(str(row.ended.get(status, 0)) for status in _COUNTS),
        str(row.steps),
        str(usage.input_tokens),
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
