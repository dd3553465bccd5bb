"""Instructions that failed for good, and why."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.instructions import Dead

_HEADER = ["ID", "AGENT", "SPACE", "STATUS", "CLASS", "CAUSE", "ATTEMPTS", "DIED", "TEXT"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    rows = [
        [row.id, row.agent, row.space, row.status, row.error_class, row.cause, str(row.attempts), row.died_at, row.text]
        for row in msgspec.json.decode(body, type=Dead).instructions
    ]
    return table(_HEADER, rows, screen, right=frozenset({"ATTEMPTS"})) if rows else ["nothing failed for good"]
