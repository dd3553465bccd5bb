"""What was approved once for all."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.approvals import ApprovalRules

_HEADER = ["ID", "AGENT", "TOOL", "SINCE", "PATTERN"]


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    rows = [
        [row.id, row.agent or "(all)", row.tool, row.created_at, row.pattern]
        for row in msgspec.json.decode(body, type=ApprovalRules).rules
    ]
    return table(_HEADER, rows, screen) if rows else ["nothing was approved once for all"]
