"""What an agent knows."""

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.agent_files import MemoryReport, MemoryRow


def lines(body: bytes, screen: Screen, alone: bool = False) -> list[str]:
    """One line for each entry; with ``alone`` only the value of the one there is, as it stands."""
    entries = msgspec.json.decode(body, type=MemoryReport).entries
    if alone:
        return [escape(entry.value) for entry in entries]
    if not entries:
        return ["nothing"]
    return table(["KEY", "TIER", "SEEN BY", "VALUE"], [_row(entry) for entry in entries], screen)


def _row(entry: MemoryRow) -> list[str]:
    value = f"{entry.value} (from {entry.source})" if entry.source else entry.value
    return [entry.key, entry.tier, entry.visibility, value]
