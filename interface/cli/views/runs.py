"""Runs of workflows: what was started when, and what came of it."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.runs import RunList, RunRow

_HEADER = ["ID", "WORKFLOW", "STATUS", "STARTED", "DURATION", "VERDICT", "COST"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each. What was stopped by hand has no status but that."""
    rows = [_row(row) for row in msgspec.json.decode(body, type=RunList).runs]
    return table(_HEADER, rows, screen, right=frozenset({"DURATION", "COST"})) if rows else ["there are no such runs"]


def _row(row: RunRow) -> list[str]:
    cost = "-" if row.cost_usd is None else f"${row.cost_usd:.4f}"
    return [
        row.id,
        row.run,
        row.status or row.state,
        row.started_at,
        f"{row.duration_seconds:.1f}s",
        row.verdict or "-",
        cost,
    ]
