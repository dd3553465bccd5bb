"""``awk ps``: the process table, once.

The process table, printed once. Terminals get what fits; pipes get every column whole.
"""

import argparse
import json

import msgspec

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.parsing import json_flag
from interface.cli.process_table import COLUMNS, cells
from protocol.api.processes import Ps


def configure_ps(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run_ps(context: Context) -> int:
    """Print every agent with what it does; what does not run, and why, goes to stderr."""
    document = context.kernel().get("/ps")
    exit_code = context.answer(document, ps_lines, context.clock.wall())
    notice = json.loads(document).get("notice")
    if notice:
        context.out.note(f"note: {one_line(str(notice))}")
    return exit_code


_RIGHT = frozenset(column.title for column in COLUMNS if column.right)


def ps_lines(body: bytes, screen: Screen, now: float) -> list[str]:
    """One line for each agent; ``now`` is wall seconds, for ages."""
    rows = [cells(row, now) for row in msgspec.json.decode(body, type=Ps).agents]
    return table([column.title for column in COLUMNS], rows, screen, right=_RIGHT) if rows else ["no agents"]
