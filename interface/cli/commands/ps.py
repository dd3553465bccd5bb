"""``awk ps``: the process table, printed once. Terminals get what fits; pipes get every column whole."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.output import Screen, decode, one_line, table
from interface.cli.parsing import json_flag


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


def ps_lines(body: bytes, screen: Screen, now: float) -> list[str]:
    """One line for each agent; ``now`` is wall seconds, for ages."""
    from interface.cli.process_table import COLUMNS, cells  # noqa: PLC0415  (JSON needs no types)
    from protocol.api.processes import Ps  # noqa: PLC0415  (as above)

    rows = [cells(row, now) for row in decode(body, Ps).agents]
    right = frozenset(column.title for column in COLUMNS if column.right)
    return table([column.title for column in COLUMNS], rows, screen, right=right) if rows else ["no agents"]
