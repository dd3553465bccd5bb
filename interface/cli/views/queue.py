"""What waits for an agent, and what it has in hand."""

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.instructions import QueueReport

_HEADER = ["ID", "LANE", "STATUS", "ATTEMPT", "STEP", "PREEMPTED", "ENQUEUED", "WAITS FOR", "UNTIL"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each instruction that has not ended."""
    report = msgspec.json.decode(body, type=QueueReport)
    if not report.instructions:
        return [f"nothing waits for {escape(report.agent)}"]
    rows = [
        [
            row.id,
            row.lane,
            row.status,
            str(row.attempt),
            str(row.step),
            str(row.preempted),
            row.enqueued_at,
            row.waits_for or "-",
            row.until or "-",
        ]
        for row in report.instructions
    ]
    return table(_HEADER, rows, screen, right=frozenset({"ATTEMPT", "STEP", "PREEMPTED"}))
