"""The process table, printed once. Terminals get what fits; pipes get every column whole."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from interface.cli.process_table import COLUMNS, cells
from protocol.api.processes import Ps

_RIGHT = frozenset(column.title for column in COLUMNS if column.right)


def lines(body: bytes, screen: Screen, now: float) -> list[str]:
    """One line for each agent; ``now`` is wall seconds, for ages."""
    rows = [cells(row, now) for row in msgspec.json.decode(body, type=Ps).agents]
    return table([column.title for column in COLUMNS], rows, screen, right=_RIGHT) if rows else ["no agents"]
