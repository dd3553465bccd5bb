"""``awk ps`` and ``top``: the process table, printed once or live. Terminals get what fits, pipes every column."""

import json
from typing import TYPE_CHECKING

from interface.cli.context import Context
from interface.cli.output import Screen, one_line, read_fields, table
from interface.cli.parsing import json_flag

if TYPE_CHECKING:
    import argparse

    from protocol.api.processes import Ps


def configure_ps(parser: "argparse.ArgumentParser") -> None:
    """No arguments of its own."""
    json_flag(parser)


def run_ps(context: Context) -> int:
    """Print every agent with what it does; what does not run, and why, goes to stderr."""
    document = context.kernel().get("/ps")
    exit_code = context.answer(document, ps_lines, context.clock.wall())
    report = json.loads(document)
    if report.get("notice"):
        context.out.note(f"note: {one_line(str(report['notice']))}")
    return exit_code


def header_lines(needs: int, screen: Screen) -> list[str]:
    """The line above the table: how many things need a person, and what lists them; nothing where none does."""
    return [screen.style(f"{needs:,} need you (awk needs)", "yellow")] if needs else []


def configure_top(parser: "argparse.ArgumentParser") -> None:
    """No arguments of its own."""
    json_flag(parser)


def run_top(context: Context) -> int:
    """Draw the table until ``q`` or Ctrl-C; where nobody can watch it is printed once."""
    watched = context.out.is_terminal and not context.out.unattended and not context.args.json
    if not watched:
        return context.answer(context.kernel().get("/ps"), ps_lines, context.clock.wall())
    from interface.cli.live_table import watch  # noqa: PLC0415  (rich costs more than the rest of a command)

    context.kernel().close()
    return watch(context)


def ps_lines(body: bytes, screen: Screen, now: float) -> list[str]:
    """One line for each agent; ``now`` is wall seconds, for ages."""
    from interface.cli.process_table import COLUMNS, cells  # noqa: PLC0415  (JSON needs no table)

    report: Ps = read_fields(body)
    rows = [cells(row, now) for row in report.agents]
    right = frozenset(column.title for column in COLUMNS if column.right)
    lines = table([column.title for column in COLUMNS], rows, screen, right=right) if rows else ["no agents"]
    return [*header_lines(report.needs, screen), *lines]
