"""What waits for a decision: who would do what, until when."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.approvals import Pending

_HEADER = ["ID", "AGENT", "SPACE", "TOOL", "EXPIRES", "INPUT", "REASON"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    rows = [
        [row.id, row.agent, row.space, row.tool, row.expires_at, input_text(row.input), row.reason or "-"]
        for row in msgspec.json.decode(body, type=Pending).approvals
    ]
    return table(_HEADER, rows, screen) if rows else ["nothing waits for approval"]


def input_text(given: object) -> str:
    """An input as patterns are compared with it; the beginning of one that was too long to list."""
    if isinstance(given, str):
        return f"{given}..."
    return msgspec.json.encode(given, order="sorted").decode()
