"""Runs of workflows: what was started when, and what came of it."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.runs import RunList

_HEADER = ["RUN", "MODE", "STATUS", "EXIT", "STARTED", "ENDED"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each. What was stopped by hand has no status but that."""
    rows = [
        [
            row.run,
            row.mode,
            row.status or row.state,
            "-" if row.exit_code is None else str(row.exit_code),
            row.started_at,
            row.ended_at or "-",
        ]
        for row in msgspec.json.decode(body, type=RunList).runs
    ]
    return table(_HEADER, rows, screen, right=frozenset({"EXIT"})) if rows else ["nothing was ever started"]
