"""What an agent has not handled."""

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.api.messages import Inbox


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each delivery."""
    inbox = msgspec.json.decode(body, type=Inbox)
    if not inbox.deliveries:
        return [f"nothing is open for {escape(inbox.agent)} in {escape(inbox.space)}"]
    rows = [[row.message_id, row.sender, row.state, row.flag or "-", row.text] for row in inbox.deliveries]
    return table(["ID", "FROM", "STATE", "FLAG", "TEXT"], rows, screen)
