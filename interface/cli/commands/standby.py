"""``awk standby``: whether the copy of a project's log at another place can be gone on with."""

import argparse
import os
from typing import Final

from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.offline import check_standby
from protocol.standby import StandbyReport

VERBS: Final = Subcommands(
    "standby",
    (Subcommand("check", "put a copy together elsewhere, and say up to when it goes; changes nothing"),),
)


def configure_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="what standby.to of the project file named")


def run_check(context: Context) -> int:
    folder = os.path.abspath(os.path.join(context.cwd, context.args.folder))
    found = check_standby(folder, context.clock.wall())
    context.answer(found, check_lines)
    return Exit.OK if found.ok else Exit.FAILED


def check_lines(found: StandbyReport, _screen: Screen) -> list[str]:
    """The lines that say whose it is, up to where it goes, and what is wrong."""
    upto = f"m{found.message} (event {found.event}, {found.at or 'nothing yet'})"
    size = f"{found.total_bytes:,} bytes, a base of {found.base_at} and {found.pieces} pieces of the log"
    lines = [one_line(f"{found.folder}: {found.project}, complete to {upto}"), f"{size}, term {found.term}"]
    lines.append(f"{found.files} files of agents" + (f", of {found.files_at}" if found.files_at else ""))
    if found.ended:
        lines.append("its kernel ended in order: nothing that it answered is missing")
    elif found.beat_at:
        lines.append(f"the original was heard of at {found.beat_at}{': it may run' if found.alive else ''}")
    lines += [one_line(f"wrong: {fault}") for fault in found.faults]
    if found.promoted:
        lines.append(one_line(f"it took the original's place already: {found.promoted}"))
    return lines
